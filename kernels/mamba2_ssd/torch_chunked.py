"""Baseline in plain PyTorch: Mamba-2's state space duality, chunk by chunk.

It is the operator's own chunked form, whose products PyTorch hands to its libraries; there is no call for the whole.
"""

from kernels.mamba2_ssd.operator import CHUNK, Inputs, Outputs, Workload, chunked
from kernels.upstream.pytorch import SOURCE, TARGETS, baseline, compile, supports, variants

DSL = "torch"


@baseline
def bind(workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
    result = chunked(inputs, workload, CHUNK)
    outputs.y.copy_(result.y)
    outputs.final_state.copy_(result.final_state)
