"""NVIDIA's CuTe DSL example `grouped_blockscaled_gemm`, unmodified from the fetched wheel.

Operands have block scales; TMA descriptors are changed in shared memory from group to group.
"""

from kernels.gemm_grouped.cutlass.adapter import TILINGS, Example
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = Example("blackwell.grouped_blockscaled_gemm", "Sm100GroupedBlockScaledGemmKernel", "scaled", TILINGS)
supports, variants, compile, bind = EXAMPLE.supports, EXAMPLE.variants, EXAMPLE.compile, EXAMPLE.bind
