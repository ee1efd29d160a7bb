"""NVIDIA's `sm100_mixed_input` of nvidia-cutlass-operators 0.3.0, unmodified from the fetched wheel.

It is the CuTe DSL example `mixed_input_gemm`, grown into a library.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cutesnake.model.contract import Variant, not_baked
from kernels.gemm_mixed.cutlass import adapter
from kernels.gemm_mixed.cutlass.adapter import TARGETS
from kernels.upstream.operators import SOURCE

if TYPE_CHECKING:
    from kernels.gemm_mixed.operator import Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
EXAMPLE = adapter.Example("sm100_mixed_input_impl", "MixedInputGemmKernel", batch_first=True)

compile = partial(adapter.compile, EXAMPLE)
bind = adapter.bind


@not_baked
def supports(workload: Workload) -> str | None:
    return adapter.supports(workload.n, workload.k, workload.dtype)


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return adapter.variants(workload.dtype, 0, adapter.TILINGS)
