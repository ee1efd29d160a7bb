"""Attention by PyTorch's `scaled_dot_product_attention`: the baseline a user has without any kernel of their own.

It chooses among PyTorch's own kernels: FlashAttention's and cuDNN's take 16-bit operands on Hopper and Blackwell.
"""

from __future__ import annotations

from typing import Any

from cutesnake.model.contract import Build, Runner, not_baked
from kernels.fmha.operator import Inputs, Outputs, Workload
from kernels.upstream.installed import on_stream
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, variants

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "torch"


@not_baked
def supports(workload: Workload) -> str | None:
    if workload.dtype == "fp8":
        return "PyTorch's attention takes no fp8"
    return None


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Which kernels PyTorch's libraries choose is theirs: the runner names no launches."""
    attention = _Attention(workload, inputs, outputs)
    return Runner(attention, finish=attention.finish)


@not_baked
class _Attention:
    """One call on a CUDA stream.

    PyTorch allocates the result itself; `finish` copies and spoils it.
    """

    def __init__(self, workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
        self._inputs, self._outputs = inputs, outputs
        self._tensors = [tensor.transpose(1, 2) for tensor in (inputs.q, inputs.k, inputs.v)]  # heads before tokens
        self._arguments: dict[str, Any] = {"is_causal": workload.causal, "scale": inputs.softmax_scale}
        self._arguments["enable_gqa"] = workload.group > 1
        self._result: Any = None

    def __call__(self, stream: int) -> None:
        from torch.nn.functional import scaled_dot_product_attention

        with on_stream(self._inputs.q, stream):
            self._result = scaled_dot_product_attention(*self._tensors, **self._arguments)

    def finish(self) -> None:
        self._outputs.out.copy_(self._result.transpose(1, 2))
        self._result.fill_(float("nan"))
