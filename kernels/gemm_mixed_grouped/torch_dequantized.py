"""Baseline in plain PyTorch: `torch.mm` group by group.

Weights are converted to bf16 at every call. It takes the sizes of groups from the workload, as a user would have them
on the host.
"""

from kernels.gemm_mixed_grouped.operator import Inputs, Outputs, Workload, products
from kernels.upstream.pytorch import SOURCE, TARGETS, baseline, compile, supports, variants

DSL = "torch"


@baseline
def bind(workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
    products(inputs, workload, outputs.c)
