"""NVIDIA's example `dense_gemm_persistent` in CuTe DSL, unmodified from the fetched wheel: for SM100, with warps of
their own for loads, products and stores, that stay for several tiles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.contract import Build, Runner, Variant, not_baked
from kernels.gemm.cutlass import adapter
from kernels.gemm.cutlass.adapter import SM100 as TARGETS
from kernels.gemm.cutlass.adapter import supports, variants
from kernels.upstream.examples import SOURCE

if TYPE_CHECKING:
    from kernels.gemm.operator import Inputs, Outputs, Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
EXAMPLE = adapter.Example("blackwell.dense_gemm_persistent", "PersistentDenseGemmKernel", scheduler="static")


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    return adapter.compile(EXAMPLE, variant, target, folder)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    return adapter.bind(EXAMPLE, build, workload, inputs, outputs)
