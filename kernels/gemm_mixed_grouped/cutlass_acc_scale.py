"""NVIDIA's CuTe DSL example `grouped_mixed_input_gemm_acc_scale`, unmodified from the fetched wheel.

int4 weights are converted and multiplied, then the sums of each block are scaled. That is less work where groups have
few rows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.gemm_mixed.cutlass import adapter
from kernels.gemm_mixed.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

if TYPE_CHECKING:
    from kernels.gemm_mixed_grouped.operator import Inputs, Outputs, Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
EXAMPLE = adapter.Example(
    "blackwell.mixed_input_gemm.grouped_mixed_input_gemm_acc_scale", "GroupedMixedInputGemmAccScaleKernel"
)
TILINGS = (adapter.Tiling(128, 16, 128, (1, 1)), adapter.Tiling(256, 16, 128, (2, 1), pair=True))

compile = partial(adapter.compile, EXAMPLE)


@not_baked
def supports(workload: Workload) -> str | None:
    if not workload.plain.scaled:
        return (
            f"dtype is {workload.dtype}: NVIDIA's example scales sums and takes scaled weights (int4). Of "
            "other types it reports «convert-only mode is not supported for acc-scale kernel»"
        )
    return adapter.supports(workload.n, workload.k, workload.dtype)


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return adapter.variants(workload.dtype, workload.groups, TILINGS)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    return adapter.bind_groups(build, workload, inputs, outputs)
