"""Gradients by PyTorch's autograd of `scaled_dot_product_attention`: the baseline a user has without own kernels.

A call runs the forward pass too, whose output and log-sum-exp autograd keeps in a form of its own. That is two products
besides the five of the backward pass: the time covers both. Sequences of different lengths are attended to one by
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, not_baked
from kernels.fmha_backward.operator import Inputs, Outputs, Workload, sequences
from kernels.upstream.installed import on_stream
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, supports, variants

if TYPE_CHECKING:
    import torch

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "torch"


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Which kernels PyTorch's libraries choose is theirs: the runner names no launches."""
    gradients = _Gradients(workload, inputs, outputs)
    return Runner(gradients, finish=gradients.finish)


@not_baked
class _Gradients:
    """Both passes on a CUDA stream.

    PyTorch allocates the results itself; `finish` copies and spoils them.
    """

    def __init__(self, workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
        self._inputs, self._outputs = inputs, outputs
        import torch

        self._workload = workload
        self._sequences = [(slice(row, row + 1), tokens) for row, tokens in sequences(workload)]
        if workload.lengths == "full":
            self._sequences = [(slice(None), slice(None))]  # one call for all
        self._seen: Any = None
        if workload.window:
            seen = torch.ones(workload.length, workload.length, dtype=torch.bool, device=inputs.q.device)
            self._seen = seen.tril().triu(-workload.window)
        self._result: Any = None

    def _attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Attention of sequences of one length, [batch, heads, length, head_dim]."""
        from torch.nn.functional import scaled_dot_product_attention

        w, length = self._workload, q.shape[2]
        mask: dict[str, Any] = {"is_causal": w.causal}
        if self._seen is not None:
            mask = {"attn_mask": self._seen[:length, :length]}
        return scaled_dot_product_attention(q, k, v, scale=w.softmax_scale, enable_gqa=w.group > 1, **mask)

    def __call__(self, stream: int) -> None:
        import torch

        i = self._inputs
        with on_stream(i.q, stream), torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in (i.q, i.k, i.v)]
            out = [self._attend(*(x[place].transpose(1, 2) for x in leaves)) for place in self._sequences]
            self._result = torch.autograd.grad(torch.cat(out, 2), leaves, i.dout.transpose(1, 2))

    def finish(self) -> None:
        for mine, computed in zip((self._outputs.dq, self._outputs.dk, self._outputs.dv), self._result, strict=True):
            mine.copy_(computed)
            computed.fill_(float("nan"))
