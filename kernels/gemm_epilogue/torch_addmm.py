"""Baseline of `gemm_epilogue` in plain PyTorch: `addmm`, then the activation in place."""

from __future__ import annotations

from cutesnake.model.contract import Build, Runner
from kernels.gemm_epilogue.operator import Inputs, Outputs, Workload, activate
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    import torch

    def call() -> None:
        torch.addmm(inputs.c, inputs.a, inputs.b.T, beta=inputs.beta, alpha=inputs.alpha, out=outputs.d)
        activate(outputs.d, workload.activation, inplace=True)

    return runner(inputs.a, call)
