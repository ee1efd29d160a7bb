"""Step 5 of NVIDIA's SM100 GEMM tutorial, `fp16_gemm_5`: narrow tiles, clusters of four."""

from kernels.tutorial_gemm.cutlass import adapter
from kernels.tutorial_gemm.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
STEP = adapter.Step("5", limits=1, cta_tile=(128, 64), cluster=(2, 2))
supports, variants, compile, bind = STEP.supports, STEP.variants, STEP.compile, STEP.bind
