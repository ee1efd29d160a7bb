"""Who computes what in the kernel `cutile`: ragged requests cut into work items of about equal length, on the host.

An *item* is a range of KV tiles of one request. It becomes as many blocks as the query rows and the latent width need,
and the multiprocessors take the blocks in order, each the next one when it has finished: list scheduling (Graham,
SIAM J. Appl. Math. 17(2), 1969). Items are therefore sorted, the longest first.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

UNUSED = 0  # the partial result that a whole request among pieces writes, and nobody reads


@dataclass(frozen=True)
class Item:
    """KV tiles [begin, end) of a request of `length` tokens; `partial` is the index of its partial result."""

    request: int
    length: int
    begin: int
    end: int
    partial: int = UNUSED

    @property
    def row(self) -> list[int]:
        """What the device reads: see `Items` in kernel.py."""
        return [self.request, self.length, self.begin, self.end, self.partial]


@dataclass(frozen=True)
class Merge:
    """The partial results of a request: `pieces` of them, from index `first` on."""

    request: int
    first: int
    pieces: int

    @property
    def row(self) -> list[int]:
        """What the device reads: see `Merges` in kernel.py."""
        return [self.request, self.first, self.pieces]


@dataclass(frozen=True)
class Schedule:
    """Items, the longest first, and what `combine` has to merge. Partial result 0 is `UNUSED`."""

    items: tuple[Item, ...]
    merges: tuple[Merge, ...]

    @property
    def partials(self) -> int:
        """Number of partial results, the unused one included."""
        return 1 + sum(merge.pieces for merge in self.merges)

    @property
    def kind(self) -> str:
        """Which kernel takes these items: `whole` requests only, pieces only (`kernel`), or both (`mixed`)."""
        if not self.merges:
            return "whole"
        return "kernel" if self.partials - 1 == len(self.items) else "mixed"


def make_schedule(lengths: Sequence[int], keys: int, chunk: int, direct: bool = True) -> Schedule:
    """Cut requests of these kv lengths (tokens) into pieces of at most `chunk` KV tiles of `keys` tokens each.

    The pieces of a request differ by one tile at most. A request without keys is an item too: somebody has to write
    its zeros. Requests in one piece write the output themselves if `direct`, else a partial result as all others do.
    """
    items, merges, partial = [], [], UNUSED + 1
    for request, length in enumerate(lengths):
        tiles = -(-length // keys)
        pieces = piece_count(tiles, chunk)
        if pieces == 1 and direct:
            items.append(Item(request, length, 0, tiles))
            continue
        edges = [tiles * piece // pieces for piece in range(pieces + 1)]
        ranges = enumerate(itertools.pairwise(edges), partial)
        items += [Item(request, length, begin, end, index) for index, (begin, end) in ranges]
        merges.append(Merge(request, partial, pieces))
        partial += pieces
    return Schedule(tuple(sorted(items, key=lambda item: item.begin - item.end)), tuple(merges))


def piece_count(tiles: int, chunk: int) -> int:
    """Pieces that a request of so many KV tiles is cut into."""
    return max(1, -(-tiles // chunk))


def piece_sizes(requests: Mapping[int, int], chunk: int) -> Counter[int]:
    """How many items of each size in tiles `make_schedule` makes of requests given as tiles -> number of requests."""
    sizes: Counter[int] = Counter()
    for tiles, count in requests.items():
        pieces = piece_count(tiles, chunk)
        small, larger = divmod(tiles, pieces)
        sizes[small] += count * (pieces - larger)
        if larger:
            sizes[small + 1] += count * larger
    return sizes


def chunk_sizes(tiles: int, most: int) -> list[int]:
    """Sizes of a piece in tiles that cut a request of so many tiles into 1, 2, ... pieces, no more than `most`."""
    return sorted({-(-tiles // pieces) for pieces in range(1, min(tiles, most) + 1)} or {1}, reverse=True)


def makespan(items: Iterable[tuple[float, int]], processors: int) -> float:
    """When the last of all blocks ends, if each processor takes the next block as it finishes one.

    `items` are the duration of a block and how many such blocks there are, in the order in which they start.
    """
    free = [0.0] * processors
    for duration, count in items:
        for _ in range(count):
            heapq.heapreplace(free, free[0] + duration)
    return max(free)
