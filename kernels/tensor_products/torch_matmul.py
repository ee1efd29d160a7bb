"""Baseline in plain PyTorch: the float32 product of the operands' values."""

from __future__ import annotations

from cutesnake.model.contract import Build, Runner
from kernels.tensor_products.operator import Inputs, Outputs, Workload, decode
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    def call() -> None:
        outputs.d.copy_(decode(inputs.a) @ decode(inputs.b).T)

    return runner(inputs.a, call)
