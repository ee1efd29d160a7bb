"""NVIDIA's CuTe DSL example `nvfp4_gemm_1`, unmodified: CTA pairs with multicast loads."""

from functools import partial

from kernels.gemm_blockscaled.cutlass import adapter
from kernels.gemm_blockscaled.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = adapter.Example("blackwell.tutorial_gemm.nvfp4_gemm_1", "Sm100BlockScaledDenseGemmKernel", takes="problem")
TILING = adapter.Tiling(256, 256, (2, 1))

supports = partial(adapter.supports_whole_tiles, TILING)
variants = partial(adapter.only_variant, TILING)
compile, bind = EXAMPLE.compile, EXAMPLE.bind
