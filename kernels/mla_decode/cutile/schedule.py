"""Schedule of the kernel `cutile` on the host.

It cuts ragged requests into work items of about equal length. An *item* is a range of KV tiles of one request. It
becomes as many blocks as the query rows and the latent width need, and the multiprocessors take the blocks in order,
each the next one when it has finished: list scheduling (Graham, SIAM J. Appl. Math. 17(2), 1969). Items are therefore
sorted, the longest first.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

GRAIN = 8  # sizes of a split that are tried, from each number of splits of the longest request to the next


@dataclass(frozen=True)
class Item:
    """KV tiles [begin, end) of a request of `length` tokens, and its partial result."""

    request: int
    length: int
    begin: int
    end: int
    partial: int = 0

    @property
    def row(self) -> list[int]:
        """What the device reads: see `Items` in kernel.py."""
        return [self.request, self.length, self.begin, self.end, self.partial]


@dataclass(frozen=True)
class Merge:
    """The partial results of a request: `splits` of them, from index `first` on."""

    request: int
    first: int
    splits: int

    @property
    def row(self) -> list[int]:
        """What the device reads: see `Merges` in kernel.py."""
        return [self.request, self.first, self.splits]


@dataclass(frozen=True)
class Schedule:
    """Work items of split and of whole requests, the longest first, and merges."""

    splits: tuple[Item, ...]
    whole: tuple[Item, ...]
    merges: tuple[Merge, ...]


def make_schedule(lengths: Sequence[int], keys: int, chunk: int, direct: bool = True, even: bool = True) -> Schedule:
    """Cut requests into splits of at most `chunk` KV tiles.

    The kv lengths are in tokens; a tile has `keys` tokens. If `even` the splits of a request differ by one tile at
    most; else all but the last have `chunk` tiles. A request without keys is an item too: somebody has to write its
    zeros. Where some requests are split, the others write the output themselves if `direct`, and else a partial result
    like a split. Where none is split, all write the output.
    """
    direct = direct or max(lengths) <= chunk * keys
    splits: list[Item] = []
    whole: list[Item] = []
    merges: list[Merge] = []
    for request, length in enumerate(lengths):
        tiles = -(-length // keys)
        count = split_count(tiles, chunk)
        if count == 1 and direct:
            whole.append(Item(request, length, 0, tiles))
            continue
        merges.append(Merge(request, len(splits), count))
        edges = [tiles * split // count if even else min(tiles, split * chunk) for split in range(count + 1)]
        ranges = enumerate(itertools.pairwise(edges), len(splits))
        splits += [Item(request, length, begin, end, index) for index, (begin, end) in ranges]
    return Schedule(_longest_first(splits), _longest_first(whole), tuple(merges))


def _longest_first(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(sorted(items, key=lambda item: item.begin - item.end))


def split_count(tiles: int, chunk: int) -> int:
    """Pieces that a request of so many KV tiles is cut into."""
    return max(1, -(-tiles // chunk))


def split_sizes(requests: Mapping[int, int], chunk: int, even: bool = True) -> Counter[int]:
    """Count `make_schedule`'s splits by size; requests are tiles -> number of requests."""
    sizes: Counter[int] = Counter()
    for tiles, count in requests.items():
        splits = split_count(tiles, chunk)
        if not even:
            sizes[chunk] += count * (splits - 1)
            sizes[tiles - chunk * (splits - 1)] += count
            continue
        small, larger = divmod(tiles, splits)
        sizes[small] += count * (splits - larger)
        if larger:
            sizes[small + 1] += count * larger
    return sizes


def chunk_sizes(tiles: int, most: int) -> list[int]:
    """Return the split sizes that cut a request into 1, 2, ... `most` splits.

    Between 1 and GRAIN splits, sizes lie closer to each other, since the time of all others depends on them.
    """
    most = min(tiles, most)
    sizes = {-(-tiles // splits) for splits in range(1, most + 1)}
    sizes |= {-(-GRAIN * tiles // eighths) for eighths in range(GRAIN, GRAIN * min(most, GRAIN) + 1)}
    return sorted(sizes or {1}, reverse=True)


def makespan(items: Iterable[tuple[float, int]], processors: int) -> float:
    """Return when the last block ends under list scheduling.

    Each processor takes the next block as it finishes one. `items` are the duration of a block and how many such blocks
    there are, in the order in which they start.
    """
    free = [0.0] * processors
    for duration, count in items:
        for _ in range(count):
            heapq.heapreplace(free, free[0] + duration)
    return max(free)
