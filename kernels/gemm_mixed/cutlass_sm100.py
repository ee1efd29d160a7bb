"""NVIDIA's example `mixed_input_gemm`, unmodified: warps convert weights from shared to tensor memory."""

from kernels.gemm_mixed.cutlass.adapter import TARGETS, Example, bind
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = Example("blackwell.mixed_input_gemm.mixed_input_gemm", "MixedInputGemmKernel")
supports, variants, compile = EXAMPLE.supports, EXAMPLE.variants, EXAMPLE.compile
