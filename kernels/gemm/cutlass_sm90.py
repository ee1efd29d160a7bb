"""NVIDIA's example `dense_gemm` in CuTe DSL, unmodified from the fetched wheel: for SM90, a CTA per tile of C.

Its notes and its own check name fp16 and 8-bit types; the code takes bf16 as it takes fp16."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.contract import Build, Runner, Variant, not_baked
from kernels.gemm.cutlass import adapter
from kernels.gemm.cutlass.adapter import SM90 as TARGETS
from kernels.gemm.cutlass.adapter import supports_sm90 as supports
from kernels.gemm.cutlass.adapter import variants
from kernels.upstream.examples import SOURCE

if TYPE_CHECKING:
    from kernels.gemm.operator import Inputs, Outputs, Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
EXAMPLE = adapter.Example("hopper.dense_gemm", "HopperWgmmaGemmKernel", scheduler="tiles")


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    return adapter.compile(EXAMPLE, variant, target, folder)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    return adapter.bind(EXAMPLE, build, workload, inputs, outputs)
