"""NVIDIA's CuTe DSL example `grouped_gemm` for Hopper, from the fetched wheel.

Operands have 16 bits; TMA descriptors are changed from group to group. `cutlass/hopper.py` lists what is changed so
that DSL 4.8.1 compiles it.
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

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "group_key", "supports", "variants"]

DSL = "cute"
TARGETS: dict[str, tuple[str, ...]] = {"sm_90a": ("TMA", "wgmma")}
EXAMPLE = adapter.Example("hopper.grouped_gemm", "HopperGroupedGemmPersistentKernel", takes="hopper")
TILINGS = (Tiling(128, 128, (1, 1)), Tiling(128, 256, (1, 1)), Tiling(128, 128, (2, 1)), Tiling(64, 128, (1, 1)))

compile = partial(adapter.compile, EXAMPLE)
bind = partial(adapter.bind, EXAMPLE)


@not_baked
def supports(workload: Workload) -> str | None:
    return "NVIDIA's example takes 16-bit operands" if workload.scaled else None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return adapter.variants(workload, target, TILINGS)


@not_baked
def group_key(variant: Variant) -> str:
    """Return the group key: the example's scheduler compiles in the total number of tiles."""
    return ", ".join(f"{name} {value}" for name, value in variant.params.items() if name != "tiles")
