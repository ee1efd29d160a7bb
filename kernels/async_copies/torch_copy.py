"""The copy by PyTorch: the baseline a user has without own kernels."""

from __future__ import annotations

from cutesnake.model.contract import Build, Runner, not_baked
from kernels.async_copies.operator import Inputs, Outputs, Workload
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "torch"


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    def call() -> None:
        outputs.y.copy_(inputs.x)

    return runner(inputs.x, call)
