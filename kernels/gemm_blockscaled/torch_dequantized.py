"""The product in plain PyTorch: operands dequantized to fp16, which holds them exactly, then `torch.mm`.

It dequantizes at every call, since codes and scales are what the operator is given; someone whose weights do not change
would keep them dequantized, in two to four times the memory.
"""

from cutesnake.model.contract import Build, Runner
from kernels.gemm_blockscaled.operator import Inputs, Outputs, Workload, dequantize, e2m1_values
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, supports, variants

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    import torch

    values = e2m1_values(outputs.c.device)

    def call() -> None:
        a = dequantize(inputs.a, inputs.a_scales, workload, values).half()
        b = dequantize(inputs.b, inputs.b_scales, workload, values).half()
        torch.mm(a, b.T, out=outputs.c)

    return runner(outputs.c, call)
