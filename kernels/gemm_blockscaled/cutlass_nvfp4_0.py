"""NVIDIA's example `nvfp4_gemm_0` in CuTe DSL, unmodified from the fetched wheel: a CTA for
each tile of C."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.contract import Build, Runner, Variant, not_baked
from kernels.gemm_blockscaled.cutlass import adapter
from kernels.gemm_blockscaled.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

if TYPE_CHECKING:
    from kernels.gemm_blockscaled.operator import Inputs, Outputs, Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
EXAMPLE = adapter.Example("blackwell.tutorial_gemm.nvfp4_gemm_0", "Sm100BlockScaledDenseGemmKernel", takes="problem")
TILING = adapter.Tiling(128, 256, (1, 1))
TILE_K = 256


@not_baked
def supports(workload: Workload) -> str | None:
    return adapter.supports_whole_tiles(workload, TILING.m, TILING.n, TILE_K)


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return (adapter.variant(workload.dtype, TILING),)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    return adapter.compile(EXAMPLE, variant, target, folder)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    return adapter.bind(EXAMPLE, build, workload, inputs, outputs)
