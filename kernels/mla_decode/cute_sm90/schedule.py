"""Who computes what in the kernel `cute_sm90`: a balanced split of ragged requests over the CTAs, made on the host.

A *worker* is a CTA, or a cluster of two that share either row blocks or (`halves`) keys; each has a list of work
items. An item is a range of pages of one request for one block of 64 query rows. The split is that of
`split_kv/plan.py`; a request of length 0 has no item, and is merged from no partial results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernels.mla_decode.cute_sm90.layout import ITEM_COLUMNS, PAGE, PARTIAL, PIECES_MET, ROW_BLOCK, ROWS
from kernels.mla_decode.split_kv.plan import (
    COMBINE_WARPS,
    MOST_COMBINE_CTAS,
    QUARTERS,
    Piece,
    Prices,
    Schedule,
    combine_blocks,
    make_lane,
    merges_of,
    row_warps,
)
from kernels.mla_decode.split_kv.plan import cost as plan_cost

# Fitted to the times of some 300 plans on the H200 (docs/archive.md).
CLUSTERS = Prices(item=2.0, merge=2.0, partial=4.0)  # in units of a page
HALVES = Prices(item=2.75, merge=1.5, partial=3.0)  # of two pages, which take as long
ROW_WARPS = (8, 4, 2)  # how many of the combine kernel may share a row


@dataclass(frozen=True)
class PaddedSchedule(Schedule):
    """A schedule in tables that any lengths' schedule fits in: grids and workspace do not depend on the lengths.

    Behind `items` stand rows of zeros, behind `offsets` the last one again, behind `merges` rows with -1 partials.
    """

    expected: int  # pieces of a request, if all requests are alike

    @property
    def row_warps(self) -> int:
        return row_warps(self.expected)

    def combine_grid(self, rows: int) -> tuple[int, int, int]:
        return min(combine_blocks(rows, self.row_warps) * len(self.merges), MOST_COMBINE_CTAS), 1, 1


@dataclass(frozen=True)
class MetSchedule(Schedule):
    """`meetings`: of a row block's two pieces, which the attention kernel merges (`Epilogue.meet`); an item's partial
    result is the number of its meeting. `merges` has the requests without keys alone."""

    meetings: int


def prices(halves: bool) -> Prices:
    return HALVES if halves else CLUSTERS


def pad(
    schedule: Schedule, batch: int, rows: int, processors: int, cluster: int = 1, halves: bool = False
) -> PaddedSchedule:
    """`schedule`, in tables whose sizes follow from the other arguments alone (as for `make_schedule`)."""
    lanes, workers = lanes_and_workers(rows, processors, cluster, halves)
    most = prices(halves)
    rows_left = lanes * most.most_pieces(batch, workers) + 1 - len(schedule.items)  # the last is read, but not used
    return PaddedSchedule(
        schedule.lane,
        schedule.items + [[0] * ITEM_COLUMNS] * rows_left,
        schedule.offsets + schedule.offsets[-1:] * (lanes * workers + 1 - len(schedule.offsets)),
        schedule.merges + [[0, 0, -1, 0]] * (batch - len(schedule.merges)),
        most.most_partials(workers),
        -(-workers // batch),
    )


def make_schedule(
    lengths: Sequence[int], rows: int, processors: int, cluster: int = 1, halves: bool = False, on_card: bool = False
) -> Schedule:
    """Split requests of these kv lengths (tokens), each with `rows` query rows, over the device's multiprocessors.

    With `halves` a worker takes two pages in the time of one, and items begin at even pages. `on_card`: what the kernel
    makes that plans on the card (planner.py), which tries fewer plans.
    """
    blocks = 1 if halves else cluster  # row blocks of a worker
    lane, _ = _make_lane(lengths, rows, processors, cluster, halves, not on_card)
    items, offsets = _tables(lane, lengths, -(-rows // ROWS), blocks, 2 if halves else 1)
    merges = merges_of(lane) + _empty(lengths)
    schedule = Schedule(lane, items, offsets, merges, sum(merge[2] for merge in merges))
    return replace(schedule, most_row_warps=_most_row_warps(schedule, rows, processors, cluster))


def merges_aside(lengths: Sequence[int], rows: int, processors: int, cluster: int = 1, halves: bool = False) -> bool:
    """Whether the combine kernel's CTAs, if there are any, find room where the attention kernel leaves idle."""
    schedule = make_schedule(lengths, rows, processors, cluster, halves)
    return _fit_aside(schedule, rows, processors, cluster, min(ROW_WARPS))


def _fit_aside(schedule: Schedule, rows: int, processors: int, cluster: int, warps: int) -> bool:
    """Whether the combine kernel's CTAs, of so many warps a row, are no more than the idle multiprocessors."""
    idle = processors - cluster * (len(schedule.offsets) - 1)
    return combine_blocks(rows, warps) * len(schedule.merges) <= idle


