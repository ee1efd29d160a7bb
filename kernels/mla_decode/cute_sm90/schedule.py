"""Who computes what in the kernel `cute_sm90`: a balanced split of ragged requests over the CTAs, made on the host.

A *worker* is a CTA, or a cluster of two that share either row blocks or (`halves`) keys; each has a list of work
items. An item is a range of pages of one request for one block of 64 query rows. A request in one item is stored
directly; of a split request every item stores a partial result, which the combine kernel merges, as it merges the no
partial results of a request of length 0. All row blocks of a
request are split alike, so the schedule is made once, for one *lane* of workers, and every row block gets a lane.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernels.mla_decode.cute_sm90.layout import ITEM_COLUMNS, PAGE, ROWS

# Fitted to the H200, in units of the time that one page takes.
ITEM_PAGES = 5.0  # per item: first loads, the last store
MERGE_PAGES = 3.0  # once, if any request is split: the combine kernel


@dataclass(frozen=True)
class Piece:
    """Pages [begin, end) of a request; `partial` is the index of its partial result, -1 if the request is whole."""

    request: int
    begin: int
    end: int
    partial: int


@dataclass(frozen=True)
class Schedule:
    """`lane[w]`: the pieces of worker w of a lane. `items` and `offsets` are what the split kernel reads, `merges` what
    the combine kernel reads (columns: request, first partial, number of partials, 0)."""

    lane: tuple[tuple[Piece, ...], ...]
    items: list[list[int]]  # see cute_sm90/layout.py for the columns
    offsets: list[int]  # items of worker w: offsets[w] to offsets[w + 1]
    merges: list[list[int]]
    partials: int


def make_schedule(
    lengths: Sequence[int],
    rows: int,
    processors: int,
    cluster: int = 1,
    halves: bool = False,
    item_pages: float = ITEM_PAGES,
    merge_pages: float = MERGE_PAGES,
) -> Schedule:
    """Split requests of these kv lengths (tokens), each with `rows` query rows, over the device's multiprocessors.

    With `halves` a worker takes two pages in the time of one, and items begin at even pages.
    """
    row_blocks = -(-rows // ROWS)
    blocks = 1 if halves else cluster  # row blocks of a worker
    groups = -(-row_blocks // blocks)
    workers = max(1, processors // (cluster * groups))
    pages = [-(-length // PAGE) for length in lengths]
    unit = 2 if halves else 1
    occupied = [request for request, count in enumerate(pages) if count]
    lane = make_lane([-(-pages[request] // unit) for request in occupied], workers, item_pages, merge_pages)
    lane = tuple(tuple(replace(piece, request=occupied[piece.request]) for piece in pieces) for pieces in lane)
    empty = [request for request, count in enumerate(pages) if count == 0]
    items, offsets = [], [0]
    for pieces in lane:
        for group in range(groups):
            for piece in pieces:
                begin, end = unit * piece.begin, min(unit * piece.end, pages[piece.request])
                values = [piece.request, group * blocks, begin, end, piece.partial, lengths[piece.request]]
                items.append(values + [0] * (ITEM_COLUMNS - len(values)))
            offsets.append(len(items))
    merges = merges_of(lane) + [[request, 0, 0, 0] for request in empty]
    return Schedule(lane, items, offsets, merges, sum(merge[2] for merge in merges))


def make_lane(
    pages: Sequence[int], workers: int, item_pages: float, merge_pages: float
) -> tuple[tuple[Piece, ...], ...]:
    """The cheapest of a few plans for requests of so many pages, at least one each.

    For each chunk size: every request cut into equal chunks, the longest first to the least loaded worker. And a walk
    that fills one worker after the other.
    """
    if not pages:
        return ((),)  # a launch has a worker
    best: tuple[float, list[list[tuple[int, int, int]]]] | None = None
    for chunk in _chunk_sizes(pages, workers):
        cuts = [_equal_cuts(count, chunk) for count in pages]
        plan = _pack(cuts, workers, item_pages)
        cost = _cost(plan, item_pages, merge_pages)
        if best is None or cost < best[0]:
            best = (cost, plan)
    assert best is not None  # there is always a chunk size
    walk = _walk(pages, workers, item_pages)
    if walk is not None and _cost(walk, item_pages, merge_pages) < best[0]:
        best = (0, walk)
    return _number_partials(best[1])


def _chunk_sizes(pages: Sequence[int], workers: int) -> list[int]:
    """Sizes that cut the longest request into 1, 2, ... equal chunks, as long as there are workers for them."""
    longest = max(pages)
    return sorted({-(-longest // pieces) for pieces in range(1, min(longest, workers) + 1)}, reverse=True)


def _equal_cuts(count: int, chunk: int) -> list[tuple[int, int]]:
    pieces = -(-count // chunk)
    edges = [count * i // pieces for i in range(pieces + 1)]
    return list(itertools.pairwise(edges))


def _pack(cuts: list[list[tuple[int, int]]], workers: int, item_pages: float) -> list[list[tuple[int, int, int]]]:
    """Longest first, each to the worker that has least to do."""
    plan: list[list[tuple[int, int, int]]] = [[] for _ in range(workers)]
    loads = [(0.0, worker) for worker in range(workers)]
    pieces = [(begin, end, request) for request, ranges in enumerate(cuts) for begin, end in ranges]
    for begin, end, request in sorted(pieces, key=lambda piece: piece[0] - piece[1]):
        load, worker = heapq.heappop(loads)
        plan[worker].append((request, begin, end))
        heapq.heappush(loads, (load + end - begin + item_pages, worker))
    return [pieces for pieces in plan if pieces]


def _walk(pages: Sequence[int], workers: int, item_pages: float) -> list[list[tuple[int, int, int]]] | None:
    """Fill worker after worker up to a common load, the least one (to a quarter of a page) that has room for all."""
    low = (sum(pages) + item_pages * len(pages)) / workers
    high = low + max(pages) + 2 * item_pages
    best = None
    while high - low > 0.25 or best is None:
        middle = (low + high) / 2
        plan = _fill(pages, workers, item_pages, middle)
        if plan is None:
            low = middle
        else:
            best, high = plan, middle
        if high - low < 0.01:
            break
    return best


def _fill(
    pages: Sequence[int], workers: int, item_pages: float, capacity: float
) -> list[list[tuple[int, int, int]]] | None:
    plan: list[list[tuple[int, int, int]]] = []
    request, done = 0, 0
    for _ in range(workers):
        room, pieces = capacity, []
        while request < len(pages):
            left = pages[request] - done
            take = min(left, int(room - item_pages))
            if take <= 0:
                break
            pieces.append((request, done, done + take))
            room -= take + item_pages
            done += take
            if done == pages[request]:
                request, done = request + 1, 0
        if pieces:
            plan.append(pieces)
    return plan if request == len(pages) else None


def _cost(plan: list[list[tuple[int, int, int]]], item_pages: float, merge_pages: float) -> float:
    load = max(sum(end - begin + item_pages for _, begin, end in pieces) for pieces in plan)
    requests = [piece[0] for pieces in plan for piece in pieces]
    return load + merge_pages * (len(requests) > len(set(requests)))


def _number_partials(plan: list[list[tuple[int, int, int]]]) -> tuple[tuple[Piece, ...], ...]:
    """Partial results of one request lie side by side, in the order of its pages."""
    ranges: dict[int, list[int]] = {}
    for pieces in plan:
        for request, begin, _ in pieces:
            ranges.setdefault(request, []).append(begin)
    index: dict[tuple[int, int], int] = {}
    for request in sorted(ranges):
        if len(ranges[request]) > 1:
            for begin in sorted(ranges[request]):
                index[request, begin] = len(index)
    return tuple(
        tuple(Piece(request, begin, end, index.get((request, begin), -1)) for request, begin, end in pieces)
        for pieces in plan
    )


def merges_of(lane: tuple[tuple[Piece, ...], ...]) -> list[list[int]]:
    partials: dict[int, list[int]] = {}
    for pieces in lane:
        for piece in pieces:
            if piece.partial >= 0:
                partials.setdefault(piece.request, []).append(piece.partial)
    return [[request, min(found), len(found), 0] for request, found in sorted(partials.items())]
