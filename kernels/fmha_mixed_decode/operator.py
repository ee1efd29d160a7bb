"""Operator `fmha_mixed_decode`: one query token per sequence attends to a scaled low-bit cache.

Per query head h of a sequence, with the cache of key head h // (heads / kv_heads) as integers or 8-bit floats k_t, v_t
and one scale of each per token t:

    out = sum_t softmax_t(scale * ks_t * q k_t) * vs_t * v_t        scale = 1 / sqrt(head_dim)

Queries, scales and output are bf16. The products are taken in bf16, into which every code of the cache converts
exactly; the scales may be applied to the cache, or after the products, which is the same sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Cost
from cutesnake.model.workload import differing, poisoned, require_choice, require_multiple, require_sizes

if TYPE_CHECKING:
    import torch

DTYPES = {"int8": 1, "fp8": 1, "int4": 1}  # bytes that hold an element of the cache; of int4, two
BITS = {"int8": 8, "fp8": 8, "int4": 4}
LARGEST = {"int8": 127.0, "fp8": 448.0, "int4": 7.0}  # code, which a token's largest element is given
LOWEST = {"int8": -128.0, "fp8": -448.0, "int4": -8.0}
DISTRIBUTIONS = ("randn", "large", "dominant", "scales", "extremes")
AXIS, AXIS_LABEL = "kv_length", "cache length (tokens)"


@dataclass(frozen=True)
class Workload:
    """A batch of sequences with `kv_length` tokens in their caches, whose elements have `dtype`."""

    batch: int
    kv_length: int
    dtype: str = "int8"
    heads: int = 32
    kv_heads: int = 4
    head_dim: int = 512

    def __post_init__(self) -> None:
        require_sizes(self, "batch", "kv_length", "heads", "kv_heads", "head_dim")
        require_choice("dtype", self.dtype, DTYPES)
        require_multiple(self, "heads", of="kv_heads")
        if self.head_dim % 2:
            raise ValueError(f"head_dim is {self.head_dim}; it must be even: a byte holds two elements of int4")

    @property
    def id(self) -> str:
        """Short and stable: `b4_s4096_int8`, then whatever differs from the defaults."""
        others = differing(self, heads="h", kv_heads="kv", head_dim="d")
        return "_".join([f"b{self.batch}", f"s{self.kv_length}", self.dtype, *others])

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.heads // self.kv_heads

    @property
    def softmax_scale(self) -> float:
        return 1.0 / math.sqrt(self.head_dim)


@dataclass
class Inputs:
    q: torch.Tensor  # [batch, heads, head_dim], bf16
    k: torch.Tensor  # [batch, kv_heads, kv_length, head_dim]: int8, e4m3, or uint8 [..., head_dim / 2] of int4 pairs
    v: torch.Tensor  # like k; of a pair, the low half of a byte is the first
    k_scale: torch.Tensor  # [batch, kv_heads, kv_length], bf16
    v_scale: torch.Tensor  # [batch, kv_heads, kv_length], bf16
    softmax_scale: float


@dataclass
class Outputs:
    out: torch.Tensor  # [batch, heads, head_dim], bf16


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return a workload with another cache, whose last tile of any size has eight tokens."""
    shorter = workload.kv_length // 256 * 256 - 248
    return (replace(workload, kv_length=shorter),) if 8 <= shorter < workload.kv_length else ()


