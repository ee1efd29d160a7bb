"""The product in plain PyTorch: weights converted to bf16 at every call, then `torch.mm`.

Someone with room for them would keep the weights in bf16, in two to four times the memory.
"""

from kernels.gemm_mixed.operator import Inputs, Outputs, Workload, weights
from kernels.upstream.pytorch import SOURCE, TARGETS, baseline, compile, supports, variants

DSL = "torch"


@baseline
def bind(workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
    import torch

    torch.mm(inputs.a, weights(inputs.b, inputs.b_scales).bfloat16().T, out=outputs.c)
