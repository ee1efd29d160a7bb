"""Gradients by PyTorch's autograd of `scaled_dot_product_attention`: the baseline a user has without own kernels.

A call runs the forward pass too, whose output and log-sum-exp autograd keeps in a form of its own. That is two products
besides the five of the backward pass: the time covers both. Sequences of different lengths are attended to one by
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner
from kernels.fmha_backward.operator import Inputs, Outputs, Workload, sequences
from kernels.upstream.installed import copying_runner
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, supports, variants

if TYPE_CHECKING:
    import torch

DSL = "torch"


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    w, i = workload, inputs
    places = [(slice(None), slice(None))]  # one call for all
    if w.lengths != "full":
        places = [(slice(row, row + 1), tokens) for row, tokens in sequences(w)]
    extent = w.length if w.window else 0
    seen = torch.ones(extent, extent, dtype=torch.bool, device=i.q.device).tril().triu(-w.window)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Attention of sequences of one length, [batch, heads, length, head_dim]."""
        length = q.shape[2]
        mask: dict[str, Any] = {"attn_mask": seen[:length, :length]} if w.window else {"is_causal": w.causal}
        return scaled_dot_product_attention(q, k, v, scale=w.softmax_scale, enable_gqa=w.group > 1, **mask)

    def call() -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in (i.q, i.k, i.v)]
            out = [attend(*(x[place].transpose(1, 2) for x in leaves)) for place in places]
            return torch.autograd.grad(torch.cat(out, 2), leaves, i.dout.transpose(1, 2))

    return copying_runner(i.q, call, outputs.dq, outputs.dk, outputs.dv)
