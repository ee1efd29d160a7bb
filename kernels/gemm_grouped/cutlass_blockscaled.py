"""NVIDIA's CuTe DSL example `grouped_blockscaled_gemm`, unmodified from the fetched wheel.

Operands have block scales; TMA descriptors are changed in shared memory from group to group.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cutesnake.model.contract import Variant, not_baked
from kernels.gemm_grouped.cutlass import adapter
from kernels.upstream.examples import SOURCE
from kernels.upstream.gemm import Tiling

if TYPE_CHECKING:
    from kernels.gemm_grouped.operator import Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
TARGETS = {target: ("tcgen05", "tensor memory") for target in ("sm_100a", "sm_103a")}
EXAMPLE = adapter.Example("blackwell.grouped_blockscaled_gemm", "Sm100GroupedBlockScaledGemmKernel", takes="scaled")
TILINGS = (
    Tiling(128, 128, (1, 1)),
    Tiling(256, 128, (2, 1), pair=True),
    Tiling(256, 256, (2, 1), pair=True),
)

compile = partial(adapter.compile, EXAMPLE)
bind = partial(adapter.bind, EXAMPLE)


@not_baked
def supports(workload: Workload) -> str | None:
    return "NVIDIA's example takes operands with a scale per block" if not workload.scaled else None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return adapter.variants(workload, target, TILINGS)
