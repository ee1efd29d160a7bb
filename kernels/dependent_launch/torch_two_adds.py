"""Baseline of `dependent_launch` in plain PyTorch: `torch.add` twice."""

from kernels.dependent_launch.operator import Inputs, Outputs, Workload
from kernels.upstream.pytorch import SOURCE, TARGETS, baseline, compile, supports, variants

DSL = "torch"


@baseline
def bind(workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
    import torch

    torch.add(inputs.u, inputs.v, out=outputs.w)
    torch.add(outputs.w, inputs.x, out=outputs.y)
