"""The product in plain PyTorch: operands dequantized to bf16 at every call, then `torch.mm`.

Someone whose weights do not change would keep them dequantized, in twice the memory.
"""

from kernels.gemm_blockwise.operator import Inputs, Outputs, Workload, dequantize_blocks, dequantize_rows
from kernels.upstream.pytorch import SOURCE, TARGETS, baseline, compile, supports, variants

DSL = "torch"


@baseline
def bind(workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
    import torch

    a = dequantize_rows(inputs.a, inputs.a_scales).bfloat16()
    b = dequantize_blocks(inputs.b, inputs.b_scales).bfloat16()
    torch.mm(a, b.T, out=outputs.c)
