"""NVIDIA's CuTe DSL example `nvfp4_gemm_0`, unmodified: a CTA computes a tile of C."""

from functools import partial

from kernels.gemm_blockscaled.cutlass import adapter
from kernels.gemm_blockscaled.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = adapter.Example("blackwell.tutorial_gemm.nvfp4_gemm_0", "Sm100BlockScaledDenseGemmKernel", takes="problem")
TILING = adapter.Tiling(128, 256, (1, 1))

supports = partial(adapter.supports_whole_tiles, TILING)
variants = partial(adapter.only_variant, TILING)
compile, bind = EXAMPLE.compile, EXAMPLE.bind
