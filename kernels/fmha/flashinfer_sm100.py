"""FlashInfer's attention kernel for Blackwell in CuTe DSL: unmodified, from the fetched wheel.

It is NVIDIA's, newer than the example of CUTLASS 4.5: exponentials in part on FMA units, no rescaling where the maximum
rises little. FlashInfer calls it with tables of where sequences begin, and so does this adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernels.fmha.cutlass.adapter import Example
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream.examples import SOURCE

if TYPE_CHECKING:
    from kernels.fmha.operator import Workload

DSL = "cute"
WIDTHS = (64, 128)
EXAMPLE = Example("attention.fmha.fmha", "BlackwellFusedMultiHeadAttentionForward", (128, 128), starts=True)
variants, compile, bind = EXAMPLE.variants, EXAMPLE.compile, EXAMPLE.bind


def supports(workload: Workload) -> str | None:
    if workload.dtype == "fp8":
        return "FlashInfer's kernel is built here for 16-bit elements"
    if workload.head_dim not in WIDTHS:
        return f"FlashInfer's kernel is built here for heads of {' and '.join(map(str, WIDTHS))}"
    return None
