"""Gradients by PyTorch's autograd of `scaled_dot_product_attention`: the baseline a user has without own kernels.

A call runs the forward pass too, whose output and log-sum-exp autograd keeps in a form of its own. That is two products
beside the five of the backward pass: the time is that of both.
"""

from __future__ import annotations

from typing import Any

from cutesnake.contract import Build, Runner, not_baked
from kernels.fmha_backward.operator import Inputs, Outputs, Workload
from kernels.upstream.installed import on_stream
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, supports, variants

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "torch"


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Which kernels PyTorch's libraries choose is theirs: the runner names no launches."""
    gradients = _Gradients(workload, inputs, outputs)
    return Runner(gradients, finish=gradients.finish)


@not_baked
class _Gradients:
    """Both passes on a CUDA stream. PyTorch allocates the results itself; `finish` copies and spoils them."""

    def __init__(self, workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
        self._inputs, self._outputs = inputs, outputs
        import torch

        self._arguments: dict[str, Any] = {"is_causal": workload.causal, "scale": inputs.softmax_scale}
        if workload.window:
            seen = torch.ones(workload.length, workload.length, dtype=torch.bool, device=inputs.q.device)
            self._arguments = {"attn_mask": seen.tril().triu(-workload.window), "scale": inputs.softmax_scale}
        self._arguments["enable_gqa"] = workload.group > 1
        self._result: Any = None

    def __call__(self, stream: int) -> None:
        import torch
        from torch.nn.functional import scaled_dot_product_attention

        i = self._inputs
        with on_stream(i.q, stream), torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in (i.q, i.k, i.v)]
            out = scaled_dot_product_attention(*(x.transpose(1, 2) for x in leaves), **self._arguments)
            self._result = torch.autograd.grad(out, leaves, i.dout.transpose(1, 2))

    def finish(self) -> None:
        for mine, computed in zip((self._outputs.dq, self._outputs.dk, self._outputs.dv), self._result, strict=True):
            mine.copy_(computed)
            computed.fill_(float("nan"))
