"""The sum of two matrices in plain PyTorch, `torch.add`: the baseline a user has without any kernel of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutesnake.contract import Build, Runner, not_baked
from kernels.upstream.installed import on_stream
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, supports, variants

if TYPE_CHECKING:
    from kernels.elementwise_add.operator import Inputs, Outputs, Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "torch"


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Which kernels PyTorch chooses is its own: the runner names no launches."""
    import torch

    def enqueue(stream: int) -> None:
        with on_stream(inputs.a, stream):
            torch.add(inputs.a, inputs.b, out=outputs.c)

    return Runner(enqueue)
