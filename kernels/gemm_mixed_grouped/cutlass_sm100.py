"""NVIDIA's example `grouped_mixed_input_gemm`, unmodified: weights are converted before products, int4 scaled."""

from kernels.gemm_mixed.cutlass.adapter import TARGETS, Example, Tiling
from kernels.gemm_mixed.cutlass.adapter import bind_groups as bind
from kernels.upstream.examples import SOURCE

DSL = "cute"
TILINGS = (Tiling(128, 128, 128, (1, 1)), Tiling(256, 128, 128, (2, 1), pair=True), Tiling(128, 64, 128, (1, 1)))
EXAMPLE = Example("blackwell.mixed_input_gemm.grouped_mixed_input_gemm", "GroupedMixedInputGemmKernel", TILINGS)
supports, variants, compile = EXAMPLE.supports, EXAMPLE.variants, EXAMPLE.compile
