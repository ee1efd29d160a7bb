"""Contract of `cute_sm90`: MLA decode for Hopper in CuTe DSL (device code: kernel.py)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from cutesnake.stages.compile import cute as cute_build
from kernels.mla_decode.cute_sm90 import layout
from kernels.mla_decode.operator import Inputs, Outputs, Workload
from kernels.targets import HOPPER as TARGETS

if TYPE_CHECKING:
    from kernels.mla_decode.split_kv.plan import Schedule

DSL = "cute"
SOURCE = "ours"
FUNCTION = "mla_decode_cute_sm90"
DTYPES = ("bf16", "fp16")
NOT_PLANNED = None, None, None  # lengths, lanes, plans: arguments of planned builds alone


def supports(workload: Workload) -> str | None:
    """Return None, or why this kernel cannot compute the workload."""
    if workload.dtype not in DTYPES:
        return f"cute_sm90 computes in {' and '.join(DTYPES)}, not in {workload.dtype}"
    if (workload.latent, workload.rope) != (layout.LATENT, layout.ROPE):
        return (
            f"cute_sm90 is written for latent {layout.LATENT} and rope {layout.ROPE}, "
            f"not {workload.latent} and {workload.rope}"
        )
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return the builds that may compute the workload, the fastest first (choice.py)."""
    from kernels.mla_decode.cute_sm90 import choice

    return choice.variants(workload)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    """Build for every batch, length and head count (symbolic sizes), without a GPU."""
    return cute_build.build(lambda: _program(**variant.params), FUNCTION, target, folder)


def _program(
    dtype: str, cluster: int, halves: bool = False, planned: bool = False, meets: bool = False, single: bool = False
) -> tuple[Any, tuple[Any, ...]]:
    import cutlass
    from cutlass import cute
    from cutlass.cute.runtime import make_fake_stream

    from kernels.mla_decode.cute_sm90.kernel import MlaDecodeSm90
    from kernels.programs import row_major as tensor

    element = {"bf16": cutlass.BFloat16, "fp16": cutlass.Float16}[dtype]
    batch, rows, pages, table, tiles, workers, merges, partials, merged = (cute.sym_int32() for _ in range(9))
    arguments = (
        tensor(element, batch, rows, layout.WIDTH),
        tensor(element, pages, layout.PAGE, layout.WIDTH),
        tensor(cutlass.Int32, batch, table),
        tensor(element, batch, rows, layout.LATENT),
        tensor(cutlass.Float32, batch, rows),
        tensor(cutlass.Int32, tiles, layout.WORK_COLUMNS),
        tensor(cutlass.Int32, workers),
        tensor(cutlass.Int32, merges, 4),
        tensor(cutlass.Float32, partials, rows, layout.LATENT),
        tensor(cutlass.Float32, partials, rows),
        cutlass.Float32(1.0),
        *(cutlass.Int32(1) for _ in range(3)),
        *(cutlass.Int64(layout.KEEP) for _ in range(2)),
        cutlass.Int32(1),
        tensor(cutlass.Int32, merged, *layout.MERGE_COUNTERS_SHAPE) if meets else None,
        tensor(cutlass.Float32, merged, *layout.MERGE_STATE_SHAPE) if meets else None,
        *((tensor(cutlass.Int32, batch), cutlass.Int32(1), cutlass.Int32(1)) if planned else NOT_PLANNED),
        make_fake_stream(),
    )
    return MlaDecodeSm90(element, cluster, halves, single, meets, planned), arguments


@not_baked
def merge_workspace(merges: int, device: Any) -> tuple[Any, Any]:
    """Allocate counters (0) and state for so many in-kernel merges: int32 and fp32."""
    import torch

    counters = torch.zeros((merges, *layout.MERGE_COUNTERS_SHAPE), dtype=torch.int32, device=device)
    state = torch.empty((merges, *layout.MERGE_STATE_SHAPE), device=device)
    return counters, state


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Make workspace and schedule for these KV lengths: others need another bind, or a `plan`."""
    from cutesnake.stages.load.cute import Call, multiprocessors
    from kernels.mla_decode.cute_sm90 import l2
    from kernels.mla_decode.cute_sm90 import schedule as schedules
    from kernels.mla_decode.split_kv import run

    cluster, split_kv = build.params["cluster"], build.params.get("halves", False)
    rows = workload.query_tokens * workload.heads
    device = rows, multiprocessors(inputs.q.device), cluster, split_kv
    lengths = inputs.kv_lengths.tolist()
    planned = build.params.get("planned", False)
    schedule: Schedule
    workspace: tuple[Any, ...] = None, None
    if build.params.get("meets", False):
        schedule = merging = schedules.make_merging_schedule(lengths, *device[:2])
        workspace = merge_workspace(max(1, merging.kernel_merges), inputs.q.device)
    else:
        schedule = schedules.make_schedule(lengths, *device, on_gpu=planned)
    lanes, _ = schedules.lanes_and_workers(*device)
    in_step = schedules.goes_in_step(schedule.worker_group)
    if planned:
        schedule = schedules.pad(schedule, workload.batch, *device)
    cache_bytes = sum(lengths) * layout.WIDTH * 2
    values = (
        *run.arguments(workload, inputs, outputs, schedule, layout.WORK_COLUMNS),
        *(l2.page_policy(cache_bytes, lanes, in_step), l2.q_policy(cache_bytes, in_step)),
        *(int(cache_bytes > l2.PREFETCH_BYTES), *workspace),
    )
    launches = run.launches(build, schedule, rows, cluster)
    if not planned:
        return Runner(Call(build.function(), (*values, *NOT_PLANNED)), launches)
    compute, plan = (Call(build.function(), (*values, inputs.kv_lengths, lanes, step)) for step in (0, 1))
    return Runner(compute, launches, plan=plan)
