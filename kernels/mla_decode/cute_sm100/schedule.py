"""Who computes what in the kernel `cute_sm100`: a balanced split of ragged requests over pairs of CTAs, on the host.

An item is a range of tiles (128 keys) of one request for one block of 128 query rows. A request in one item is stored
directly; of a split request every item stores a partial result, which the combine kernel merges. A request without
keys has one tile, all hidden, so that its output is written.
"""

from __future__ import annotations

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
from kernels.mla_decode.split_kv.plan import Piece, Prices, Schedule, make_lane, merges_of
from kernels.mla_decode.split_kv.plan import cost as plan_cost

# By bytes of an element and pairs of a cluster, in units of the time that a pair takes for a tile: 1.25 and 0.57 us by
# ptxsim's clock of a B200, and about twice that where all pairs have many tiles and DRAM binds. So partial results cost
# more beside little work, of up to LITTLE tiles a pair. Where the pairs of a cluster merge, an item takes longer, and
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
FEW_PARTIALS, MERGE_OF_FEW = 4, 1.25  # of a request, in 16 bits, and what merging costs where the card is half empty
FED = 64  # pairs that DRAM keeps busy where all have much to do: more of them are done no sooner
CLUSTERED_PROCESSORS = 128  # of a B200's 148: its clusters of four and of eight do not divide all of its GPCs evenly
MOST_EVEN = 1 << RECIPROCAL_BITS // 2  # workers of an even plan, so that its division by multiplication is exact
COMBINE_CTAS = 4  # of the combine kernel on a multiprocessor, by their registers


