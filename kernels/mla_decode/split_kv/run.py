"""Workspace, arguments and launches of a schedule, for the split-KV kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kernels.mla_decode.operator import Inputs, Outputs, Workload

if TYPE_CHECKING:
    import torch

    from cutesnake.model.contract import Build, Launch
    from kernels.mla_decode.split_kv.plan import Schedule


def launches(build: Build, schedule: Schedule, rows: int, ctas: int) -> tuple[Launch, ...]:
    """Return the launches: attention kernel, `ctas` a worker, and any combine kernel."""
    attention = next(symbol for symbol in build.symbols if "split_kernel" in symbol)
    combine = next(symbol for symbol in build.symbols if "combine_kernel" in symbol)
    result = [build.launch(attention, (ctas * (len(schedule.offsets) - 1), 1, 1))]
    if grid := schedule.combine_grid(rows):
        result.append(build.launch(combine, grid))
    return tuple(result)


def arguments(
    workload: Workload,
    inputs: Inputs,
    outputs: Outputs,
    schedule: Schedule,
    item_columns: int,
    workers: list[Any] | None = None,
    partial_dtype: str = "float32",
    partial_rows: int | None = None,
) -> tuple[Any, ...]:
    """Return what the exported functions take before the stream, in their order.

    The workspace for partial results, whose outputs are of torch's `partial_dtype` and may have more rows
    (`partial_rows`), is allocated here. `item_columns` is the width of the table of work items, `workers` the table of
    what each worker has to do (None: the offsets).
    """
    import torch

    w = workload
    device = inputs.q.device
    rows = w.query_tokens * w.heads

    def integers(values: list[Any]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    def workspace(dtype: str, *shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=getattr(torch, dtype), device=device)

    partials = max(1, schedule.partials)
    return (
        inputs.q.view(w.batch, rows, w.latent + w.rope),
        inputs.kv_cache,
        inputs.page_table,
        outputs.out.view(w.batch, rows, w.latent),
        outputs.lse.view(w.batch, rows),
        integers(schedule.items or [[0] * item_columns] * (len(schedule.offsets) - 1)),
        integers(schedule.offsets if workers is None else workers),
        integers(schedule.merges or [[0, 0, 0, 0]]),
        workspace(partial_dtype, partials, partial_rows or rows, w.latent),
        workspace("float32", partials, rows),
        inputs.softmax_scale * math.log2(math.e),
        w.heads,
        w.query_tokens - 1 if w.causal else 0,
        schedule.row_warps,
    )
