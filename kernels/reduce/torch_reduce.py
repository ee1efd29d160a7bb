"""Baseline of `reduce` in plain PyTorch: `torch.sum` and `torch.amax`."""

from kernels.reduce.operator import Inputs, Outputs, Workload
from kernels.upstream.pytorch import SOURCE, TARGETS, baseline, compile, supports, variants

DSL = "torch"


@baseline
def bind(workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
    import torch

    operation = torch.sum if workload.operation == "sum" else torch.amax
    operation(inputs.x, dim=-1, keepdim=True, out=outputs.y)
