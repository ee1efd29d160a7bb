"""Baseline of `elementwise_add` in plain PyTorch: `torch.add`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutesnake.model.contract import Build, Runner
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

if TYPE_CHECKING:
    from kernels.elementwise_add.operator import Inputs, Outputs, Workload

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    import torch

    def call() -> None:
        torch.add(inputs.a, inputs.b, out=outputs.c)

    return runner(inputs.a, call)
