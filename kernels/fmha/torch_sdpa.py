"""Attention by PyTorch's `scaled_dot_product_attention`: the baseline a user has without any kernel of their own.

It chooses among PyTorch's own kernels: FlashAttention's and cuDNN's take 16-bit operands on Hopper and Blackwell.
"""

from typing import Any

from cutesnake.model.contract import Build, Runner
from kernels.fmha.operator import Inputs, Outputs, Workload
from kernels.upstream.installed import copying_runner
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, variants

DSL = "torch"


def supports(workload: Workload) -> str | None:
    if workload.dtype == "fp8":
        return "PyTorch's attention takes no fp8"
    return None


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v, out = (x.transpose(1, 2) for x in (inputs.q, inputs.k, inputs.v, outputs.out))  # heads before tokens
    arguments: dict[str, Any] = {"is_causal": workload.causal, "scale": inputs.softmax_scale}
    arguments["enable_gqa"] = workload.group > 1
    return copying_runner(inputs.q, lambda: [scaled_dot_product_attention(q, k, v, **arguments)], out)
