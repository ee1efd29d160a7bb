"""Step 2 of NVIDIA's tutorial on GEMM for SM100, `fp16_gemm_2` in CuTe DSL, from the fetched wheel: warps of their own
for loads, products and stores."""

from kernels.tutorial_gemm.cutlass import adapter
from kernels.tutorial_gemm.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
STEP = adapter.Step("2")
supports, variants, compile, bind = STEP.supports, STEP.variants, STEP.compile, STEP.bind
