"""NVIDIA's CuTe DSL example `dense_gemm_persistent_prefetch` for SM100, unmodified from the fetched wheel.

It works as `cutlass_persistent`, with TMA prefetches into L2.
"""

from kernels.gemm.cutlass import adapter
from kernels.gemm.cutlass.adapter import supports, variants
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = adapter.Example("blackwell.dense_gemm_persistent_prefetch", "PersistentDenseGemmKernel", scheduler="static")
compile, bind = EXAMPLE.compile, EXAMPLE.bind
