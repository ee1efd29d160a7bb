"""Operator `fmha`: fused multi-head attention, the forward pass over whole sequences (arXiv:1706.03762).

Per head, with queries Q, keys K and values V of one sequence:

    out = softmax(scale * Q K^T) V        scale = 1 / sqrt(head width)

Query heads share key and value heads in groups (grouped-query attention, arXiv:2305.13245): head h reads key head
h // (heads / kv_heads). With `causal`, a token sees itself and those before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from cutesnake.model.contract import Cost
from cutesnake.model.workload import differing, poisoned, require_choice, require_multiple, require_sizes, torch_dtype

if TYPE_CHECKING:
    import torch

DTYPES = {"bf16": 2, "fp16": 2, "fp8": 1}
DISTRIBUTIONS = ("randn", "large", "dominant", "constant", "rising")
AXIS, AXIS_LABEL = "length", "sequence length (tokens)"
OUTPUT = {"bf16": "bf16", "fp16": "fp16", "fp8": "fp16"}  # element type of the output
RISE = 0.02  # of a score from key to key in `rising`


@dataclass(frozen=True)
class Workload:
    """Self-attention in a batch of sequences of `length` tokens, `heads` query heads of `head_dim` elements.

    Operands have `dtype`. The output has it too, except that with fp8 operands it is fp16: a mean over many values is
    smaller than what 8 bits can hold to any precision.
    """

    TYPES: ClassVar[Iterable[str]] = DTYPES
    batch: int
    length: int
    dtype: str = "bf16"
    heads: int = 16
    kv_heads: int = 16
    head_dim: int = 128
    causal: bool = False

    def __post_init__(self) -> None:
        require_sizes(self, "batch", "length", "heads", "kv_heads", "head_dim")
        require_choice("dtype", self.dtype, self.TYPES)
        require_multiple(self, "heads", of="kv_heads")

    @property
    def id(self) -> str:
        """Short and stable: `b4_s4096_bf16`, then whatever differs from the defaults."""
        others = differing(self, heads="h", kv_heads="kv", head_dim="d")
        return "_".join([f"b{self.batch}", f"s{self.length}", self.dtype, *others, *["causal"] * self.causal])

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.heads // self.kv_heads

    @property
    def softmax_scale(self) -> float:
        return 1.0 / math.sqrt(self.head_dim)


@dataclass
class Inputs:
    q: torch.Tensor  # [batch, length, heads, head_dim], the dtype
    k: torch.Tensor  # [batch, length, kv_heads, head_dim], the dtype
    v: torch.Tensor  # [batch, length, kv_heads, head_dim], the dtype
    softmax_scale: float


@dataclass
class Outputs:
    out: torch.Tensor  # [batch, length, heads, head_dim], the dtype, fp16 where that is fp8


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return two other lengths, the second with a last tile of one token."""
    lengths = [n for n in (workload.length - 27, workload.length // 256 * 256 - 255) if n >= 1]
    return tuple(replace(workload, length=n) for n in dict.fromkeys(lengths) if n != workload.length)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`.

    Distributions: `randn`; `large` (scores of some +-40: a key or two take nearly all weight); `dominant` (a key in the
    middle of each sequence that the first token's query, in the first head of a group, matches far better than any
    other); `constant` (all keys equal: the softmax is uniform); `rising` (every query's scores rise along the keys, so
    that the running maximum of an online softmax moves with every tile).
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w = workload
    generator = torch.Generator(device).manual_seed(seed)

    def draw(heads: int) -> torch.Tensor:
        return torch.randn(w.batch, w.length, heads, w.head_dim, generator=generator, device=device)

    q, k, v = draw(w.heads), draw(w.kv_heads), draw(w.kv_heads)
    if distribution == "large":
        k *= 8.0
    elif distribution == "constant":
        k[:] = k[:, :1]
    elif distribution == "dominant":
        k *= 0.1
        k[:, w.length // 2] = q[:, 0, :: w.group] * 2.0
    elif distribution == "rising":
        # Along one axis queries are 1 and keys rise from 0; for long sequences to at most 448, what fp8 can hold.
        q[..., 0] = 1.0
        rise = min(RISE / w.softmax_scale, 448.0 / w.length)
        k[..., 0] = rise * torch.arange(w.length, device=device)[:, None]
    dtype = torch_dtype(w.dtype)
    return Inputs(q.to(dtype), k.to(dtype), v.to(dtype), w.softmax_scale)


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    w = workload
    return Outputs(poisoned((w.batch, w.length, w.heads, w.head_dim), OUTPUT[w.dtype], device))


def key_heads(inputs: Any, workload: Workload) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield queries, keys, values and the output's place per request and key head.

    Queries are [group, length, head_dim], keys and values [length, head_dim], the place is (request, slice of heads).
    It yields one at a time: the scores of all would not fit.
    """
    for request in range(workload.batch):
        for head in range(workload.kv_heads):
            heads = slice(head * workload.group, (head + 1) * workload.group)
            q = inputs.q[request, :, heads].transpose(0, 1)
            yield q, inputs.k[request, :, head], inputs.v[request, :, head], (request, heads)


def _attend(inputs: Inputs, workload: Workload, same_precision: bool) -> Outputs:
    """Attend in float32, or with operands and output in the workload's dtype.

    Then weights are rounded to it before they are divided by their sum, as every fused kernel does.
    """
    import torch

    w, dtype = workload, inputs.q.dtype
    # No CPU multiplies e4m3: its values are exact in bfloat16, so rounding the operands is the same computation.
    operand = torch.bfloat16 if w.dtype == "fp8" else dtype
    kind = torch_dtype(OUTPUT[w.dtype]) if same_precision else torch.float32
    out = torch.empty(inputs.q.shape, dtype=kind, device=inputs.q.device)
    position = torch.arange(w.length, device=inputs.q.device)
    hidden = position[None, :] > position[:, None]
    for q, k, v, (request, heads) in key_heads(inputs, w):
        scores = (q.to(operand) @ k.to(operand).T).float() if same_precision else q.float() @ k.float().T
        scores = scores * inputs.softmax_scale
        if w.causal:
            scores = scores.masked_fill(hidden, float("-inf"))
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        total = weights.sum(-1, keepdim=True)
        if same_precision:
            mixed = (weights.to(dtype).to(operand) @ v.to(operand)).float()
        else:
            mixed = weights @ v.float()
        out[request, :, heads] = (mixed / total).to(kind).transpose(0, 1)
    return Outputs(out)


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 throughout (TF32 off, PyTorch's default for matrix products)."""
    return _attend(inputs, workload, same_precision=False)


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's own computation in the workload's dtype: the yardstick for the allowed error."""
    return _attend(inputs, workload, same_precision=True)


def cost(workload: Workload) -> Cost:
    """Count FLOPs as 4 D per query head and visible pair of tokens.

    D is the head width. Bytes: q, k, v and out once. A causal sequence of L tokens has L (L + 1) / 2 visible pairs, any
    other L^2. Kernels that work in tiles do more.
    """
    w = workload
    pairs = w.length * (w.length + 1) // 2 if w.causal else w.length**2
    tokens = w.batch * w.length * w.head_dim
    return Cost(
        flops=4 * w.head_dim * w.batch * w.heads * pairs,
        bytes_read=DTYPES[w.dtype] * tokens * (w.heads + 2 * w.kv_heads),
        bytes_written=2 * tokens * w.heads,
    )


def tolerance(dtype: str) -> float:
    """Largest relative error norm accepted when `same_precision` happens to be nearer than a rounding allows."""
    return {"bf16": 5.0e-3, "fp16": 7.0e-4, "fp8": 4.0e-2}[dtype]
