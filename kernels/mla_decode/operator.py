"""Operator `mla_decode`: multi-head latent attention, decode step, absorbed form (DeepSeek-V2, arXiv:2405.04434).

Every head of a request attends to one shared latent vector per token. The key of a token is its `latent` and `rope`
parts together, its value the latent part alone:

    scores = scale * (q_latent . c_latent + q_rope . c_rope)    out = softmax(scores) @ c_latent
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutesnake.contract import Cost

if TYPE_CHECKING:
    import torch

DTYPES = {"bf16": 2, "fp16": 2, "fp8": 1}
DISTRIBUTIONS = ("randn", "large", "dominant", "constant", "ragged", "length_one")
PLANNED = ("kv_lengths",)  # inputs that a binding may look at, to make its schedule: others need a new binding
PAGE = 64  # tokens per page of the KV cache


@dataclass(frozen=True)
class Workload:
    """One decode step.

    `kv_length` is the longest request in tokens; `paged` shuffles the pages of the cache, otherwise they lie in order
    (a contiguous cache, which paged kernels read through an identity table). With `causal`, query token t of
    `query_tokens` sees the keys below `length - query_tokens + 1 + t`. Output has the dtype of the inputs, the
    log-sum-exp is float32.
    """

    batch: int
    kv_length: int
    dtype: str = "bf16"
    query_tokens: int = 1
    heads: int = 128
    latent: int = 512
    rope: int = 64
    paged: bool = False
    causal: bool = True

    def __post_init__(self) -> None:
        for key in ("batch", "kv_length", "query_tokens", "heads", "latent", "rope"):
            value = getattr(self, key)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{key} is {value!r}; it must be a whole number from 1 up")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}; allowed: {', '.join(DTYPES)}")
        if self.query_tokens > self.kv_length:
            raise ValueError(
                f"query_tokens is {self.query_tokens}, more than kv_length {self.kv_length}: the cache holds the "
                "query tokens too"
            )

    @property
    def id(self) -> str:
        """Short and stable: `b32_q1_s4096_bf16`, then whatever differs from the defaults."""
        parts = [f"b{self.batch}", f"q{self.query_tokens}", f"s{self.kv_length}", self.dtype]
        parts += [f"h{self.heads}"] * (self.heads != 128) + [f"l{self.latent}"] * (self.latent != 512)
        parts += [f"r{self.rope}"] * (self.rope != 64) + ["paged"] * self.paged + ["full"] * (not self.causal)
        return "_".join(parts)

    @property
    def pages_per_request(self) -> int:
        """Width of the page table. Even for fp8: NVIDIA's kernel reads its entries in pairs (found by ptxsim)."""
        pages = -(-self.kv_length // PAGE)
        return pages + pages % 2 if self.dtype == "fp8" else pages

    @property
    def softmax_scale(self) -> float:
        """1/sqrt(192): DeepSeek scales by its un-absorbed head, 128 without and 64 with rotary position."""
        return 1.0 / math.sqrt(128 + self.rope)


@dataclass
class Inputs:
    q: torch.Tensor  # [batch, query_tokens, heads, latent + rope], the dtype
    kv_cache: torch.Tensor  # [pages, PAGE, latent + rope], the dtype; rows past a request's length hold garbage
    page_table: torch.Tensor  # [batch, pages_per_request], int32
    kv_lengths: torch.Tensor  # [batch], int32, each from query_tokens to kv_length
    softmax_scale: float


@dataclass
class Outputs:
    out: torch.Tensor  # [batch, query_tokens, heads, latent], the dtype
    lse: torch.Tensor  # [batch, query_tokens, heads], float32, natural logarithm of the sum of exp(scores)


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Sizes to check beside a workload: its pages shuffled, and a kv length that is no multiple of any tile."""
    found = [] if workload.paged else [replace(workload, paged=True)]
    if workload.kv_length - 27 >= workload.query_tokens:
        found.append(replace(workload, kv_length=workload.kv_length - 27))
    return tuple(found)


def torch_dtype(name: str) -> torch.dtype:
    import torch

    return {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}[name]


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Inputs drawn on `device` from `seed`.

    Distributions: `randn`; `large` (scores near +-100: one key takes nearly all weight); `dominant` (one key per
    request far above the rest); `constant` (all keys of a request alike: the softmax is uniform); `ragged` (request
    lengths from query_tokens to kv_length, never all equal when batch > 1); `length_one` (every request as short as
    it may be).
    """
    import torch

    if distribution not in DISTRIBUTIONS:
        raise ValueError(f"distribution is {distribution!r}; allowed: {', '.join(DISTRIBUTIONS)}")
    w = workload
    generator = torch.Generator(device).manual_seed(seed)
    width = w.latent + w.rope
    pages = w.batch * w.pages_per_request

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device)

    lengths = _lengths(w, distribution, generator, device)
    if w.paged:
        order = torch.randperm(pages, generator=generator, device=device)
    else:
        order = torch.arange(pages, device=device)
    page_table = order.view(w.batch, w.pages_per_request).to(torch.int32)

    q = draw(w.batch, w.query_tokens, w.heads, width)
    cache = torch.empty(pages, PAGE, width, dtype=torch_dtype(w.dtype), device=device)
    position = torch.arange(w.pages_per_request * PAGE, device=device)
    for request in range(w.batch):  # one request at a time: float32 drafts of the whole cache would not fit
        keys = draw(len(position), width)
        if distribution == "large":
            keys *= 8.0
        elif distribution == "constant":
            keys[:] = keys[0]
        elif distribution == "dominant":
            keys *= 0.1
            keys[int(lengths[request]) // 2] = q[request, 0, 0] * 2.0
        keys[position >= lengths[request]] = 64.0  # finite garbage: reading it must show, multiplying by 0 must not
        cache[page_table[request].long()] = keys.view(-1, PAGE, width).to(cache.dtype)
    return Inputs(q.to(cache.dtype), cache, page_table, lengths, w.softmax_scale)


def _lengths(w: Workload, distribution: str, generator: torch.Generator, device: str) -> torch.Tensor:
    import torch

    if distribution == "length_one":
        return torch.full((w.batch,), w.query_tokens, dtype=torch.int32, device=device)
    lengths = torch.full((w.batch,), w.kv_length, dtype=torch.int32, device=device)
    if distribution == "ragged" and w.kv_length > w.query_tokens:
        lengths[1:] = torch.randint(
            w.query_tokens, w.kv_length, (w.batch - 1,), generator=generator, device=device, dtype=torch.int32
        )
    return lengths


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    """Outputs poisoned with NaN: an element that is never written cannot pass."""
    import torch

    w = workload
    shape = (w.batch, w.query_tokens, w.heads)
    out = torch.full((*shape, w.latent), float("nan"), device=device).to(torch_dtype(w.dtype))
    return Outputs(out, torch.full(shape, float("nan"), device=device))


def _attend(inputs: Inputs, latent: int, causal: bool, same_precision: bool) -> Outputs:
    """One request at a time; in float32, or with operands, probabilities and output rounded to the input dtype."""
    import torch

    dtype = inputs.q.dtype
    # No CPU multiplies e4m3: its values are exact in bfloat16, so rounding the operands is the same computation.
    operand = torch.bfloat16 if dtype == torch.float8_e4m3fn else dtype
    batch, tokens, heads, _ = inputs.q.shape
    out = torch.empty(batch, tokens, heads, latent, device=inputs.q.device)
    lse = torch.empty(batch, tokens, heads, device=inputs.q.device)
    for request, length in enumerate(inputs.kv_lengths.tolist()):
        pages = inputs.page_table[request, : -(-length // PAGE)].long()
        keys = inputs.kv_cache[pages].flatten(0, 1)[:length]
        q = inputs.q[request]
        if same_precision:
            scores = (q.to(operand) @ keys.to(operand).T).float()
        else:
            scores = q.float() @ keys.float().T
        scores = scores * inputs.softmax_scale
        if causal and tokens > 1:
            limit = length - tokens + 1 + torch.arange(tokens, device=scores.device)
            hidden = torch.arange(length, device=scores.device)[None, :] >= limit[:, None]
            scores = scores.masked_fill(hidden[:, None, :], float("-inf"))
        lse[request] = torch.logsumexp(scores, dim=-1)
        weights = torch.softmax(scores, dim=-1)
        if same_precision:
            out[request] = (weights.to(dtype).to(operand) @ keys[:, :latent].to(operand)).float()
        else:
            out[request] = weights @ keys[:, :latent].float()
    return Outputs(out.to(dtype) if same_precision else out, lse)


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 throughout (TF32 off, PyTorch's default for matrix products)."""
    return _attend(inputs, workload.latent, workload.causal, same_precision=False)


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's own computation in the workload's dtype: the yardstick for the allowed error."""
    return _attend(inputs, workload.latent, workload.causal, same_precision=True)


def cost(workload: Workload) -> Cost:
    """FLOPs 2 B Q H S (latent + rope + latent); bytes: cache, queries, output and LSE once each.

    The masked corner of causal query tokens is counted as done: at most Q(Q-1)/2 keys in S.
    """
    w = workload
    size = DTYPES[w.dtype]
    rows = w.batch * w.query_tokens * w.heads
    return Cost(
        flops=2 * rows * w.kv_length * (2 * w.latent + w.rope),
        bytes_read=size * (w.batch * w.kv_length + rows) * (w.latent + w.rope),
        bytes_written=rows * (w.latent * size + 4),
    )


def tolerance(dtype: str) -> float:
    """Largest relative error norm accepted when `same_precision` happens to be nearer than a rounding allows."""
    return {"bf16": 5.0e-3, "fp16": 7.0e-4, "fp8": 6.0e-2}[dtype]
