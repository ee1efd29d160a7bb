"""Baseline in plain PyTorch: `torch.mm` group by group.

Operands are dequantized to bf16 at every call. It takes how many rows are in use from the workload: a user of PyTorch
alone would have to wait for the GPU to say so.
"""

from functools import partial

from cutesnake.model.contract import Build, Runner
from kernels.gemm_grouped_masked.operator import Inputs, Outputs, Workload, clear_unused, products
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    def call() -> None:
        products(inputs, workload, outputs.c)

    return runner(outputs.c, call, partial(clear_unused, inputs, outputs))
