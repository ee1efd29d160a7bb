"""Baseline of `reduce` in plain PyTorch: `torch.sum` and `torch.amax`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutesnake.model.contract import Build, Runner, not_baked
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

if TYPE_CHECKING:
    from kernels.reduce.operator import Inputs, Outputs, Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "torch"


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    import torch

    operation = torch.sum if workload.operation == "sum" else torch.amax

    def call() -> None:
        operation(inputs.x, dim=-1, keepdim=True, out=outputs.y)

    return runner(inputs.x, call)
