"""NVIDIA's example `dense_gemm_persistent` (SM100), unmodified: specialised warps stay for several tiles."""

from kernels.gemm.cutlass import adapter
from kernels.gemm.cutlass.adapter import supports, variants
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = adapter.Example("blackwell.dense_gemm_persistent", "PersistentDenseGemmKernel", scheduler="static")
compile, bind = EXAMPLE.compile, EXAMPLE.bind
