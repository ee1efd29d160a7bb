"""Baseline of `reduce` in plain PyTorch: `torch.sum` and `torch.amax`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutesnake.model.contract import Build, Runner
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

if TYPE_CHECKING:
    from kernels.reduce.operator import Inputs, Outputs, Workload

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    import torch

    operation = torch.sum if workload.operation == "sum" else torch.amax

    def call() -> None:
        operation(inputs.x, dim=-1, keepdim=True, out=outputs.y)

    return runner(inputs.x, call)
