"""The copy by PyTorch: the baseline a user has without own kernels."""

from __future__ import annotations

from cutesnake.model.contract import Build, Runner
from kernels.async_copies.operator import Inputs, Outputs, Workload
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    def call() -> None:
        outputs.y.copy_(inputs.x)

    return runner(inputs.x, call)
