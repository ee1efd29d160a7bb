"""NVIDIA's CuTe DSL example `grouped_gemm` for Hopper, from the fetched wheel.

Operands have 16 bits; TMA descriptors are changed from group to group. `cutlass/hopper.py` lists what is changed so
that DSL 4.8.1 compiles it.
"""

from cutesnake.model.contract import Variant, not_baked
from kernels.gemm_grouped.cutlass.adapter import Example
from kernels.targets import HOPPER as TARGETS
from kernels.upstream.examples import SOURCE
from kernels.upstream.gemm import Tiling

DSL = "cute"
TILINGS = (Tiling(128, 128, (1, 1)), Tiling(128, 256, (1, 1)), Tiling(128, 128, (2, 1)), Tiling(64, 128, (1, 1)))
EXAMPLE = Example("hopper.grouped_gemm", "HopperGroupedGemmPersistentKernel", "hopper", TILINGS)
supports, variants, compile, bind = EXAMPLE.supports, EXAMPLE.variants, EXAMPLE.compile, EXAMPLE.bind


@not_baked
def group_key(variant: Variant) -> str:
    """Return the group key: the example's scheduler compiles in the total number of tiles."""
    return ", ".join(f"{name} {value}" for name, value in variant.params.items() if name != "tiles")
