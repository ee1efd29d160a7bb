"""NVIDIA's CuTe DSL example `dense_blockscaled_gemm_persistent_prefetch`, unmodified from the fetched wheel.

It works as `cutlass_persistent`, with prefetches into L2 ahead of the loads.
"""

from kernels.gemm_blockscaled.cutlass import adapter
from kernels.gemm_blockscaled.cutlass.adapter import TARGETS, supports, variants
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = adapter.Example(
    "blackwell.dense_blockscaled_gemm_persistent_prefetch", "Sm100BlockScaledPersistentDenseGemmKernel", takes="tensors"
)
compile, bind = EXAMPLE.compile, EXAMPLE.bind
