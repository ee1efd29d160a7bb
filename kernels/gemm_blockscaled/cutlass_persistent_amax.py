"""NVIDIA's CuTe DSL example `dense_blockscaled_gemm_persistent_amax`, unmodified from the fetched wheel.

It works as `cutlass_persistent`, and also computes the largest magnitude in C, which is no output of this operator.
"""

from kernels.gemm_blockscaled.cutlass import adapter
from kernels.gemm_blockscaled.cutlass.adapter import TARGETS, supports, variants
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = adapter.Example(
    "blackwell.dense_blockscaled_gemm_persistent_amax", "Sm100BlockScaledPersistentDenseGemmKernel", takes="amax"
)
compile, bind = EXAMPLE.compile, EXAMPLE.bind
