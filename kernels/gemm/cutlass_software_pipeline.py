"""NVIDIA's CuTe DSL example `dense_gemm_software_pipeline` for SM100, unmodified from the fetched wheel.

It works as `cutlass_dense`, but the compiler pipelines its main loop.
"""

from kernels.gemm.cutlass import adapter
from kernels.gemm.cutlass.adapter import supports, variants
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = adapter.Example("blackwell.dense_gemm_software_pipeline", "DenseGemmKernel", scheduler="tiles")
compile, bind = EXAMPLE.compile, EXAMPLE.bind
