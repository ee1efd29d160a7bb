"""NVIDIA's CuTe DSL example `dense_blockscaled_gemm_persistent`, unmodified from the fetched wheel.

Separate warps load, multiply and store; they stay for several tiles.
"""

from kernels.gemm_blockscaled.cutlass import adapter
from kernels.gemm_blockscaled.cutlass.adapter import TARGETS, supports, variants
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = adapter.Example(
    "blackwell.dense_blockscaled_gemm_persistent", "Sm100BlockScaledPersistentDenseGemmKernel", takes="layouts"
)
compile, bind = EXAMPLE.compile, EXAMPLE.bind
