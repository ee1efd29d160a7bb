"""NVIDIA's example `mixed_input_gemm` in CuTe DSL, unmodified from the fetched wheel: warps of their own convert the
weights, on their way from shared memory to tensor memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cutesnake.contract import Build, Runner, Variant, not_baked
from kernels.gemm_mixed.cutlass import adapter
from kernels.gemm_mixed.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

if TYPE_CHECKING:
    from kernels.gemm_mixed.operator import Inputs, Outputs, Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
EXAMPLE = adapter.Example("blackwell.mixed_input_gemm.mixed_input_gemm", "MixedInputGemmKernel")
# The depth divides the blocks of int4 that share a scale.
TILINGS = (
    adapter.Tiling(256, 128, 128, (2, 1), pair=True),
    adapter.Tiling(128, 128, 128, (1, 1)),
    adapter.Tiling(128, 64, 128, (1, 1)),
)

compile = partial(adapter.compile, EXAMPLE)


@not_baked
def supports(workload: Workload) -> str | None:
    return adapter.supports(workload.n, workload.k, workload.dtype)


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return adapter.variants(workload.dtype, 0, TILINGS)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    from cutesnake.load.cute import Call

    scales = inputs.b_scales[None] if workload.scaled else None
    call = Call(build.function(), adapter.arguments(inputs.a, inputs.b[None], scales, None, outputs.c))
    return Runner(call, (adapter.launch(build, workload.m, workload.n),))