def quantize(x: torch.Tensor, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize rows into codes and bf16 scales; the largest element becomes the largest code."""
    import torch

    scale = (x.abs().amax(-1) / LARGEST[dtype]).clamp_min(1e-6).to(torch.bfloat16)
    return encode((x / scale.float()[..., None]).clamp(LOWEST[dtype], LARGEST[dtype]), dtype), scale


def encode(values: torch.Tensor, dtype: str) -> torch.Tensor:
    """Return the nearest codes of float32 values: int8, e4m3, or bytes of two int4."""
    import torch

    if dtype == "fp8":
        return values.to(torch.float8_e4m3fn)
    codes = values.round().to(torch.int8)
    if dtype == "int8":
        return codes
    low, high = (codes[..., i::2].view(torch.uint8) & 15 for i in range(2))
    return low | high << 4


def decode(codes: torch.Tensor) -> torch.Tensor:
    """float32 values of codes as `encode` makes them, without their scales."""
    import torch

    if codes.dtype != torch.uint8:
        return codes.float()
    signed = codes.view(torch.int8)
    return torch.stack(((signed << 4) >> 4, signed >> 4), -1).flatten(-2).float()


def dequantized(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """float32 values with their scales, [..., tokens, head_dim]."""
    return decode(codes) * scale.float()[..., None]


def draw_cache(
    shape: tuple[int, ...], dtype: str, distribution: str, generator: torch.Generator, favourite: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of keys or values [batch, kv_heads, tokens, head_dim]; see `make_inputs`.

    `favourite` [batch, kv_heads, head_dim] is what `dominant` makes the middle token's key; None for values.
    """
    import torch

    device = generator.device
    x = torch.randn(shape, generator=generator, device=device)
    if favourite is not None and distribution == "large":
        x *= 8.0
    if favourite is not None and distribution == "dominant":
        x *= 0.1
        x[:, :, shape[2] // 2] = favourite
    codes, scale = quantize(x, dtype)
    if distribution == "scales":
        spread = torch.randint(-6, 3, scale.shape, generator=generator, device=device)
        scale = (scale.float() * torch.exp2(spread.float())).to(torch.bfloat16)
    elif distribution == "extremes":
        codes = encode(torch.where(x > 0, LARGEST[dtype], LOWEST[dtype]), dtype)
        scale = torch.full_like(scale, 1 / LARGEST[dtype])
    return codes, scale


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`.

    Distributions: `randn`; `large` (scores of some +-40: a key or two take nearly all weight); `dominant` (the middle
    token's key is the first head's query of each group); `scales` (tokens' scales differ by up to 2^8, so that one
    that goes to another token shows); `extremes` (every code is the largest or the lowest there is).
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w = workload
    generator = torch.Generator(device).manual_seed(seed)
    q = torch.randn(w.batch, w.heads, w.head_dim, generator=generator, device=device)
    shape = (w.batch, w.kv_heads, w.kv_length, w.head_dim)
    k, k_scale = draw_cache(shape, w.dtype, distribution, generator, q[:, :: w.group] * 2.0)
    v, v_scale = draw_cache(shape, w.dtype, distribution, generator, None)
    return Inputs(q.to(torch.bfloat16), k, v, k_scale, v_scale, w.softmax_scale)


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    return Outputs(poisoned((workload.batch, workload.heads, workload.head_dim), "bf16", device))


def _attend(inputs: Inputs, workload: Workload, same_precision: bool) -> Outputs:
    """In float32, or with the dequantized cache and the weights rounded to bf16."""
    import torch

    w, i = workload, inputs
    kind = torch.bfloat16 if same_precision else torch.float32
    out = torch.empty(i.q.shape, dtype=kind, device=i.q.device)
    for request in range(w.batch):  # one at a time: a dequantized cache of all might not fit
        q = i.q[request].view(w.kv_heads, w.group, w.head_dim).to(kind)
        k, v = (dequantized(codes[request], scale[request]).to(kind) for codes, scale in _caches(i))
        scores = (q @ k.transpose(1, 2)).float() * i.softmax_scale
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        mixed = (weights.to(kind) @ v).float() / weights.sum(-1, keepdim=True)
        out[request] = mixed.reshape(w.heads, w.head_dim).to(kind)
    return Outputs(out)


def _caches(inputs: Any) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
    return (inputs.k, inputs.k_scale), (inputs.v, inputs.v_scale)


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 throughout (TF32 off, PyTorch's default for matrix products)."""
    return _attend(inputs, workload, same_precision=False)


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's own computation on the cache dequantized to bf16: the yardstick for the allowed error."""
    return _attend(inputs, workload, same_precision=True)


def cost(workload: Workload) -> Cost:
    """Count 4 head_dim FLOPs per query head and token; bytes: everything once."""
    w = workload
    tokens = w.batch * w.kv_heads * w.kv_length
    queries = 2 * w.batch * w.heads * w.head_dim
    return Cost(
        flops=4 * w.batch * w.heads * w.kv_length * w.head_dim,
        bytes_read=queries + 2 * tokens * (w.head_dim * BITS[w.dtype] // 8 + 2),
        bytes_written=queries,
    )


def tolerance(dtype: str) -> float:
    """Largest relative error norm accepted when `same_precision` happens to be nearer than a rounding allows."""
    return 1.0e-2
