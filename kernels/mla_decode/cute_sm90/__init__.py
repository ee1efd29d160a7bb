"""Kernel `cute_sm90`: our MLA decode for Hopper in CuTe DSL. The contract; device code is in `kernel.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from cutesnake.stages.compile import cute as cute_build
from kernels.mla_decode.cute_sm90 import layout

if TYPE_CHECKING:
    from kernels.mla_decode.operator import Inputs, Outputs, Workload
    from kernels.mla_decode.split_kv.plan import Schedule

DSL = "cute"
TARGETS = {"sm_90a": ("TMA", "wgmma")}
SOURCE = "ours"
FUNCTION = "mla_decode_cute_sm90"
DTYPES = ("bf16", "fp16")


@not_baked
def supports(workload: Workload) -> str | None:
    """None, or why this kernel cannot compute the workload."""
    if workload.dtype not in DTYPES:
        return f"cute_sm90 computes in {' and '.join(DTYPES)}, not in {workload.dtype}"
    if (workload.latent, workload.rope) != (layout.LATENT, layout.ROPE):
        return (
            f"cute_sm90 is written for latent {layout.LATENT} and rope {layout.ROPE}, "
            f"not {workload.latent} and {workload.rope}"
        )
    return None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """See choice.py."""
    from kernels.mla_decode.cute_sm90 import choice

    return choice.variants(workload)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    """Build for sm_90a with no GPU; sizes stay symbolic, so one build serves every batch, length and head count."""
    return cute_build.build(lambda: _program(**variant.params), FUNCTION, target, folder)


def _program(
    dtype: str,
    cluster: int,
    halves: bool = False,
    planned: bool = False,
    padding: str = layout.BOUNDED,
    meets: bool = False,
    single: bool = False,
) -> tuple[Any, tuple[Any, ...]]:
    import cutlass
    from cutlass import cute
    from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

    from kernels.mla_decode.cute_sm90.kernel import MlaDecodeSm90

    def tensor(element: Any, *shape: Any) -> Any:
        order = tuple(reversed(range(len(shape))))
        return make_fake_compact_tensor(element, shape, stride_order=order, assumed_align=16)

    element = {"bf16": cutlass.BFloat16, "fp16": cutlass.Float16}[dtype]
    batch, rows, pages, table, items, workers, merges, partials, places = (cute.sym_int32() for _ in range(9))
    arguments = (
        tensor(element, batch, rows, layout.WIDTH),
        tensor(element, pages, layout.PAGE, layout.WIDTH),
        tensor(cutlass.Int32, batch, table),
        tensor(element, batch, rows, layout.LATENT),
        tensor(cutlass.Float32, batch, rows),
        tensor(cutlass.Int32, items, layout.ITEM_COLUMNS),
        tensor(cutlass.Int32, workers),
        tensor(cutlass.Int32, merges, 4),
        tensor(cutlass.Float32, partials, rows, layout.LATENT),
        tensor(cutlass.Float32, partials, rows),
        cutlass.Float32(1.0),
        *(cutlass.Int32(1) for _ in range(3)),
        *(cutlass.Int64(layout.KEEP) for _ in range(2)),
        cutlass.Int32(1),
    )
    if meets:
        from kernels.mla_decode.cute_sm90.met import MetMlaDecodeSm90

        meeting = (
            tensor(cutlass.Int32, places, *layout.COUNTERS_SHAPE),
            tensor(cutlass.Float32, places, *layout.LEFT_SHAPE),
        )
        return MetMlaDecodeSm90(element), (*arguments, *meeting, make_fake_stream())
    if not planned:
        kernel = MlaDecodeSm90(element, cluster, halves, padding=padding, single=single)
        return kernel, (*arguments, make_fake_stream())
    from kernels.mla_decode.cute_sm90.planned import PlannedMlaDecodeSm90

    step = tensor(cutlass.Int32, batch), cutlass.Int32(1), cutlass.Int32(1)
    return PlannedMlaDecodeSm90(element, cluster, halves, single), (*arguments, *step, make_fake_stream())


@not_baked
def meetings(number: int, device: Any) -> tuple[Any, Any]:
    """Counters, 0, and room for what is left at so many meetings of two pieces."""
    import torch

    counters = torch.zeros((number, *layout.COUNTERS_SHAPE), dtype=torch.int32, device=device)
    left = torch.empty((number, *layout.LEFT_SHAPE), device=device)
    return counters, left


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Make the workspace, and the schedule for these kv lengths: other lengths need another bind, or a `plan`."""
    from cutesnake.stages.load.cute import Call, multiprocessors
    from kernels.mla_decode.cute_sm90 import l2
    from kernels.mla_decode.cute_sm90 import schedule as schedules
    from kernels.mla_decode.split_kv import run

    cluster, halves = build.params["cluster"], build.params.get("halves", False)
    rows = workload.query_tokens * workload.heads
    card = rows, multiprocessors(inputs.q.device), cluster, halves
    lengths = inputs.kv_lengths.tolist()
    planned = build.params.get("planned", False)
    schedule: Schedule
    met: tuple[Any, ...] = ()
    if build.params.get("meets", False):
        schedule = with_meetings = schedules.make_met_schedule(lengths, *card[:2])
        met = meetings(max(1, with_meetings.meetings), inputs.q.device)
    else:
        schedule = schedules.make_schedule(lengths, *card, on_card=planned)
    lanes, _ = schedules.lanes_and_workers(*card)
    in_step = schedules.goes_in_step(schedule.lane)
    if planned:
        schedule = schedules.pad(schedule, workload.batch, *card)
    cache_bytes = sum(lengths) * layout.WIDTH * 2
    policy = l2.page_policy(cache_bytes, lanes, in_step)
    values = (
        *run.arguments(workload, inputs, outputs, schedule, layout.ITEM_COLUMNS),
        *(policy, l2.q_policy(cache_bytes, in_step), int(cache_bytes > l2.AHEAD_BYTES)),
        *met,
    )
    launches = run.launches(build, schedule, rows, cluster)
    if not planned:
        return Runner(Call(build.function(), values), launches)
    compute, plan = (Call(build.function(), (*values, inputs.kv_lengths, lanes, step)) for step in (0, 1))
    return Runner(compute, launches, plan=plan)