@dataclass(frozen=True)
class Even:
    """A plan without exceptions: requests of one length, each in `pieces` of consecutive workers, an item for each
    worker. The first `more` pieces have a unit more than `base`. The kernel is told so, and works out its item: the
    table that has it would come from DRAM, before everything else."""

    pieces: int
    base: int
    more: int
    length: int

    @property
    def reciprocal(self) -> int:
        """Of `pieces`: a worker's number times it, shifted by RECIPROCAL_BITS, is the worker's number over `pieces`."""
        return -(-(1 << RECIPROCAL_BITS) // self.pieces)

    def edges(self, piece: int) -> tuple[int, int]:
        begin = piece * self.base + min(piece, self.more)
        return begin, begin + self.base + (piece < self.more)


@dataclass(frozen=True)
class PairSchedule(Schedule):
    """The schedule of pairs of CTAs, with the combine kernel's warps to a row: as many as run at once."""

    even: Even | None = None

    @property
    def row_warps(self) -> int:
        return self.most_row_warps if self.merges else 0

    def combine_grid(self, rows: int) -> tuple[int, int, int] | None:
        """As `Combine` launches it: its warps have 8, 16 or 32 rows, and pieces of them."""
        if not self.merges:
            return None
        of_warp = min(LATENT // VECTOR // self.row_warps, WARP)
        return -(-rows // of_warp) * of_warp * self.row_warps // COMBINE_WARPS, len(self.merges), 1

    @property
    def uniform_arguments(self) -> tuple[int, int, int, int, int]:
        """What the kernel is told of an even plan; else zeros."""
        even = self.even
        return (even.reciprocal, even.pieces, even.base, even.more, even.length) if even else (0, 0, 0, 0, 0)

    @property
    def pairs(self) -> list[list[int]]:
        """What a pair reads first: its first item, and which items are its own."""
        return [
            [*self.items[begin][:FIRST_WORK], begin, end] if begin < end else [0] * WORK_COLUMNS
            for begin, end in itertools.pairwise(self.offsets)
        ]


def make_schedule(
    lengths: Sequence[int],
    rows: int,
    processors: int,
    element_bytes: int = 2,
    pairs: int = 1,
) -> PairSchedule:
    """Split requests of these kv lengths (tokens), each with `rows` query rows, over the device's multiprocessors.

    The `pairs` of a cluster have the same items, and of each item's tiles a share, of at least one tile: one past the
    request's end has no keys.
    """
    row_blocks = -(-rows // TILE_ROWS)
    tiles = [max(1, -(-length // TILE_KEYS)) for length in lengths]
    lane, _ = _make_lane(tiles, row_blocks, processors, element_bytes, pairs)
    even = _even(lane, lengths) if row_blocks == 1 else None
    if even is not None:
        lane = _lane_of(even, len(lengths))
    items, offsets = [], [0]
    for pieces in lane:
        for row_block, pair in itertools.product(range(row_blocks), range(pairs)):
            for piece in pieces:
                begin, end = _share(piece, tiles[piece.request], pair, pairs)
                values = [piece.request, row_block, begin, end, piece.partial, lengths[piece.request]]
                items.append(values + [0] * (WORK_COLUMNS - len(values)))
            offsets.append(len(items))
    merges = merges_of(lane)
    partials, most = sum(merge[2] for merge in merges), _most_row_warps(rows * len(merges), processors)
    return PairSchedule(lane, items, offsets, merges, partials, even, most_row_warps=most)


def cost(lengths: Sequence[int], rows: int, processors: int, element_bytes: int, pairs: int) -> float:
    """What the schedule costs, in the time that a pair takes for a tile: of two builds the one with the cheaper
    schedule is the faster one."""
    tiles = [max(1, -(-length // TILE_KEYS)) for length in lengths]
    return _make_lane(tiles, -(-rows // TILE_ROWS), processors, element_bytes, pairs)[1]


def _make_lane(
    tiles: Sequence[int], row_blocks: int, processors: int, element_bytes: int, pairs: int
) -> tuple[tuple[tuple[Piece, ...], ...], float]:
    """The lane of a row block, in units of as many tiles as a cluster has pairs, and what it costs.

    Where all have much to do, as many workers as DRAM feeds may do with fewer pieces what all of them do no sooner.
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
    found = []
    for count, chosen in tried:
        lane = make_lane(units, count, chosen, leftovers=True)
        merges = merges_of(lane)
        most, partials = max((merge[2] for merge in merges), default=1), sum(merge[2] for merge in merges)
        if chosen is not prices and (most > FEW_PARTIALS or 2 * partials > workers):
            continue
        busiest = max(sum(piece.end - piece.begin for piece in pieces) for pieces in lane)
        late = 0.0 if little else max(sum(tiles) / FED - busiest, 0.0)
        rounds = ROUND[element_bytes] * ((most - 1) // PARTIALS_OF_ROUND)
        found.append((lane, plan_cost(lane, count, chosen) + late + rounds))
    return min(found, key=lambda one: one[1])


def _even(lane: Sequence[Sequence[Piece]], lengths: Sequence[int]) -> Even | None:
    """The plan's numbers, if it is even but for the order of its workers and that of a request's pieces."""
    if len(set(lengths)) != 1 or any(len(pieces) != 1 for pieces in lane) or len(lane) >= MOST_EVEN:
        return None
    sizes = [sorted(p.end - p.begin for (p,) in lane if p.request == n) for n in range(len(lengths))]
    count, units = len(sizes[0]), sum(sizes[0])
    base, more = divmod(units, count)
    even = [base] * (count - more) + [base + 1] * more
    return Even(count, base, more, lengths[0]) if all(found == even for found in sizes) else None


def _lane_of(even: Even, requests: int) -> tuple[tuple[Piece, ...], ...]:
    """Request by request, piece by piece."""
    workers = range(requests * even.pieces)
    partial = (lambda worker: worker) if even.pieces > 1 else (lambda worker: -1)
    return tuple((Piece(w // even.pieces, *even.edges(w % even.pieces), partial(w)),) for w in workers)


def _units(tiles: Sequence[int], pairs: int) -> list[int]:
    return [-(-count // pairs) for count in tiles]


def _share(piece: Piece, tiles: int, pair: int, pairs: int) -> tuple[int, int]:
    """Tiles of a piece of a request of so many tiles that a pair of the cluster takes."""
    begin, end = pairs * piece.begin, min(pairs * piece.end, tiles)
    count = max(end - begin, pairs)
    return begin + count * pair // pairs, begin + count * (pair + 1) // pairs


def _most_row_warps(rows: int, processors: int) -> int:
    """Warps of the combine kernel that may share a row so that all its CTAs run at once: a second wave of them takes as
    long as the first."""
    return max((n for n in (1, 2, 4, 8) if rows * n <= COMBINE_WARPS * COMBINE_CTAS * processors), default=1)
