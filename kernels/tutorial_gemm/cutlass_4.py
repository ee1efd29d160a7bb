"""Step 4 of NVIDIA's SM100 GEMM tutorial: `fp16_gemm_4` in CuTe DSL, fetched wheel.

Clusters have a preferred size, and may fall back to a smaller one. Its kernel holds the code for both cluster sizes,
and DSL 4.8.1 adds up the shared memory of the two: 426,496 bytes with the tutorial's six stages of loads, more than a
block can have. Three stages fit.
"""

from kernels.tutorial_gemm.cutlass import adapter
from kernels.tutorial_gemm.cutlass.adapter import TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
STEP = adapter.Step("4", limits=2, cluster=(2, 4), fallback=(2, 1), ab_stages=3)
supports, variants, compile, bind = STEP.supports, STEP.variants, STEP.compile, STEP.bind
