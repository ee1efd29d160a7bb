"""NVIDIA's CuTe DSL example `grouped_mixed_input_gemm`, unmodified from the fetched wheel.

Weights are converted, and scaled if int4, before they are multiplied.
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
EXAMPLE = adapter.Example("blackwell.mixed_input_gemm.grouped_mixed_input_gemm", "GroupedMixedInputGemmKernel")
TILINGS = (
    adapter.Tiling(128, 128, 128, (1, 1)),
    adapter.Tiling(256, 128, 128, (2, 1), pair=True),
    adapter.Tiling(128, 64, 128, (1, 1)),
)

compile = partial(adapter.compile, EXAMPLE)


@not_baked
def supports(workload: Workload) -> str | None:
    return adapter.supports(workload.n, workload.k, workload.dtype)


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return adapter.variants(workload.dtype, workload.groups, TILINGS)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    return adapter.bind_groups(build, workload, inputs, outputs)
