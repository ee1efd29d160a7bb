"""Schedule of the kernel `cute_sm100` on the host.

It is a balanced split of ragged requests over pairs of CTAs. An item is a range of tiles (128 keys) of one request for
one block of 128 query rows. A request in one item is stored directly; of a split request every item stores a partial
result, which the combine kernel merges. A request without keys has one tile, all hidden, so that its output is written.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernels.mla_decode.cute_sm100.sizes import (
    COMBINE_WARPS,
    FIRST_WORK,
    LATENT,
    PAIR_CTAS,
    RECIPROCAL_BITS,
    TILE_KEYS,
    TILE_ROWS,
    VECTOR,
    WARP,
    WORK_COLUMNS,
)
from kernels.mla_decode.split_kv.plan import Prices, Schedule, Split, assign_splits, merges_of
from kernels.mla_decode.split_kv.plan import cost as plan_cost

# By bytes of an element and pairs of a cluster, in units of the time that a pair takes for a tile: 1.25 and 0.57 us by
# ptxsim's clock of a B200, and about twice that where all pairs have many tiles and DRAM binds. So partial results cost
# more with little work, of up to LITTLE tiles a pair. Where the pairs of a cluster merge, an item takes longer, and
# the combine kernel has fewer partial results to read. Chosen by predictions (docs/decisions/mla_cute_sm100.md).
PRICES = {
    (2, 1): Prices(item=3.0, merge=3.25, partial=1.0),
    (2, 2): Prices(item=5.5, merge=1.75, partial=0.5),
    (2, 4): Prices(item=5.75, merge=1.75, partial=0.25),
    (1, 1): Prices(item=4.0, merge=4.0, partial=2.0),
    (1, 2): Prices(item=7.5, merge=2.25, partial=1.0),
    (1, 4): Prices(item=8.5, merge=2.25, partial=0.5),
}
LITTLE_COSTS = {
    (2, 1): {"partial": 2.5},
    (2, 2): {"item": 6.25, "partial": 1.25},
    (2, 4): {"item": 7.75, "partial": 0.75},
    (1, 1): {"partial": 3.0},
    (1, 2): {"item": 9.5, "partial": 1.5},
    (1, 4): {"item": 9.75, "partial": 0.75},
}
PRICES_OF_LITTLE = {build: replace(PRICES[build], **costs) for build, costs in LITTLE_COSTS.items()}
LITTLE = 2
PARTIALS_OF_ROUND = 16  # of a request, which the combine kernel reads in about one latency
ROUND = {2: 0.25, 1: 0.5}  # and what as many more take it longer, in the same units
FEW_PARTIALS, MERGE_OF_FEW = 4, 1.25  # of a request, in 16 bits, and what merging costs where the GPU is half empty
FED = 64  # pairs that DRAM keeps busy where all have much to do: more of them are done no sooner
CLUSTERED_PROCESSORS = 128  # of a B200's 148: its clusters of four and of eight do not divide all of its GPCs evenly
MOST_EVEN = 1 << RECIPROCAL_BITS // 2  # workers of an even plan, so that its division by multiplication is exact
COMBINE_CTAS = 4  # of the combine kernel on a multiprocessor, by their registers


@dataclass(frozen=True)
class Even:
    """A plan without exceptions, which the kernel can compute without a table.

    Requests have one length, each in `splits` of consecutive workers, an item for each worker. The first `more` splits
    have a unit more than `base`. The table would come from DRAM, before everything else.
    """

    splits: int
    base: int
    more: int
    length: int

    @property
    def reciprocal(self) -> int:
        """Return RECIPROCAL_BITS of 1 / `splits`: times a number, shifted back, it divides."""
        return -(-(1 << RECIPROCAL_BITS) // self.splits)

    def edges(self, split: int) -> tuple[int, int]:
        begin = split * self.base + min(split, self.more)
        return begin, begin + self.base + (split < self.more)


@dataclass(frozen=True)
class PairSchedule(Schedule):
    """CTA pairs' schedule, and combine warps per row, as many as fit."""

    even: Even | None = None

    @property
    def row_warps(self) -> int:
        return self.most_row_warps if self.merges else 0

    def combine_grid(self, rows: int) -> tuple[int, int, int] | None:
        """Grid of the combine kernel: warps have 8, 16 or 32 rows, and splits."""
        if not self.merges:
            return None
        of_warp = min(LATENT // VECTOR // self.row_warps, WARP)
        return -(-rows // of_warp) * of_warp * self.row_warps // COMBINE_WARPS, len(self.merges), 1

    @property
    def uniform_arguments(self) -> tuple[int, int, int, int, int]:
        """What the kernel gets for an even plan; else zeros."""
        even = self.even
        return (even.reciprocal, even.splits, even.base, even.more, even.length) if even else (0, 0, 0, 0, 0)

    @property
    def pairs(self) -> list[list[int]]:
        """What a pair reads first: its first item, and which items are its own."""
        return [
            [*self.items[begin][:FIRST_WORK], begin, end] if begin < end else [0] * WORK_COLUMNS
            for begin, end in itertools.pairwise(self.offsets)
        ]


def make_schedule(
    lengths: Sequence[int], rows: int, processors: int, element_bytes: int = 2, pairs: int = 1
) -> PairSchedule:
    """Split requests of these kv lengths (tokens) over the multiprocessors.

    Each request has `rows` query rows. The `pairs` of a cluster have the same items, and of each item's tiles a share,
    of at least one tile: one past the request's end has no keys.
    """
    row_blocks = -(-rows // TILE_ROWS)
    tiles = [max(1, -(-length // TILE_KEYS)) for length in lengths]
    worker_group, _ = _assign_splits(tiles, row_blocks, processors, element_bytes, pairs)
    even = _even(worker_group, lengths) if row_blocks == 1 else None
    if even is not None:
        worker_group = _worker_group_of(even, len(lengths))
    items, offsets = [], [0]
    for splits in worker_group:
        for row_block, pair in itertools.product(range(row_blocks), range(pairs)):
            for split in splits:
                begin, end = _share(split, tiles[split.request], pair, pairs)
                values = [split.request, row_block, begin, end, split.partial, lengths[split.request]]
                items.append(values + [0] * (WORK_COLUMNS - len(values)))
            offsets.append(len(items))
    merges = merges_of(worker_group)
    partials, most = sum(merge[2] for merge in merges), _most_row_warps(rows * len(merges), processors)
    return PairSchedule(worker_group, items, offsets, merges, partials, even, most_row_warps=most)


def cost(lengths: Sequence[int], rows: int, processors: int, element_bytes: int, pairs: int) -> float:
    """Return the cost in a pair's time per tile; the cheaper build is faster."""
    tiles = [max(1, -(-length // TILE_KEYS)) for length in lengths]
    return _assign_splits(tiles, -(-rows // TILE_ROWS), processors, element_bytes, pairs)[1]


def _assign_splits(
    tiles: Sequence[int], row_blocks: int, processors: int, element_bytes: int, pairs: int
) -> tuple[tuple[tuple[Split, ...], ...], float]:
    """Return the worker groups of a row block, and their cost.

    Their unit is as many tiles as a cluster has pairs. Where all have much to do, as many workers as DRAM feeds may do
    with fewer splits what all of them do no sooner.
    """
    if pairs > 1:
        processors = min(processors, CLUSTERED_PROCESSORS)
    workers, units = max(1, processors // (PAIR_CTAS * pairs * row_blocks)), _units(tiles, pairs)
    little = sum(units) <= LITTLE * workers
    prices = (PRICES_OF_LITTLE if little else PRICES)[element_bytes, pairs]
    fed = min(workers, FED // pairs) if row_blocks == 1 and not little else workers
    tried = [(workers, prices)] + [(fed, prices)] * (fed != workers)
    if little and (element_bytes, pairs) == (2, 1):
        tried.append((workers, replace(prices, merge=MERGE_OF_FEW)))
    result = []
    for count, chosen in tried:
        worker_group = assign_splits(units, count, chosen, leftovers=True)
        merges = merges_of(worker_group)
        most, partials = max((merge[2] for merge in merges), default=1), sum(merge[2] for merge in merges)
        if chosen is not prices and (most > FEW_PARTIALS or 2 * partials > workers):
            continue
        busiest = max(sum(split.end - split.begin for split in splits) for splits in worker_group)
        late = 0.0 if little else max(sum(tiles) / FED - busiest, 0.0)
        rounds = ROUND[element_bytes] * ((most - 1) // PARTIALS_OF_ROUND)
        result.append((worker_group, plan_cost(worker_group, count, chosen) + late + rounds))
    return min(result, key=lambda one: one[1])


def _even(worker_group: Sequence[Sequence[Split]], lengths: Sequence[int]) -> Even | None:
    """Return an even plan's numbers, whatever the order of workers and splits."""
    if len(set(lengths)) != 1 or any(len(splits) != 1 for splits in worker_group) or len(worker_group) >= MOST_EVEN:
        return None
    sizes = [sorted(p.end - p.begin for (p,) in worker_group if p.request == n) for n in range(len(lengths))]
    count, units = len(sizes[0]), sum(sizes[0])
    base, more = divmod(units, count)
    even = [base] * (count - more) + [base + 1] * more
    return Even(count, base, more, lengths[0]) if all(result == even for result in sizes) else None


def _worker_group_of(even: Even, requests: int) -> tuple[tuple[Split, ...], ...]:
    """Request by request, split by split."""
    workers = range(requests * even.splits)
    partial = (lambda worker: worker) if even.splits > 1 else (lambda worker: -1)
    return tuple((Split(w // even.splits, *even.edges(w % even.splits), partial(w)),) for w in workers)


def _units(tiles: Sequence[int], pairs: int) -> list[int]:
    return [-(-count // pairs) for count in tiles]


def _share(split: Split, tiles: int, pair: int, pairs: int) -> tuple[int, int]:
    """Return the tiles that each pair of the cluster takes of a split."""
    begin, end = pairs * split.begin, min(pairs * split.end, tiles)
    count = max(end - begin, pairs)
    return begin + count * pair // pairs, begin + count * (pair + 1) // pairs


def _most_row_warps(rows: int, processors: int) -> int:
    """Return the most combine warps per row without a second wave of CTAs."""
    return max((n for n in (1, 2, 4, 8) if rows * n <= COMBINE_WARPS * COMBINE_CTAS * processors), default=1)
