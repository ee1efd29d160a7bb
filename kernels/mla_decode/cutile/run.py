"""The running side of the kernel `cutile`: schedule, workspace, grid and arguments. No cuTile here."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from cutesnake.model.contract import Build, Runner
from cutesnake.stages.load.cutile import TileLaunch, multiprocessors, sequence
from kernels.mla_decode.cutile import COMBINE_TILES, SYMBOLS
from kernels.mla_decode.cutile.plan import Merging, Plan, Problem, Tiling, choose_plan
from kernels.mla_decode.cutile.schedule import Item, Merge, make_schedule
from kernels.mla_decode.operator import PAGE, Inputs, Outputs, Workload

LOG2_E = 1.0 / math.log(2.0)


class Stems(NamedTuple):
    """Device functions of a tiling: whole requests, splits, or both overlapping."""

    whole: str
    splits: str
    first: str = ""
    rest: str = ""


STEMS = {
    "wide": Stems("whole", "kernel", "first", "rest"),
    "narrow": Stems("whole_narrow", "kernel_narrow"),
    "undivided": Stems("undivided", "undivided_first", "undivided_first", "undivided_rest"),
}


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs, plan: Plan | None = None) -> Runner:
    """Bind one launch for whole requests, two for split ones, three for both.

    The second one combines the splits. `plan` overrides `choose_plan`, for tuning. The schedule is for the kv lengths
    that are there now: others need another bind.
    """
    batch, tokens, heads, width = inputs.q.shape
    rows, latent, rope = tokens * heads, build.params["latent"], build.params["rope"]
    lengths = checked_lengths(inputs)
    if plan is None:
        tilings = Tiling.of(build.params, "wide"), Tiling.of(build.params, "narrow")
        problem = Problem(lengths, rows, latent, rope)
        plan = choose_plan(problem, *tilings, multiprocessors(), Tiling.undivided(build.params))
    schedule = make_schedule(lengths, plan.tiling.keys, plan.chunk, plan.direct, plan.even)
    undivided = plan.tiling == Tiling.undivided(build.params)
    narrow = plan.tiling == Tiling.of(build.params, "narrow")
    if narrow and schedule.merges and schedule.whole:
        raise ValueError("whole requests next to splits are not for the narrow tiling: give a plan without `direct`")
    out = [outputs.out.view(batch, rows, latent), outputs.lse.view(batch, rows)]
    partial = workspace(len(schedule.splits), rows, latent, inputs, scaled=undivided)
    numbers = [inputs.softmax_scale * LOG2_E, heads, tokens if workload.causal else 1]

    def attention(stem: str, items: Sequence[Item], results: list[Any], overlap: bool = False) -> TileLaunch:
        arrays = [inputs.q.view(batch, rows, width), inputs.kv_cache, inputs.page_table]
        values = [*arrays, integers([item.row for item in items], inputs), *results, *numbers]
        return _launch(build, stem, (plan.tiling.blocks(rows), len(items), 1), values, overlap)

    stems = STEMS["undivided" if undivided else "narrow" if narrow else "wide"]
    if not schedule.merges:
        return sequence(attention(stems.whole, schedule.whole, out))
    most = max(merge.splits for merge in schedule.merges)
    counts = len(schedule.splits), len(schedule.merges), len(schedule.whole)
    how = Merging.of(plan.tiling, rows, most, *counts, multiprocessors())
    combine = _combine(build, how, schedule.merges, partial, out, inputs)
    if not schedule.whole:
        return sequence(attention(stems.splits, schedule.splits, partial), combine)
    first = attention(stems.first, schedule.splits, partial)
    rest = (*schedule.whole, Item(batch, 0, 0, 0)) if undivided else schedule.whole  # see `rest_undivided`
    return sequence(first, attention(stems.rest, rest, out, overlap=True), combine)


def _combine(
    build: Build, how: Merging, merges: Sequence[Merge], partial: Sequence[Any], out: Sequence[Any], inputs: Inputs
) -> TileLaunch:
    _, rows, latent = partial[0].shape
    stem = "combine_many" if how.many else "combine"
    _, tile_rows, tile_columns = COMBINE_TILES[stem]
    grid = (math.ceil(rows / tile_rows), len(merges), math.ceil(latent / tile_columns))
    table = integers([merge.row for merge in merges], inputs)
    suffix = "_scaled" if len(partial) == 3 else ""
    return _launch(build, stem + suffix, grid, [*partial, table, *out], overlap=how.overlapped)


def _launch(
    build: Build, stem: str, grid: tuple[int, int, int], values: list[Any], overlap: bool = False
) -> TileLaunch:
    return TileLaunch(build.cubin_function(stem, SYMBOLS[stem]), SYMBOLS[stem], grid, values, overlap)


def checked_lengths(inputs: Inputs) -> tuple[int, ...]:
    """Return the kv lengths; raise ValueError where the page table has no room."""
    lengths = tuple(inputs.kv_lengths.tolist())
    room = inputs.page_table.shape[1] * PAGE
    for request, length in enumerate(lengths):
        if not 0 <= length <= room:
            raise ValueError(f"request {request} has kv length {length}; its page table holds 0 to {room} tokens")
    return lengths


def integers(rows: Sequence[Sequence[int]], inputs: Inputs) -> Any:
    """Return an int32 tensor of these rows, on the device of the inputs."""
    import torch

    return torch.tensor(rows, dtype=torch.int32, device=inputs.q.device)


def workspace(partials: int, rows: int, latent: int, inputs: Inputs, scaled: bool) -> list[Any]:
    """Allocate partial results [partials, rows, latent] and log-sum-exp [partials, rows], float32.

    If `scaled`, it allocates float16 partial results, their log-sum-exp, and the unit of each row. There are more
    partials than asked for, since `merge_splits` may read what lies behind the last one's rows.
    """
    import torch

    planes = partials + math.ceil(max(tile_rows for _, tile_rows, _ in COMBINE_TILES.values()) / rows)

    def empty(dtype: Any, *width: int) -> Any:
        return torch.empty(planes, rows, *width, dtype=dtype, device=inputs.q.device)

    return [
        empty(torch.float16 if scaled else torch.float32, latent),
        *(empty(torch.float32) for _ in range(1 + scaled)),
    ]
