"""Plan on the host how ragged requests are split over workers.

Lengths are counted in units of keys (a page, a pair of pages, a tile); a *worker* takes a range of units of a request
at a time. A request in one split is stored directly; of a split request every split stores a partial result, which the
combine kernel (combine.py) merges. All row blocks of a request are split equally, so the plan is made once, for one
*worker group* of workers, and every row block gets a worker group.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

QUARTERS = 4  # of a unit: the grain of all prices
COMBINE_WARPS = 8  # of a CTA of the combine kernel
MOST_COMBINE_CTAS = 1056  # where merges are looked for on the GPU: all that 132 multiprocessors hold at once


@dataclass(frozen=True)
class Split:
    """Units [begin, end) of a request, with its partial result (-1: the request is whole)."""

    request: int
    begin: int
    end: int
    partial: int


@dataclass(frozen=True)
class Schedule:
    """A plan, and the tables that the split kernel and the combine kernel read."""

    worker_group: tuple[tuple[Split, ...], ...]  # splits of each worker of a worker group
    items: list[list[int]]  # the kernel's layout.py or sizes.py names the columns
    offsets: list[int]  # items of worker w: offsets[w] to offsets[w + 1]
    merges: list[list[int]]  # columns: request, first partial, number of partials, 0
    partials: int
    most_row_warps: int = field(default=COMBINE_WARPS, kw_only=True)

    @property
    def row_warps(self) -> int:
        """Warps of the combine kernel that share a row; 0 without merges."""
        most = max((partials for _, _, partials, _ in self.merges), default=None)
        return 0 if most is None else min(row_warps(most), self.most_row_warps)

    def combine_grid(self, rows: int) -> tuple[int, int, int] | None:
        """Return the combine kernel's grid for `rows` query rows, None without merges."""
        return (combine_blocks(rows, self.row_warps), len(self.merges), 1) if self.merges else None


def row_warps(most: int) -> int:
    """Return about half as many warps as the most split request has splits."""
    return 2 if most < 4 else 4 if most < 8 else 8


