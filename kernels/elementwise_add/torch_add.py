"""Baseline of `elementwise_add` in plain PyTorch: `torch.add`."""

from kernels.elementwise_add.operator import Inputs, Outputs, Workload
from kernels.upstream.pytorch import SOURCE, TARGETS, baseline, compile, supports, variants

DSL = "torch"


@baseline
def bind(workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
    import torch

    torch.add(inputs.a, inputs.b, out=outputs.c)
