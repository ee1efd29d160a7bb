"""Baseline of `gemm_grouped`: `torch.mm` by group; scaled operands are dequantized in every call."""

from cutesnake.model.contract import Build, Runner
from kernels.gemm_blockscaled.operator import e2m1_values
from kernels.gemm_grouped.operator import Inputs, Outputs, Workload, matrices, operands, results
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    import torch

    values = e2m1_values(outputs.c.device)
    groups = list(zip(matrices(inputs, workload), workload.problems, results(outputs, workload), strict=True))

    def call() -> None:
        for group, problem, c in groups:
            a, b = operands(group, problem, workload, values)
            torch.mm(a.to(c.dtype), b.to(c.dtype).T, out=c)

    return runner(outputs.c, call)
