"""Step 3 of NVIDIA's SM100 GEMM tutorial, `fp16_gemm_3`: clusters stay for assigned tiles."""

from kernels.tutorial_gemm.cutlass import adapter
from kernels.tutorial_gemm.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
STEP = adapter.Step("3", limits=1, stays=True)
supports, variants, compile, bind = STEP.supports, STEP.variants, STEP.compile, STEP.bind
