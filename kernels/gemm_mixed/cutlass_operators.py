"""`sm100_mixed_input` of nvidia-cutlass-operators 0.3.0, unmodified: NVIDIA's example, grown into a library."""

from kernels.gemm_mixed.cutlass.adapter import TARGETS, Example, bind
from kernels.upstream.operators import SOURCE

DSL = "cute"
EXAMPLE = Example("sm100_mixed_input_impl", "MixedInputGemmKernel", batch_first=True)
supports, variants, compile = EXAMPLE.supports, EXAMPLE.variants, EXAMPLE.compile
