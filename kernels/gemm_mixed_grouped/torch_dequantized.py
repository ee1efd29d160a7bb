"""Baseline in plain PyTorch: `torch.mm` group by group.

Weights are converted to bf16 at every call. It takes the sizes of groups from the workload, as a user would have them
on the host.
"""

from __future__ import annotations

from cutesnake.model.contract import Build, Runner
from kernels.gemm_mixed_grouped.operator import Inputs, Outputs, Workload, products
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    def call() -> None:
        products(inputs, workload, outputs.c)

    return runner(outputs.c, call)
