"""NVIDIA's example `grouped_blockscaled_gemm`, unmodified: block scales, descriptors changed in shared memory."""

from kernels.gemm_grouped.cutlass.adapter import TILINGS, Example
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = Example("blackwell.grouped_blockscaled_gemm", "Sm100GroupedBlockScaledGemmKernel", "scaled", TILINGS)
supports, variants, compile, bind = EXAMPLE.supports, EXAMPLE.variants, EXAMPLE.compile, EXAMPLE.bind
