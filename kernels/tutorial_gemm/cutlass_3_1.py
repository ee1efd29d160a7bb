"""Step 3_1 of NVIDIA's tutorial on GEMM for SM100, `fp16_gemm_3_1` in CuTe DSL, from the fetched wheel: clusters
that ask the hardware for the next tile (cluster launch control)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.contract import Build, Runner, Variant, not_baked
from kernels.tutorial_gemm.cutlass import adapter
from kernels.tutorial_gemm.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

if TYPE_CHECKING:
    from kernels.tutorial_gemm.operator import Inputs, Outputs, Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
STEP = adapter.Step("3_1", limits=1)


@not_baked
def supports(workload: Workload) -> str | None:
    return adapter.supports(STEP, workload)


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return adapter.variants()


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    return adapter.compile(STEP, variant, target, folder)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    return adapter.bind(STEP, build, workload, inputs, outputs)
