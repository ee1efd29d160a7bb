"""NVIDIA's example `dense_gemm` (SM100), unmodified: CTAs or pairs load a few stages ahead."""

from kernels.gemm.cutlass import adapter
from kernels.gemm.cutlass.adapter import supports, variants
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = adapter.Example("blackwell.dense_gemm", "DenseGemmKernel", scheduler="tiles")
compile, bind = EXAMPLE.compile, EXAMPLE.bind
