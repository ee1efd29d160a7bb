"""Operator `fmha_backward`: gradients of `fmha` (FlashAttention, arXiv:2205.14135, appendix B.4; -2, arXiv:2307.08691).

With P = softmax(scale * Q K^T), recomputed from the log-sum-exp of each row of scores that the forward pass kept:

    dV = P^T dO        dS = P * (dO V^T - rowsum(dO * O))        dQ = scale * dS K        dK = scale * dS^T Q

Where query heads share a key head, dK and dV are sums over the group.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice, require_sizes
from kernels.fmha import operator as fmha

if TYPE_CHECKING:
    import torch

DTYPES = {"bf16": 2, "fp16": 2}
DISTRIBUTIONS = ("randn", "rising")  # with equal keys dQ is 0, and errors relative to it mean nothing
LENGTHS = ("full", "ragged")
LEAST_RAGGED = 2  # tokens: a single one's dq and dk are 0, and what a kernel computes in their place is rounding alone
AXIS, AXIS_LABEL = fmha.AXIS, fmha.AXIS_LABEL


@dataclass(frozen=True)
class Workload(fmha.Workload):
    """The sizes of `fmha`; operands and gradients have `dtype`.

    With a `window`, which takes `causal`, a token sees itself and the `window` tokens before it; 0 is for all of them.
    With `lengths` "full" every sequence has `length` tokens; with "ragged" none has more (see `sequence_lengths`), and
    they lie one after the other, without padding.
    """

    TYPES = DTYPES
    window: int = 0
    lengths: str = "full"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("lengths", self.lengths, LENGTHS)
        if self.lengths == "ragged" and self.length < LEAST_RAGGED:
            raise ValueError(f"length is {self.length}; with ragged lengths it must be at least {LEAST_RAGGED}")
        if self.window:
            require_sizes(self, "window")
            if not self.causal:
                raise ValueError("window is for causal attention: causal must be true with it")

    @property
    def id(self) -> str:
        return super().id + f"_w{self.window}" * bool(self.window) + "_ragged" * (self.lengths == "ragged")


@dataclass
class Inputs:
    """Inputs: `rows` x `tokens` are batch x length, or 1 x all tokens where ragged."""

    q: torch.Tensor  # [rows, tokens, heads, head_dim], the dtype
    k: torch.Tensor  # [rows, tokens, kv_heads, head_dim], the dtype
    v: torch.Tensor  # [rows, tokens, kv_heads, head_dim], the dtype
    out: torch.Tensor  # [rows, tokens, heads, head_dim], the dtype: what the forward pass returned
    lse: torch.Tensor  # [rows, heads, tokens], float32: natural logarithm of the sum of exp(scores)
    dout: torch.Tensor  # [rows, tokens, heads, head_dim], the dtype
    starts: torch.Tensor  # [batch + 1], int32: the token at which each sequence begins, and the number of all
    softmax_scale: float


@dataclass
class Outputs:
    dq: torch.Tensor  # [rows, tokens, heads, head_dim], the dtype
    dk: torch.Tensor  # [rows, tokens, kv_heads, head_dim], the dtype
    dv: torch.Tensor  # [rows, tokens, kv_heads, head_dim], the dtype


def sequence_lengths(workload: Workload) -> tuple[int, ...]:
    """Tokens of each sequence.

    "ragged": the first has `length`, the third LEAST_RAGGED; the others are log-uniform between these, drawn by
    Python's generator from batch and length alone: a workload has one cost.
    """
    w = workload
    if w.lengths == "full":
        return (w.length,) * w.batch
    draw = random.Random(f"{w.batch} sequences of up to {w.length} tokens")
    fixed, bounds = {0: w.length, 2: LEAST_RAGGED}, (math.log(LEAST_RAGGED), math.log(w.length))
    return tuple(fixed.get(n) or round(math.exp(draw.uniform(*bounds))) for n in range(w.batch))


def sequences(workload: Workload) -> list[tuple[int, slice]]:
    """Where each sequence lies: its row, and its tokens there."""
    w = workload
    if w.lengths == "full":
        return [(row, slice(0, w.length)) for row in range(w.batch)]
    starts = itertools.accumulate(sequence_lengths(w), initial=0)
    return [(0, slice(begin, end)) for begin, end in itertools.pairwise(starts)]


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return a workload of another length, which is no multiple of any tile."""
    w = workload
    shorter, least = w.length - 27, LEAST_RAGGED if w.lengths == "ragged" else 1
    return (replace(w, length=shorter),) if shorter >= least else ()


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw the inputs of `fmha`, its output and normal `dout` from `seed`."""
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w, lengths = workload, sequence_lengths(workload)
    forward = fmha.make_inputs(w, seed, device, distribution)
    generator = torch.Generator(device).manual_seed(seed + 1)
    dout = torch.randn(forward.q.shape, generator=generator, device=device).to(forward.q.dtype)
    starts = torch.tensor((0, *itertools.accumulate(lengths)), dtype=torch.int32, device=device)
    q, k, v, dout = (_packed(x, w) for x in (forward.q, forward.k, forward.v, dout))
    lse = torch.empty(q.shape[0], w.heads, q.shape[1], device=device)
    inputs = Inputs(q, k, v, torch.empty_like(q), lse, dout, starts, forward.softmax_scale)
    for q, k, v, (row, tokens, heads) in key_heads(inputs, w):
        scores = _scores(q.float(), k.float(), w)
        lse[row, heads, tokens] = torch.logsumexp(scores, -1)
        inputs.out[row, tokens, heads] = (torch.softmax(scores, -1) @ v.float()).to(q.dtype).transpose(0, 1)
    return inputs


def _packed(x: torch.Tensor, w: Workload) -> torch.Tensor:
    """Pack the first tokens of each sequence of [batch, length, ...] into [rows, tokens, ...]."""
    import torch

    if w.lengths == "full":
        return x
    return torch.cat([each[:length] for each, length in zip(x, sequence_lengths(w), strict=True)])[None]


def key_heads(
    inputs: Inputs, workload: Workload
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor, tuple[int, slice, slice]]]:
    """Yield queries, keys, values and the output's place per sequence and key head.

    Queries are [group, its length, head_dim], keys and values [its length, head_dim], the place is (row, tokens,
    heads). It yields one at a time: the scores of all would not fit.
    """
    for row, tokens in sequences(workload):
        for head in range(workload.kv_heads):
            heads = slice(head * workload.group, (head + 1) * workload.group)
            q = inputs.q[row, tokens, heads].transpose(0, 1)
            yield q, inputs.k[row, tokens, head], inputs.v[row, tokens, head], (row, tokens, heads)


def _scores(q: torch.Tensor, k: torch.Tensor, w: Workload) -> torch.Tensor:
    """Return scale * q @ k^T in float32, -inf where masked; [group, length, length]."""
    import torch

    scores = (q @ k.T).float() * w.softmax_scale
    if not w.causal:
        return scores
    position = torch.arange(len(k), device=q.device)
    ahead = position[None, :] - position[:, None]  # tokens by which a key comes after a query
    hidden = (ahead > 0) | (ahead < -w.window) if w.window else ahead > 0
    return scores.masked_fill(hidden, float("-inf"))


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    w = workload
    tokens = (w.batch, w.length) if w.lengths == "full" else (1, sum(sequence_lengths(w)))
    heads = (w.heads, w.kv_heads, w.kv_heads)
    return Outputs(*(poisoned((*tokens, count, w.head_dim), w.dtype, device) for count in heads))


def _gradients(inputs: Inputs, workload: Workload, same_precision: bool) -> Outputs:
    """Compute gradients in float32, or with intermediates rounded to the workload's dtype.

    Rounded are operands, row sums, P, dS and gradients. The rounded row sums are then off by what the roundings of
    their terms usually come to, one unit roundoff each, as if independent. Where a gradient is 0 (dq of a causal
    sequence's first token), what a kernel computes is the rounding of its row sum alone, and the yardstick's own might
    happen to be none.
    """
    import torch

    w, dtype = workload, inputs.q.dtype
    kind = dtype if same_precision else torch.float32
    dq, dk, dv = (torch.empty(x.shape, dtype=kind, device=x.device) for x in (inputs.q, inputs.k, inputs.v))
    for q, k, v, (row, tokens, heads) in key_heads(inputs, w):
        q, k, v = q.to(kind), k.to(kind), v.to(kind)
        dout, out = (x[row, tokens, heads].transpose(0, 1) for x in (inputs.dout, inputs.out))
        p = torch.exp(_scores(q, k, w) - inputs.lse[row, heads, tokens, None])
        dout = dout.to(kind)
        delta = (dout * out.to(kind)).sum(-1, keepdim=True).float()
        if same_precision:
            terms = dout.float() * out.float()
            usual = torch.finfo(dtype).eps / 2 * terms.norm(dim=-1, keepdim=True)
            delta += usual.copysign(delta - terms.sum(-1, keepdim=True))
        ds = (p * ((dout @ v.T).float() - delta)).to(kind)
        head = heads.start // w.group
        dv[row, tokens, head] = torch.einsum("gqk,gqd->kd", p.to(kind), dout)
        dk[row, tokens, head] = torch.einsum("gqk,gqd->kd", ds, q) * w.softmax_scale
        dq[row, tokens, heads] = (ds @ k * w.softmax_scale).transpose(0, 1)
    return Outputs(dq, dk, dv)


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 throughout (TF32 off, PyTorch's default for matrix products)."""
    return _gradients(inputs, workload, same_precision=False)


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """Compute the same formulas in the workload's dtype: the yardstick for the allowed error."""
    return _gradients(inputs, workload, same_precision=True)


def _visible_pairs(length: int, w: Workload) -> int:
    pairs = length * (length + 1) // 2 if w.causal else length**2
    unseen = max(length - w.window - 1, 0) if w.window else 0  # tokens before the window of the last query
    return pairs - unseen * (unseen + 1) // 2


def cost(workload: Workload) -> Cost:
    """Count five products, 10 D FLOPs per visible pair; bytes: inputs and gradients once."""
    w, lengths = workload, sequence_lengths(workload)
    tokens, pairs = sum(lengths), sum(_visible_pairs(length, w) for length in lengths)
    size = DTYPES[w.dtype] * w.head_dim
    return Cost(
        flops=10 * w.head_dim * w.heads * pairs,
        bytes_read=tokens * (size * (3 * w.heads + 2 * w.kv_heads) + 4 * w.heads),
        bytes_written=tokens * size * (w.heads + 2 * w.kv_heads),
    )


def tolerance(dtype: str) -> float:
    """Largest relative error norm accepted when `same_precision` happens to be nearer than a rounding allows."""
    return {"bf16": 1.0e-2, "fp16": 1.5e-3}[dtype]