def _most_row_warps(schedule: Schedule, rows: int, processors: int, cluster: int) -> int:
    """As many warps a row as leave the combine kernel's CTAs to multiprocessors that the attention kernel leaves idle;
    where no number does, as many as the pieces ask for.

    They come there early, and wait. On one that the next call's attention kernel could begin on, they keep it waiting:
    at batch 1 or 2 that cost up to 10 % of a call in a row of them. A lone call gains up to 3 % by more warps.
    """
    fitting = (warps for warps in ROW_WARPS if _fit_aside(schedule, rows, processors, cluster, warps))
    return next(fitting, COMBINE_WARPS)


def make_met_schedule(lengths: Sequence[int], rows: int, processors: int) -> MetSchedule:
    """The same with halves, of requests in one or two pieces, which meet."""
    lane, _ = _make_lane(lengths, rows, processors, 2, True, True, meets=True)
    row_blocks = -(-rows // ROWS)
    items, offsets = _tables(lane, lengths, row_blocks, 1, 2)
    for item in items:
        if item[PARTIAL] >= 0:  # of the pieces of one lane
            item[PARTIAL] = item[PARTIAL] // PIECES_MET * row_blocks + item[ROW_BLOCK]
    meetings = len(merges_of(lane)) * row_blocks
    return MetSchedule(lane, items, offsets, _empty(lengths), 0, meetings)


def _empty(lengths: Sequence[int]) -> list[list[int]]:
    return [[request, 0, 0, 0] for request, length in enumerate(lengths) if length == 0]


def _tables(
    lane: tuple[tuple[Piece, ...], ...], lengths: Sequence[int], row_blocks: int, blocks: int, unit: int
) -> tuple[list[list[int]], list[int]]:
    """Items and offsets of a lane for each `blocks` row blocks, in pieces of `unit` pages."""
    items, offsets = [], [0]
    for pieces in lane:
        for row_block in range(0, row_blocks, blocks):
            for piece in pieces:
                length = lengths[piece.request]
                begin, end = unit * piece.begin, min(unit * piece.end, -(-length // PAGE))
                values = [piece.request, row_block, begin, end, piece.partial, length]
                items.append(values + [0] * (ITEM_COLUMNS - len(values)))
            offsets.append(len(items))
    return items, offsets


def cost(
    at: Prices,
    lengths: Sequence[int],
    rows: int,
    processors: int,
    cluster: int = 1,
    halves: bool = False,
    meets: bool = False,
) -> float:
    """What the schedule costs at these prices, in the time of a page.

    Here, though not where a schedule is made, partial results of fewer rows than a row block has cost less: priced so,
    more would be split, and that was slower.
    """
    lane, workers = _make_lane(lengths, rows, processors, cluster, halves, True, meets)
    partial = round(QUARTERS * at.partial * min(rows, ROWS) / ROWS) / QUARTERS
    return plan_cost(lane, workers, replace(at, partial=partial))


def splits(
    lengths: Sequence[int],
    rows: int,
    processors: int,
    cluster: int = 1,
    halves: bool = False,
    meets: bool = False,
) -> bool:
    """Whether the schedule cuts any request into pieces."""
    lane, _ = _make_lane(lengths, rows, processors, cluster, halves, True, meets)
    return any(piece.partial >= 0 for pieces in lane for piece in pieces)


def in_step(lengths: Sequence[int], rows: int, processors: int, cluster: int = 1) -> bool:
    """Whether each worker has one item, so that all of them begin at about the same time."""
    lane, _ = _make_lane(lengths, rows, processors, cluster, False, True)
    return goes_in_step(lane)


def goes_in_step(lane: Sequence[Sequence[Piece]]) -> bool:
    return all(len(pieces) <= 1 for pieces in lane)


def lanes_and_workers(rows: int, processors: int, cluster: int, halves: bool) -> tuple[int, int]:
    """Lanes, one for each row block or pair of row blocks that a worker takes, and the workers of each."""
    lanes = -(-rows // (ROWS * (1 if halves else cluster)))
    return lanes, max(1, processors // (cluster * lanes))


def _make_lane(
    lengths: Sequence[int],
    rows: int,
    processors: int,
    cluster: int,
    halves: bool,
    leftovers: bool,
    meets: bool = False,
) -> tuple[tuple[tuple[Piece, ...], ...], int]:
    """The lane, in units of pages or of two, and how many workers it may have."""
    _, workers = lanes_and_workers(rows, processors, cluster, halves)
    unit = PAGE * (2 if halves else 1)
    occupied = [request for request, length in enumerate(lengths) if length]
    units = [-(-lengths[request] // unit) for request in occupied]
    lane = make_lane(units, workers, prices(halves), leftovers, PIECES_MET if meets else None)
    return tuple(tuple(replace(piece, request=occupied[piece.request]) for piece in pieces) for pieces in lane), workers
