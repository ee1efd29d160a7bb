"""NVIDIA's CUTLASS example `hopper/fmha.py` in CuTe DSL: unmodified, from the fetched wheel.

Not its persistent form, whose grid is the number of multiprocessors of the GPU that it is compiled on.
"""

from kernels.fmha.cutlass.adapter import Example
from kernels.fmha.operator import Workload
from kernels.targets import HOPPER as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
WIDTHS = (64, 128)
TILE = (64, 128)  # queries x keys of one product, the example's default
EXAMPLE = Example("hopper.fmha", "HopperFusedMultiHeadAttentionForward", TILE, lse=True)
variants, compile, bind = EXAMPLE.variants, EXAMPLE.compile, EXAMPLE.bind


def supports(workload: Workload) -> str | None:
    if workload.dtype == "fp8":
        return "NVIDIA's Hopper example takes fp8 values transposed only, head width before tokens"
    if workload.head_dim not in WIDTHS:
        return f"NVIDIA's Hopper example is built here for heads of {' and '.join(map(str, WIDTHS))}"
    return None
