"""Host schedule of `cute_sm90`: a balanced split of ragged requests over the CTAs.

A *worker* is a CTA, or a cluster of two that share either page loads or (`split_kv`) keys; each has a list of work
tiles (`items`). A work tile is a range of pages of one request for one block of 64 query rows. The split is that of
`split_kv/plan.py`; a request of length 0 has no work tile, and is merged from no partial results.

Columns of a work tile (int32): request, row block, first page, end page, partial result (-1: the request is whole; with
the in-kernel merge the number of the merge), length of the request in tokens, and two unused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernels.mla_decode.cute_sm90.layout import MERGED_SPLITS, PAGE, PARTIAL, ROW_BLOCK, ROWS, WORK_COLUMNS
from kernels.mla_decode.split_kv.plan import (
    COMBINE_WARPS,
    MOST_COMBINE_CTAS,
    QUARTERS,
    Prices,
    Schedule,
    Split,
    assign_splits,
    combine_blocks,
    merges_of,
    row_warps,
)
from kernels.mla_decode.split_kv.plan import cost as plan_cost

# Fitted to the times of some 300 plans on the H200 (docs/archive.md: plans_h200.json).
CLUSTERS = Prices(item=2.0, merge=2.0, partial=4.0)  # unit: the time of a page
SPLIT_KV = Prices(item=2.75, merge=1.5, partial=3.0)  # unit: the time of two pages, one in each CTA
MERGING = Prices(item=2.75, merge=1.0, partial=1.0)  # with the in-kernel merge; the same unit
ROW_WARPS = (8, 4, 2)  # warps of the combine kernel that may share a row


@dataclass(frozen=True)
class PaddedSchedule(Schedule):
    """Hold a schedule in tables whose sizes do not depend on the lengths.

    Behind `items` stand rows of zeros, behind `offsets` the last one again, behind `merges` rows with -1 partials.
    """

    expected: int  # splits of a request, if all requests have one length

    @property
    def row_warps(self) -> int:
        return row_warps(self.expected)

    def combine_grid(self, rows: int) -> tuple[int, int, int]:
        return min(combine_blocks(rows, self.row_warps) * len(self.merges), MOST_COMBINE_CTAS), 1, 1


@dataclass(frozen=True)
class MergingSchedule(Schedule):
    """Hold a schedule for the in-kernel merge; `merges` has the requests without keys alone."""

    kernel_merges: int  # of the two splits of a row block


def prices(split_kv: bool, merge_in_kernel: bool = False) -> Prices:
    return MERGING if merge_in_kernel else SPLIT_KV if split_kv else CLUSTERS


def pad(
    schedule: Schedule, batch: int, rows: int, processors: int, cluster: int = 1, split_kv: bool = False
) -> PaddedSchedule:
    """Pad `schedule` to tables whose sizes follow from the other arguments, as for `make_schedule`."""
    lanes, workers = lanes_and_workers(rows, processors, cluster, split_kv)
    most = prices(split_kv)
    rows_left = lanes * most.max_splits(batch, workers) + 1 - len(schedule.items)  # the last is read, but not used
    return PaddedSchedule(
        schedule.worker_group,
        schedule.items + [[0] * WORK_COLUMNS] * rows_left,
        schedule.offsets + schedule.offsets[-1:] * (lanes * workers + 1 - len(schedule.offsets)),
        schedule.merges + [[0, 0, -1, 0]] * (batch - len(schedule.merges)),
        most.most_partials(workers),
        -(-workers // batch),
    )


def make_schedule(
    lengths: Sequence[int], rows: int, processors: int, cluster: int = 1, split_kv: bool = False, on_gpu: bool = False
) -> Schedule:
    """Split requests of these lengths (tokens), each with `rows` query rows, over the device's multiprocessors.

    With `split_kv` a worker takes two pages in the time of one, and work tiles begin at even pages. `on_gpu`: make the
    schedule that planner.py makes on the GPU, which tries fewer plans.
    """
    blocks = 1 if split_kv else cluster  # row blocks of a worker
    worker_group, _ = _assign_splits(lengths, rows, processors, cluster, split_kv, not on_gpu)
    items, offsets = _tables(worker_group, lengths, -(-rows // ROWS), blocks, 2 if split_kv else 1)
    merges = merges_of(worker_group) + _empty(lengths)
    schedule = Schedule(worker_group, items, offsets, merges, sum(merge[2] for merge in merges))
    return replace(schedule, most_row_warps=_most_row_warps(schedule, rows, processors, cluster))


def combine_fits_idle(
    lengths: Sequence[int], rows: int, processors: int, cluster: int = 1, split_kv: bool = False
) -> bool:
    """Return whether the combine kernel fits on multiprocessors that the attention kernel leaves idle."""
    schedule = make_schedule(lengths, rows, processors, cluster, split_kv)
    return _fits_idle(schedule, rows, processors, cluster, min(ROW_WARPS))


def _fits_idle(schedule: Schedule, rows: int, processors: int, cluster: int, warps: int) -> bool:
    """Return whether the combine kernel has no more CTAs than idle multiprocessors."""
    idle = processors - cluster * (len(schedule.offsets) - 1)
    return combine_blocks(rows, warps) * len(schedule.merges) <= idle


def _most_row_warps(schedule: Schedule, rows: int, processors: int, cluster: int) -> int:
    """Return the most warps a row with which the combine kernel fits on idle multiprocessors.

    Where no number does, as many as the splits ask for. Its CTAs start early, and wait. On a multiprocessor that the
    next call's attention kernel could begin on, they delay it: at batch 1 or 2 by up to 10 % of a warm call (H200,
    docs/archive.md: small_batches). A single call gains up to 3 % by more warps.
    """
    fitting = (warps for warps in ROW_WARPS if _fits_idle(schedule, rows, processors, cluster, warps))
    return next(fitting, COMBINE_WARPS)


def make_merging_schedule(lengths: Sequence[int], rows: int, processors: int) -> MergingSchedule:
    """Split requests in one or two splits with `split_kv`, for the in-kernel merge."""
    worker_group, _ = _assign_splits(lengths, rows, processors, 2, True, True, merge_in_kernel=True)
    row_blocks = -(-rows // ROWS)
    items, offsets = _tables(worker_group, lengths, row_blocks, 1, 2)
    for item in items:
        if item[PARTIAL] >= 0:  # number of the split in one worker group
            item[PARTIAL] = item[PARTIAL] // MERGED_SPLITS * row_blocks + item[ROW_BLOCK]
    kernel_merges = len(merges_of(worker_group)) * row_blocks
    return MergingSchedule(worker_group, items, offsets, _empty(lengths), 0, kernel_merges)


def _empty(lengths: Sequence[int]) -> list[list[int]]:
    return [[request, 0, 0, 0] for request, length in enumerate(lengths) if length == 0]


def _tables(
    worker_group: tuple[tuple[Split, ...], ...], lengths: Sequence[int], row_blocks: int, blocks: int, unit: int
) -> tuple[list[list[int]], list[int]]:
    """Return work tiles and worker offsets: a worker group for each `blocks` row blocks."""
    items, offsets = [], [0]
    for splits in worker_group:
        for row_block in range(0, row_blocks, blocks):
            for split in splits:
                length = lengths[split.request]
                begin, end = unit * split.begin, min(unit * split.end, -(-length // PAGE))
                values = [split.request, row_block, begin, end, split.partial, length]
                items.append(values + [0] * (WORK_COLUMNS - len(values)))
            offsets.append(len(items))
    return items, offsets


def cost(
    at: Prices,
    lengths: Sequence[int],
    rows: int,
    processors: int,
    cluster: int = 1,
    split_kv: bool = False,
    merge_in_kernel: bool = False,
) -> float:
    """Return the schedule's cost at these prices, in the time of a page.

    Here, though not where a schedule is made, partial results of fewer rows than a row block has cost less: priced so,
    more would be split, and that was slower.
    """
    worker_group, workers = _assign_splits(lengths, rows, processors, cluster, split_kv, True, merge_in_kernel)
    partial = round(QUARTERS * at.partial * min(rows, ROWS) / ROWS) / QUARTERS
    return plan_cost(worker_group, workers, replace(at, partial=partial))


def splits(
    lengths: Sequence[int],
    rows: int,
    processors: int,
    cluster: int = 1,
    split_kv: bool = False,
    merge_in_kernel: bool = False,
) -> bool:
    """Return whether the schedule splits any request."""
    worker_group, _ = _assign_splits(lengths, rows, processors, cluster, split_kv, True, merge_in_kernel)
    return any(split.partial >= 0 for splits in worker_group for split in splits)


def goes_in_step(worker_group: Sequence[Sequence[Split]]) -> bool:
    """Return whether each worker has one work tile at most, so that all start together."""
    return all(len(splits) <= 1 for splits in worker_group)


def lanes_and_workers(rows: int, processors: int, cluster: int, split_kv: bool) -> tuple[int, int]:
    """Return the worker groups (one per row blocks of a worker) and their workers."""
    lanes = -(-rows // (ROWS * (1 if split_kv else cluster)))
    return lanes, max(1, processors // (cluster * lanes))


def _assign_splits(
    lengths: Sequence[int],
    rows: int,
    processors: int,
    cluster: int,
    split_kv: bool,
    leftovers: bool,
    merge_in_kernel: bool = False,
) -> tuple[tuple[tuple[Split, ...], ...], int]:
    """Return the worker group (units: a page, or two) and its maximum of workers."""
    _, workers = lanes_and_workers(rows, processors, cluster, split_kv)
    unit = PAGE * (2 if split_kv else 1)
    occupied = [request for request, length in enumerate(lengths) if length]
    units = [-(-lengths[request] // unit) for request in occupied]
    most = MERGED_SPLITS if merge_in_kernel else None
    worker_group = assign_splits(units, workers, prices(split_kv, merge_in_kernel), leftovers, most, leftovers)
    return tuple(
        tuple(replace(split, request=occupied[split.request]) for split in splits) for splits in worker_group
    ), workers
