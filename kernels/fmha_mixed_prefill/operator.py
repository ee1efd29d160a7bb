"""Operator `fmha_mixed_prefill`: attention of whole sequences whose keys and values have fewer bits, with scales.

The formulas are as in `fmha`, with keys ks_t k_t and values vs_t v_t per token t as in `fmha_mixed_decode`: codes of
8-bit integers, 8-bit floats or 4-bit integers, one scale of each per token and key head. Queries, scales and output are
bf16. With `causal`, a token sees itself and those before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice
from kernels.fmha import operator as fmha
from kernels.fmha_mixed_decode import operator as mixed

if TYPE_CHECKING:
    import torch

DTYPES, BITS = mixed.DTYPES, mixed.BITS
DISTRIBUTIONS = mixed.DISTRIBUTIONS
AXIS, AXIS_LABEL = "length", "sequence length (tokens)"


@dataclass(frozen=True)
class Workload(fmha.Workload):
    """The sizes of `fmha`; keys and values have `dtype`."""

    TYPES = DTYPES
    dtype: str = "int8"
    heads: int = 8
    kv_heads: int = 8
    head_dim: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_dim % 2:
            raise ValueError(f"head_dim is {self.head_dim}; it must be even: a byte holds two elements of int4")


@dataclass
class Inputs:
    q: torch.Tensor  # [batch, heads, length, head_dim], bf16
    k: torch.Tensor  # [batch, kv_heads, length, head_dim]: int8, e4m3, or uint8 [..., head_dim / 2] of int4 pairs
    v: torch.Tensor  # like k
    k_scale: torch.Tensor  # [batch, kv_heads, length], bf16
    v_scale: torch.Tensor  # [batch, kv_heads, length], bf16
    softmax_scale: float


@dataclass
class Outputs:
    out: torch.Tensor  # [batch, heads, length, head_dim], bf16


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return a workload whose last tile, of any size, has eight tokens."""
    shorter = workload.length // 256 * 256 - 248
    return (replace(workload, length=shorter),) if 8 <= shorter < workload.length else ()


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`, with the distributions of `fmha_mixed_decode`.

    In `dominant` the middle token's key is the first token's query, of the first head of each group.
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w = workload
    generator = torch.Generator(device).manual_seed(seed)
    q = torch.randn(w.batch, w.heads, w.length, w.head_dim, generator=generator, device=device)
    shape = (w.batch, w.kv_heads, w.length, w.head_dim)
    k, k_scale = mixed.draw_cache(shape, w.dtype, distribution, generator, q[:, :: w.group, 0] * 2.0)
    v, v_scale = mixed.draw_cache(shape, w.dtype, distribution, generator, None)
    return Inputs(q.to(torch.bfloat16), k, v, k_scale, v_scale, w.softmax_scale)


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    w = workload
    return Outputs(poisoned((w.batch, w.heads, w.length, w.head_dim), "bf16", device))


def _attend(inputs: Inputs, workload: Workload, same_precision: bool) -> Outputs:
    """In float32, or with dequantized keys and values and the weights rounded to bf16."""
    import torch

    w, i = workload, inputs
    kind = torch.bfloat16 if same_precision else torch.float32
    out = torch.empty(i.q.shape, dtype=kind, device=i.q.device)
    position = torch.arange(w.length, device=i.q.device)
    hidden = position[None, :] > position[:, None]
    for request in range(w.batch):  # and one key head at a time: the scores of all would not fit
        for head in range(w.kv_heads):
            k = mixed.dequantized(i.k[request, head], i.k_scale[request, head]).to(kind)
            v = mixed.dequantized(i.v[request, head], i.v_scale[request, head]).to(kind)
            for query_head in range(head * w.group, (head + 1) * w.group):
                scores = (i.q[request, query_head].to(kind) @ k.T).float() * i.softmax_scale
                if w.causal:
                    scores = scores.masked_fill(hidden, float("-inf"))
                weights = torch.exp(scores - scores.amax(-1, keepdim=True))
                mixed_values = (weights.to(kind) @ v).float() / weights.sum(-1, keepdim=True)
                out[request, query_head] = mixed_values.to(kind)
    return Outputs(out)


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 throughout (TF32 off, PyTorch's default for matrix products)."""
    return _attend(inputs, workload, same_precision=False)


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's own computation on operands dequantized to bf16: the yardstick for the allowed error."""
    return _attend(inputs, workload, same_precision=True)


def cost(workload: Workload) -> Cost:
    """Count 4 head_dim FLOPs per visible pair of tokens; bytes: everything once."""
    w = workload
    pairs = w.length * (w.length + 1) // 2 if w.causal else w.length**2
    queries = 2 * w.batch * w.heads * w.length * w.head_dim
    tokens = w.batch * w.kv_heads * w.length
    return Cost(
        flops=4 * w.head_dim * w.batch * w.heads * pairs,
        bytes_read=queries + 2 * tokens * (w.head_dim * BITS[w.dtype] // 8 + 2),
        bytes_written=queries,
    )


tolerance = mixed.tolerance
