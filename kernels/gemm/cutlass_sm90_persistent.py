"""NVIDIA's CuTe DSL example `dense_gemm_persistent` for SM90, unmodified from the fetched wheel.

A warpgroup loads, and CTAs stay for several tiles. Its notes and its own check name fp16 and 8-bit types; the code
takes bf16 as it takes fp16.
"""

from kernels.gemm.cutlass import adapter
from kernels.gemm.cutlass.adapter import supports_sm90 as supports
from kernels.gemm.cutlass.adapter import variants
from kernels.targets import HOPPER as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = adapter.Example("hopper.dense_gemm_persistent", "HopperWgmmaGemmPersistentKernel", scheduler="static")
compile, bind = EXAMPLE.compile, EXAMPLE.bind
