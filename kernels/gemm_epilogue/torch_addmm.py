"""Baseline of `gemm_epilogue` in plain PyTorch: `addmm`, then the activation in place."""

from kernels.gemm_epilogue.operator import Inputs, Outputs, Workload, activate
from kernels.upstream.pytorch import SOURCE, TARGETS, baseline, compile, supports, variants

DSL = "torch"


@baseline
def bind(workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
    import torch

    torch.addmm(inputs.c, inputs.a, inputs.b.T, beta=inputs.beta, alpha=inputs.alpha, out=outputs.d)
    activate(outputs.d, workload.activation, inplace=True)
