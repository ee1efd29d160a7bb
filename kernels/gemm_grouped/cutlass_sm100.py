"""NVIDIA's example `grouped_gemm` (SM100), unmodified: 16-bit operands, descriptors changed in shared memory."""

from kernels.gemm_grouped.cutlass.adapter import TILINGS, Example
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = Example("blackwell.grouped_gemm", "GroupedGemmKernel", "plain", TILINGS)
supports, variants, compile, bind = EXAMPLE.supports, EXAMPLE.variants, EXAMPLE.compile, EXAMPLE.bind
