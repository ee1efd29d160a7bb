"""Step 2 of NVIDIA's SM100 GEMM tutorial, `fp16_gemm_2`: warps load, multiply, store."""

from kernels.tutorial_gemm.cutlass import adapter
from kernels.tutorial_gemm.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
STEP = adapter.Step("2")
supports, variants, compile, bind = STEP.supports, STEP.variants, STEP.compile, STEP.bind
