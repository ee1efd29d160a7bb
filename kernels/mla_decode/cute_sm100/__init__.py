"""Contract of `cute_sm100`: MLA decode for Blackwell in CuTe DSL, device code in `kernel.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from cutesnake.stages.compile import cute as cute_build
from kernels.mla_decode.cute_sm100 import sizes
from kernels.mla_decode.operator import Inputs, Outputs, Workload, request_lengths

if TYPE_CHECKING:
    from kernels.mla_decode.cute_sm100.schedule import PairSchedule

DSL = "cute"
TARGETS = {"sm_100a": ("tcgen05", "tensor memory"), "sm_103a": ("tcgen05", "tensor memory")}
SOURCE = "ours"
FUNCTION = "mla_decode_cute_sm100"
DTYPES = ("bf16", "fp16", "fp8")
PROCESSORS = 148  # multiprocessors of a B200 or B300, to choose a default variant; `bind` asks the GPU
# Element types of partial results, in the DSL and in torch: as exact as the output, and wide enough for any value.
PARTIAL_TYPES = {"bf16": ("BFloat16", "bfloat16"), "fp16": ("Float16", "float16"), "fp8": ("Float16", "float16")}


def supports(workload: Workload) -> str | None:
    """Return None, or why this kernel cannot compute the workload."""
    if workload.dtype not in DTYPES:
        return f"cute_sm100 computes in {', '.join(DTYPES)}, not in {workload.dtype}"
    if (workload.latent, workload.rope) != (sizes.LATENT, sizes.ROPE):
        return (
            f"cute_sm100 is written for latent {sizes.LATENT} and rope {sizes.ROPE}, "
            f"not {workload.latent} and {workload.rope}"
        )
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return the variants, default first.

    The default has the number of pairs (one, two or four) whose schedule costs least. `softmax8` and `softmax4` have
    eight or four softmax warps. In `pairsN`, N CTA pairs of a cluster split a request's keys and merge in the kernel,
    for small batches. In `fp8_in_place`, V is loaded over K, which loads less from the L2 but delays tiles: ptxsim
    predicts it slower. 16-bit elements have room for one stage only, too few for that.
    """
    from kernels.mla_decode.cute_sm100.schedule import cost

    dtype = workload.dtype
    single = Variant(f"{dtype}_softmax8", {"dtype": dtype, "groups": 2, "in_place": False})
    result = [single, *(Variant(f"{dtype}_pairs{pairs}", {**single.params, "pairs": pairs}) for pairs in (2, 4))]
    rows, lengths = workload.query_tokens * workload.heads, request_lengths(workload)
    element_bytes = 1 if dtype == "fp8" else 2
    result.sort(key=lambda v: cost(lengths, rows, PROCESSORS, element_bytes, v.params.get("pairs", 1)))
    result.append(Variant(f"{dtype}_softmax4", {**single.params, "groups": 1}))
    if dtype == "fp8":
        result.append(Variant("fp8_in_place", {**single.params, "in_place": True}))
    return tuple(result)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    """Build without a GPU; one build serves every batch, length and head count."""
    return cute_build.build(lambda: _program(**variant.params), FUNCTION, target, folder)


def _program(dtype: str, groups: int, in_place: bool, pairs: int = 1) -> tuple[Any, tuple[Any, ...]]:
    import cutlass
    from cutlass import cute
    from cutlass.cute.runtime import make_fake_stream

    from kernels.mla_decode.cute_sm100.kernel import MlaDecodeSm100
    from kernels.programs import row_major as tensor

    element = {"bf16": cutlass.BFloat16, "fp16": cutlass.Float16, "fp8": cutlass.Float8E4M3FN}[dtype]
    batch, rows, pages, table, work, workers, merges, partials, padded = (cute.sym_int32() for _ in range(9))
    arguments = (
        tensor(element, batch, rows, sizes.WIDTH),
        tensor(element, pages, sizes.PAGE, sizes.WIDTH),
        tensor(cutlass.Int32, batch, table),
        tensor(element, batch, rows, sizes.LATENT),
        tensor(cutlass.Float32, batch, rows),
        tensor(cutlass.Int32, work, sizes.WORK_COLUMNS),
        tensor(cutlass.Int32, workers, sizes.WORK_COLUMNS),
        tensor(cutlass.Int32, merges, 4),
        tensor(getattr(cutlass, PARTIAL_TYPES[dtype][0]), partials, padded, sizes.LATENT),
        tensor(cutlass.Float32, partials, rows),
        cutlass.Float32(1.0),
        *(cutlass.Int32(1) for _ in range(8)),
        make_fake_stream(),
    )
    return MlaDecodeSm100(element, groups, in_place, pairs), arguments


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Allocate the workspace and schedule these KV lengths; other lengths need another bind."""
    from cutesnake.stages.load.cute import Call, multiprocessors
    from kernels.mla_decode.cute_sm100.schedule import make_schedule
    from kernels.mla_decode.split_kv import run

    rows = workload.query_tokens * workload.heads
    processors = multiprocessors(inputs.q.device)
    pairs = build.params.get("pairs", 1)
    schedule = make_schedule(inputs.kv_lengths.tolist(), rows, processors, inputs.q.element_size(), pairs)
    values = arguments(workload, inputs, outputs, schedule)
    return Runner(Call(build.function(), values), run.launches(build, schedule, rows, sizes.PAIR_CTAS))


@not_baked
def arguments(workload: Workload, inputs: Inputs, outputs: Outputs, schedule: PairSchedule) -> tuple[Any, ...]:
    """Return the exported function's arguments before the stream."""
    from kernels.mla_decode.split_kv import run

    rows = workload.query_tokens * workload.heads
    result = run.arguments(
        *(workload, inputs, outputs, schedule, sizes.WORK_COLUMNS, schedule.pairs),
        partial_dtype=PARTIAL_TYPES[workload.dtype][1],
        partial_rows=-(-rows // sizes.WARP) * sizes.WARP,
    )
    return *result, *schedule.uniform_arguments