def combine_blocks(rows: int, warps_of_a_row: int) -> int:
    """Return the combine kernel's CTAs for a request of `rows` query rows."""
    return -(-rows * warps_of_a_row // COMBINE_WARPS)


@dataclass(frozen=True)
class Prices:
    """Costs of a plan besides the busiest worker's units, in the time of one unit.

    ValueError for a price that is no multiple of a quarter: plans are compared in whole numbers.
    """

    item: float  # of each item: first loads, the last store
    merge: float  # once, if any request is split: the combine kernel
    partial: float  # of as many partial results as there are workers: they are written, and read again

    def __post_init__(self) -> None:
        for name in ("item", "merge", "partial"):
            if not (QUARTERS * getattr(self, name)).is_integer():
                raise ValueError(f"the price {name} is {getattr(self, name)}; it has to be a multiple of a quarter")

    @property
    def quarters(self) -> tuple[int, int, int]:
        """Return item, merge and partial in quarters of a unit."""
        return int(QUARTERS * self.item), int(QUARTERS * self.merge), int(QUARTERS * self.partial)

    def max_splits(self, requests: int, workers: int) -> int:
        """Return a bound on the splits of any plan.

        `_walk` cuts at most workers - 1 times, and its load is at most an item and a unit above the mean. A plan is
        only chosen if it costs no more, and every split beyond one a request is an item and a partial result more.
        """
        item, _, partial = self.quarters
        return requests + workers * (item + QUARTERS + 2 * partial) // (item + partial)

    def most_partials(self, workers: int) -> int:
        """Return a bound on partial results: a split request has two or more."""
        item, _, partial = self.quarters
        return 2 * workers * (item + QUARTERS + 2 * partial) // (item + 2 * partial)


def assign_splits(
    units: Sequence[int],
    workers: int,
    prices: Prices,
    leftovers: bool = False,
    most: int | None = None,
    walk_leftovers: bool = False,
) -> tuple[tuple[Split, ...], ...]:
    """Return the cheapest of a few plans for requests of `units` units each.

    For each chunk size: every request cut into equal chunks, the longest first to the least loaded worker. And a walk
    that fills one worker after the other. With `leftovers` also, for each chunk size: as many of the longest requests
    as all workers can have equally stay whole, and only those left over are cut; with `walk_leftovers` a walk of these
    too. The first of the cheapest, in this order. With `most` none that cuts a request into more splits.
    """
    if not units:
        return ((),)  # a launch has a worker
    best: tuple[int, list[list[tuple[int, int, int]]]] | None = None
    for cuts in _all_cuts(units, workers, leftovers):
        if most is not None and max(map(len, cuts)) > most:
            continue
        if best is not None and _least_cost(cuts, workers, prices) >= best[0]:
            continue
        plan = _pack(cuts, workers, prices)
        cost = _cost(plan, workers, prices)
        if best is None or cost < best[0]:
            best = (cost, plan)
    assert best is not None  # there is always a chunk size
    walks = [_walk(units, range(len(units)), [[] for _ in range(workers)], prices, most)]
    if walk_leftovers and len(units) > workers and (left := _left_over(units, workers)):
        whole = [[] if request in left else [(0, count)] for request, count in enumerate(units)]
        walks.append(_walk(units, left, _pack(whole, workers, prices), prices, most))
    cost, walk = min(((_cost(walk, workers, prices), walk) for walk in walks), key=lambda one: one[0])
    return _number_partials(walk if cost < best[0] else best[1])


def _all_cuts(units: Sequence[int], workers: int, leftovers: bool) -> Iterator[list[list[tuple[int, int]]]]:
    """Yield the ways in which `make_lane` cuts requests, as ranges of splits."""
    for chunk in _chunk_sizes(units, workers):
        yield [_equal_cuts(count, chunk) for count in units]
    if leftovers and len(units) > workers:
        left = set(_left_over(units, workers))
        for chunk in _chunk_sizes([units[request] for request in left], workers):
            yield [_equal_cuts(count, chunk if request in left else count) for request, count in enumerate(units)]


def _left_over(units: Sequence[int], workers: int) -> list[int]:
    """Return the shortest requests, beyond as many as all workers can have equally."""
    longest_first = sorted(range(len(units)), key=lambda request: -units[request])
    return longest_first[len(units) - len(units) % workers :]


def cost(worker_group: tuple[tuple[Split, ...], ...], workers: int, prices: Prices) -> float:
    """Return the cost of a plan, in the time of a unit."""
    plan = [[(split.request, split.begin, split.end) for split in splits] for splits in worker_group]
    return _cost(plan, workers, prices) / (QUARTERS * workers)


def _chunk_sizes(units: Sequence[int], workers: int) -> list[int]:
    """Return the sizes that cut the longest request into 1, 2, ... equal chunks."""
    longest = max(units, default=0)
    return sorted({-(-longest // splits) for splits in range(1, min(longest, workers) + 1)}, reverse=True)


def _equal_cuts(count: int, chunk: int) -> list[tuple[int, int]]:
    splits = -(-count // chunk)
    edges = [count * i // splits for i in range(splits + 1)]
    return list(itertools.pairwise(edges))


def _pack(cuts: list[list[tuple[int, int]]], workers: int, prices: Prices) -> list[list[tuple[int, int, int]]]:
    """Give splits, the longest first, to the worker with the least load."""
    item, _, _ = prices.quarters
    plan: list[list[tuple[int, int, int]]] = [[] for _ in range(workers)]
    loads = [(0, worker) for worker in range(workers)]
    splits = [(begin, end, request) for request, ranges in enumerate(cuts) for begin, end in ranges]
    for begin, end, request in sorted(splits, key=lambda split: split[0] - split[1]):
        load, worker = heapq.heappop(loads)
        plan[worker].append((request, begin, end))
        heapq.heappush(loads, (load + QUARTERS * (end - begin) + item, worker))
    return [splits for splits in plan if splits]


def _walk(
    units: Sequence[int],
    requests: Sequence[int],
    so_far: list[list[tuple[int, int, int]]],
    prices: Prices,
    most: int | None,
) -> list[list[tuple[int, int, int]]]:
    """Fill worker after worker up to the least common load that has room for all.

    Workers take the requests in their order, on top of what `so_far` has. Without that, a worker wastes less than an
    item and a unit, in room or in the second item of a request that it cuts: so an item and a unit above the mean there
    is room, unless a request may have no more splits than `most`. Then, and with a plan so far, loads are tried in
    steps of some 0.3 %.
    """
    item, _, _ = prices.quarters
    loads = [sum(QUARTERS * (end - begin) + item for _, begin, end in splits) for splits in so_far]
    least = (sum(loads) + sum(QUARTERS * units[request] + item for request in requests)) // len(so_far)
    step = 1 if most is None and not any(loads) else 1 + least // 300
    plans = (_fill(units, requests, so_far, loads, item, load, most) for load in itertools.count(least, step))
    return next(plan for plan in plans if plan is not None)


def _fill(
    units: Sequence[int],
    requests: Sequence[int],
    so_far: list[list[tuple[int, int, int]]],
    loads: list[int],
    item: int,
    capacity: int,
    most: int | None,
) -> list[list[tuple[int, int, int]]] | None:
    """Fill workers up to `capacity` (quarters of a unit); None if that is too little."""
    plan: list[list[tuple[int, int, int]]] = []
    waiting = iter(requests)
    request, done, cuts = next(waiting, None), 0, 0
    later = (capacity - max(loads) - item) // QUARTERS  # what any worker takes of a request that it begins with
    for splits, load in zip(so_far, loads, strict=True):
        splits, room = list(splits), capacity - load
        while request is not None:
            left = units[request] - done
            take = min(left, (room - item) // QUARTERS)
            if take <= 0 or (most is not None and left - take > (most - cuts - 1) * later):
                break
            splits.append((request, done, done + take))
            room -= QUARTERS * take + item
            done, cuts = done + take, cuts + 1
            if done == units[request]:
                request, done, cuts = next(waiting, None), 0, 0
        if splits:
            plan.append(splits)
    return plan if request is None else None


def _least_cost(cuts: list[list[tuple[int, int]]], workers: int, prices: Prices) -> int:
    """Return the cost of these cuts if all workers had the same load."""
    item, merge, partial = prices.quarters
    splits = [len(ranges) for ranges in cuts]
    partials = sum(count for count in splits if count > 1)
    load = QUARTERS * sum(ranges[-1][1] for ranges in cuts) + item * sum(splits)
    return load + workers * merge * (partials > 0) + partial * partials


def _cost(plan: list[list[tuple[int, int, int]]], workers: int, prices: Prices) -> int:
    """Return the cost in quarters of a unit times the workers: a whole number."""
    item, merge, partial = prices.quarters
    load = max(sum(QUARTERS * (end - begin) + item for _, begin, end in splits) for splits in plan)
    splits_of = Counter(request for splits in plan for request, _, _ in splits)
    partials = sum(count for count in splits_of.values() if count > 1)
    return workers * (load + merge * (partials > 0)) + partial * partials


def _number_partials(plan: list[list[tuple[int, int, int]]]) -> tuple[tuple[Split, ...], ...]:
    """Assign numbers to partial results, consecutive within a request, in key order."""
    ranges: dict[int, list[int]] = {}
    for splits in plan:
        for request, begin, _ in splits:
            ranges.setdefault(request, []).append(begin)
    index: dict[tuple[int, int], int] = {}
    for request in sorted(ranges):
        if len(ranges[request]) > 1:
            for begin in sorted(ranges[request]):
                index[request, begin] = len(index)
    return tuple(
        tuple(Split(request, begin, end, index.get((request, begin), -1)) for request, begin, end in splits)
        for splits in plan
    )


def merges_of(worker_group: tuple[tuple[Split, ...], ...]) -> list[list[int]]:
    partials: dict[int, list[int]] = {}
    for splits in worker_group:
        for split in splits:
            if split.partial >= 0:
                partials.setdefault(split.request, []).append(split.partial)
    return [[request, min(result), len(result), 0] for request, result in sorted(partials.items())]
