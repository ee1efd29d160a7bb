"""Step 6 of NVIDIA's tutorial on GEMM for SM100, `fp16_gemm_6` in CuTe DSL, from the fetched wheel: B made out of
integers by a kernel before, during which the product starts (programmatic dependent launch)."""

from kernels.tutorial_gemm.cutlass import adapter
from kernels.tutorial_gemm.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
STEP = adapter.Step("6", limits=1, dequantizes=True)
supports, variants, compile, bind = STEP.supports, STEP.variants, STEP.compile, STEP.bind
