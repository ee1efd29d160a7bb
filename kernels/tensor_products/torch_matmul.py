"""Baseline in plain PyTorch: the float32 product of the operands' values."""

from kernels.tensor_products.operator import Inputs, Outputs, Workload, decode
from kernels.upstream.pytorch import SOURCE, TARGETS, baseline, compile, supports, variants

DSL = "torch"


@baseline
def bind(workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
    outputs.d.copy_(decode(inputs.a) @ decode(inputs.b).T)
