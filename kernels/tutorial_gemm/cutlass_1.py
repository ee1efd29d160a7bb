"""Step 1 of NVIDIA's SM100 GEMM tutorial, `fp16_gemm_1`: CTA pairs, TMA multicast."""

from kernels.tutorial_gemm.cutlass import adapter
from kernels.tutorial_gemm.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
STEP = adapter.Step("1")
supports, variants, compile, bind = STEP.supports, STEP.variants, STEP.compile, STEP.bind
