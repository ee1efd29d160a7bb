"""The running side of the kernel `cutile`: schedule, workspace, grid and arguments. No cuTile here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cutesnake.contract import Build, Runner
from cutesnake.load.cutile import TileLaunch, multiprocessors, sequence
from kernels.mla_decode.cutile import COMBINE_TILES, SYMBOLS
from kernels.mla_decode.cutile.plan import Plan, Problem, Tiling, choose_plan
from kernels.mla_decode.cutile.schedule import Merge, Schedule, make_schedule
from kernels.mla_decode.operator import PAGE, Inputs, Outputs, Workload

LOG2_E = 1.0 / math.log(2.0)
MANY_PIECES, FEW_ROWS = 8, 512  # `combine_many` is the faster one for more pieces than this of fewer rows than this


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs, plan: Plan | None = None) -> Runner:
    """One launch if no request is split, two otherwise. `plan` overrides `choose_plan`, for tuning.

    The schedule is for the kv lengths that are there now: others need another bind.
    """
    batch, tokens, heads, width = inputs.q.shape
    rows, latent, rope = tokens * heads, build.params["latent"], build.params["rope"]
    lengths = checked_lengths(inputs)
    wide, narrow = Tiling.of(build.params, "wide"), Tiling.of(build.params, "narrow")
    if plan is None:
        plan = choose_plan(Problem(lengths, rows, latent, rope), wide, narrow, multiprocessors())
    schedule = make_schedule(lengths, plan.tiling.keys, plan.chunk, plan.direct)
    arrays = [inputs.q.view(batch, rows, width), inputs.kv_cache, inputs.page_table]
    arrays.append(integers([item.row for item in schedule.items], inputs))
    out = [outputs.out.view(batch, rows, latent), outputs.lse.view(batch, rows)]
    partial = workspace(schedule, rows, latent, inputs) if schedule.merges else []
    results = {"whole": out, "kernel": partial, "mixed": out + partial}[schedule.kind]
    numbers = [inputs.softmax_scale * LOG2_E, heads, tokens if workload.causal else 1]
    stem = schedule.kind if plan.tiling == wide else f"{schedule.kind}_narrow"
    grid = (plan.tiling.blocks(rows), len(schedule.items), 1)
    attention = _launch(build, stem, grid, [*arrays, *results, *numbers])
    if not schedule.merges:
        return sequence(attention)
    return sequence(attention, _combine(build, schedule.merges, partial, out, inputs))


def _combine(
    build: Build, merges: Sequence[Merge], partial: Sequence[Any], out: Sequence[Any], inputs: Inputs
) -> TileLaunch:
    _, rows, latent = partial[0].shape
    many = max(merge.pieces for merge in merges) > MANY_PIECES and len(merges) * rows < FEW_ROWS
    stem = "combine_many" if many else "combine"
    _, tile_rows, tile_columns = COMBINE_TILES[stem]
    grid = (math.ceil(rows / tile_rows), len(merges), math.ceil(latent / tile_columns))
    table = integers([merge.row for merge in merges], inputs)
    return _launch(build, stem, grid, [*partial, table, *out], overlap=True)


def _launch(
    build: Build, stem: str, grid: tuple[int, int, int], values: list[Any], overlap: bool = False
) -> TileLaunch:
    return TileLaunch(build.cubin_function(stem, SYMBOLS[stem]), SYMBOLS[stem], grid, values, overlap)


def checked_lengths(inputs: Inputs) -> tuple[int, ...]:
    """The kv lengths; ValueError for one that the page table has no room for."""
    lengths = tuple(inputs.kv_lengths.tolist())
    room = inputs.page_table.shape[1] * PAGE
    for request, length in enumerate(lengths):
        if not 0 <= length <= room:
            raise ValueError(f"request {request} has kv length {length}; its page table holds 0 to {room} tokens")
    return lengths


def integers(rows: Sequence[Sequence[int]], inputs: Inputs) -> Any:
    """An int32 tensor of these rows, on the device of the inputs."""
    import torch

    return torch.tensor(rows, dtype=torch.int32, device=inputs.q.device)


def workspace(schedule: Schedule, rows: int, latent: int, inputs: Inputs) -> list[Any]:
    """Partial results [partials, rows, latent] and their log-sum-exp [partials, rows], float32."""
    import torch

    return [
        torch.empty(*shape, dtype=torch.float32, device=inputs.q.device)
        for shape in ((schedule.partials, rows, latent), (schedule.partials, rows))
    ]
