"""NVIDIA's CUTLASS example `blackwell/fmha.py` in CuTe DSL: unmodified, from the fetched wheel.

Not its persistent form, whose grid is the number of multiprocessors of the GPU that it is compiled on.
"""

from kernels.fmha.cutlass.adapter import Example
from kernels.fmha.operator import Workload
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
WIDTHS = (32, 64, 128)
TILE = (128, 128)  # queries x keys of one product, the only one that the example takes
EXAMPLE = Example("blackwell.fmha", "BlackwellFusedMultiHeadAttentionForward", TILE, lse=False)
variants, compile, bind = EXAMPLE.variants, EXAMPLE.compile, EXAMPLE.bind


def supports(workload: Workload) -> str | None:
    if workload.head_dim not in WIDTHS:
        return f"NVIDIA's Blackwell example takes heads of {', '.join(map(str, WIDTHS))}"
    return None
