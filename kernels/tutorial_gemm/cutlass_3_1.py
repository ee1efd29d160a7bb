"""Step 3_1 of NVIDIA's SM100 GEMM tutorial, `fp16_gemm_3_1`: tiles by cluster launch control."""

from kernels.tutorial_gemm.cutlass import adapter
from kernels.tutorial_gemm.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
STEP = adapter.Step("3_1", limits=1)
supports, variants, compile, bind = STEP.supports, STEP.variants, STEP.compile, STEP.bind
