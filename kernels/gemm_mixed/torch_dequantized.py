"""The product in plain PyTorch: weights converted to bf16 at every call, then `torch.mm`.

Someone with room for them would keep the weights in bf16, in two to four times the memory.
"""

from __future__ import annotations

from cutesnake.model.contract import Build, Runner
from kernels.gemm_mixed.operator import Inputs, Outputs, Workload, weights
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    import torch

    def call() -> None:
        torch.mm(inputs.a, weights(inputs.b, inputs.b_scales).bfloat16().T, out=outputs.c)

    return runner(outputs.c, call)
