"""Baseline of `rmsnorm` in plain PyTorch: `torch.nn.functional.rms_norm`.

It has no argument for the output: what it returns is copied to the outputs by `finish`, outside of the timed calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutesnake.model.contract import Build, Runner, not_baked
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

if TYPE_CHECKING:
    import torch

    from kernels.rmsnorm.operator import Inputs, Outputs, Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "torch"


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    from torch.nn.functional import rms_norm

    result: list[torch.Tensor] = []

    def call() -> None:
        result[:] = [rms_norm(inputs.x, (workload.columns,), inputs.weight, inputs.eps)]

    def finish() -> None:
        outputs.y.copy_(result[0])
        result[0].fill_(float("nan"))  # a later call that writes nothing shows

    return runner(inputs.x, call, finish)
