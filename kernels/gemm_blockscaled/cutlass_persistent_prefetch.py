"""NVIDIA's example `dense_blockscaled_gemm_persistent_prefetch` in CuTe DSL, unmodified from the fetched wheel: as
`cutlass_persistent`, with prefetches into L2 ahead of the loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.contract import Build, Runner, Variant, not_baked
from kernels.gemm_blockscaled.cutlass import adapter
from kernels.gemm_blockscaled.cutlass.adapter import TARGETS, supports
from kernels.upstream.examples import SOURCE

if TYPE_CHECKING:
    from kernels.gemm_blockscaled.operator import Inputs, Outputs, Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
EXAMPLE = adapter.Example(
    "blackwell.dense_blockscaled_gemm_persistent_prefetch", "Sm100BlockScaledPersistentDenseGemmKernel", takes="tensors"
)


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return adapter.variants(workload)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    return adapter.compile(EXAMPLE, variant, target, folder)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    return adapter.bind(EXAMPLE, build, workload, inputs, outputs)
