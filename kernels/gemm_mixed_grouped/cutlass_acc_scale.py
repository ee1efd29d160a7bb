"""NVIDIA's CuTe DSL example `grouped_mixed_input_gemm_acc_scale`, unmodified from the fetched wheel.

int4 weights are converted and multiplied, then the sums of each block are scaled. That is less work where groups have
few rows.
"""

from kernels.gemm_mixed.cutlass.adapter import TARGETS, Example, Tiling
from kernels.gemm_mixed.cutlass.adapter import bind_groups as bind
from kernels.gemm_mixed_grouped.operator import Workload
from kernels.upstream.examples import SOURCE

DSL = "cute"
TILINGS = (Tiling(128, 16, 128, (1, 1)), Tiling(256, 16, 128, (2, 1), pair=True))
EXAMPLE = Example(
    "blackwell.mixed_input_gemm.grouped_mixed_input_gemm_acc_scale", "GroupedMixedInputGemmAccScaleKernel", TILINGS
)
variants, compile = EXAMPLE.variants, EXAMPLE.compile


def supports(workload: Workload) -> str | None:
    if not workload.plain.scaled:
        return (
            f"dtype is {workload.dtype}: NVIDIA's example scales sums and takes scaled weights (int4). Of "
            "other types it reports «convert-only mode is not supported for acc-scale kernel»"
        )
    return EXAMPLE.supports(workload)
