"""Kernel `cute_sm100`: our MLA decode for Blackwell in CuTe DSL. The contract; device code is in `kernel.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from cutesnake.stages.compile import cute as cute_build
from kernels.mla_decode.cute_sm100 import layout
from kernels.mla_decode.operator import request_lengths

if TYPE_CHECKING:
    from kernels.mla_decode.cute_sm100.schedule import PairSchedule
    from kernels.mla_decode.operator import Inputs, Outputs, Workload

DSL = "cute"
TARGETS = {"sm_100a": ("tcgen05", "tensor memory"), "sm_103a": ("tcgen05", "tensor memory")}
SOURCE = "ours"
FUNCTION = "mla_decode_cute_sm100"
DTYPES = ("bf16", "fp16", "fp8")
PROCESSORS = 148  # of a B200 or B300; what runs is planned for the card at hand, in `bind`
# Of partial results, as the DSL and torch call it: as exact as the output, and it holds whatever the values can be.
PARTIAL_TYPES = {"bf16": ("BFloat16", "bfloat16"), "fp16": ("Float16", "float16"), "fp8": ("Float16", "float16")}


@not_baked
def supports(workload: Workload) -> str | None:
    """None, or why this kernel cannot compute the workload."""
    if workload.dtype not in DTYPES:
        return f"cute_sm100 computes in {', '.join(DTYPES)}, not in {workload.dtype}"
    if (workload.latent, workload.rope) != (layout.LATENT, layout.ROPE):
        return (
            f"cute_sm100 is written for latent {layout.LATENT} and rope {layout.ROPE}, "
            f"not {workload.latent} and {workload.rope}"
        )
    return None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Softmax by eight warps or by four: eight are sooner done with a tile, four have less to agree on.

    In fp8 the values of a tile may take the place of its keys, which loads less from the L2 but keeps tiles waiting:
    not the default, by ptxsim's clock. Of 16 bits one tile fits, which leaves nothing to compute with meanwhile.

    Where a batch is small, two or four pairs may have a request's keys between them (merge.py). The default is the
    variant whose schedule is the cheapest, of these and of single pairs.
    """
    from kernels.mla_decode.cute_sm100.schedule import cost

    dtype = workload.dtype
    single = Variant(f"{dtype}_softmax8", {"dtype": dtype, "groups": 2, "in_place": False})
    found = [
        single,
        *(Variant(f"{dtype}_pairs{pairs}", {**single.params, "pairs": pairs}) for pairs in (2, 4)),
    ]
    rows, lengths = workload.query_tokens * workload.heads, request_lengths(workload)
    element_bytes = 1 if dtype == "fp8" else 2
    found.sort(key=lambda v: cost(lengths, rows, PROCESSORS, element_bytes, v.params.get("pairs", 1)))
    found.append(Variant(f"{dtype}_softmax4", {**single.params, "groups": 1}))
    if dtype == "fp8":
        found.append(Variant("fp8_in_place", {**single.params, "in_place": True}))
    return tuple(found)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    """Build with no GPU; sizes stay symbolic, so one build serves every batch, length and head count."""
    return cute_build.build(lambda: _program(**variant.params), FUNCTION, target, folder)


def _program(dtype: str, groups: int, in_place: bool, pairs: int = 1) -> tuple[Any, tuple[Any, ...]]:
    import cutlass
    from cutlass import cute
    from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

    from kernels.mla_decode.cute_sm100.kernel import MlaDecodeSm100

    def tensor(element: Any, *shape: Any) -> Any:
        order = tuple(reversed(range(len(shape))))
        return make_fake_compact_tensor(element, shape, stride_order=order, assumed_align=16)

    element = {"bf16": cutlass.BFloat16, "fp16": cutlass.Float16, "fp8": cutlass.Float8E4M3FN}[dtype]
    batch, rows, pages, table, items, workers, merges, partials, whole = (cute.sym_int32() for _ in range(9))
    arguments = (
        tensor(element, batch, rows, layout.WIDTH),
        tensor(element, pages, layout.PAGE, layout.WIDTH),
        tensor(cutlass.Int32, batch, table),
        tensor(element, batch, rows, layout.LATENT),
        tensor(cutlass.Float32, batch, rows),
        tensor(cutlass.Int32, items, layout.ITEM_COLUMNS),
        tensor(cutlass.Int32, workers, layout.ITEM_COLUMNS),
        tensor(cutlass.Int32, merges, 4),
        tensor(getattr(cutlass, PARTIAL_TYPES[dtype][0]), partials, whole, layout.LATENT),
        tensor(cutlass.Float32, partials, rows),
        cutlass.Float32(1.0),
        *(cutlass.Int32(1) for _ in range(8)),
        make_fake_stream(),
    )
    return MlaDecodeSm100(element, groups, in_place, pairs), arguments


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Make the workspace, and the schedule for these kv lengths: other lengths need another bind."""
    from cutesnake.stages.load.cute import Call, multiprocessors
    from kernels.mla_decode.cute_sm100.schedule import make_schedule
    from kernels.mla_decode.split_kv import run

    rows = workload.query_tokens * workload.heads
    processors = multiprocessors(inputs.q.device)
    pairs = build.params.get("pairs", 1)
    schedule = make_schedule(inputs.kv_lengths.tolist(), rows, processors, inputs.q.element_size(), pairs)
    values = arguments(workload, inputs, outputs, schedule)
    return Runner(Call(build.function(), values), run.launches(build, schedule, rows, layout.CTAS))


@not_baked
def arguments(workload: Workload, inputs: Inputs, outputs: Outputs, schedule: PairSchedule) -> tuple[Any, ...]:
    """What the exported function takes before the stream."""
    from kernels.mla_decode.split_kv import run

    rows = workload.query_tokens * workload.heads
    found = run.arguments(
        *(workload, inputs, outputs, schedule, layout.ITEM_COLUMNS, schedule.pairs),
        partial_dtype=PARTIAL_TYPES[workload.dtype][1],
        partial_rows=-(-rows // layout.WARP_LANES) * layout.WARP_LANES,
    )
    return *found, *schedule.numbers
