"""Baseline of `dependent_launch` in plain PyTorch: `torch.add` twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutesnake.model.contract import Build, Runner
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

if TYPE_CHECKING:
    from kernels.dependent_launch.operator import Inputs, Outputs, Workload

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    import torch

    def call() -> None:
        torch.add(inputs.u, inputs.v, out=outputs.w)
        torch.add(outputs.w, inputs.x, out=outputs.y)

    return runner(inputs.u, call)
