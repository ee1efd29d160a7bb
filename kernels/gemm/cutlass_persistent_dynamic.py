"""NVIDIA's CuTe DSL example `dense_gemm_persistent_dynamic` for SM100, unmodified from the fetched wheel.

It works as `cutlass_persistent`, but asks the hardware for the next tile (cluster launch control).
"""

from kernels.gemm.cutlass import adapter
from kernels.gemm.cutlass.adapter import supports, variants
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = adapter.Example("blackwell.dense_gemm_persistent_dynamic", "PersistentDenseGemmKernel", scheduler="dynamic")
compile, bind = EXAMPLE.compile, EXAMPLE.bind
