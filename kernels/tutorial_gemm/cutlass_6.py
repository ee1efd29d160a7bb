"""Step 6 of NVIDIA's SM100 GEMM tutorial, `fp16_gemm_6`: dequantizes B in an earlier kernel."""

from kernels.tutorial_gemm.cutlass import adapter
from kernels.tutorial_gemm.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
STEP = adapter.Step("6", limits=1, dequantizes=True)
supports, variants, compile, bind = STEP.supports, STEP.variants, STEP.compile, STEP.bind
