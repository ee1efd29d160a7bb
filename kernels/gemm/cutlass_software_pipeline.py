"""NVIDIA's example `dense_gemm_software_pipeline` in CuTe DSL, unmodified from the fetched wheel: for SM100, as
`cutlass_dense`, but with a main loop that the compiler pipelines."""

from kernels.gemm.cutlass import adapter
from kernels.gemm.cutlass.adapter import SM100 as TARGETS
from kernels.gemm.cutlass.adapter import supports, variants
from kernels.upstream.examples import SOURCE

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
EXAMPLE = adapter.Example("blackwell.dense_gemm_software_pipeline", "DenseGemmKernel", scheduler="tiles")
compile, bind = EXAMPLE.compile, EXAMPLE.bind
