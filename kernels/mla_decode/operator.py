"""Operator `mla_decode`: multi-head latent attention, decode step, absorbed form (DeepSeek-V2, arXiv:2405.04434).

Every head of a request attends to one shared latent vector per token. The key of a token is its `latent` and `rope`
parts together, its value the latent part alone:

    scores = scale * (q_latent . c_latent + q_rope . c_rope)    out = softmax(scores) @ c_latent
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import differing, require_choice, require_sizes, torch_dtype

if TYPE_CHECKING:
    import torch

DTYPES = {"bf16": 2, "fp16": 2, "fp8": 1}
DISTRIBUTIONS = (
    *("randn", "large", "dominant", "constant", "ragged", "length_one"),
    *("nan_padding", "empty_requests", "bad_table"),  # what a serving engine's cache holds besides its requests
)
RELATED = ("randn", "ragged")
LENGTHS = ("full", "ragged")
PLANNED = ("kv_lengths",)  # inputs that a binding may look at, to make its schedule: others need a new binding
AXIS, AXIS_LABEL = "kv_length", "KV length (tokens)"
PAGE = 64  # tokens per page of the KV cache
UNUSED_COLUMNS = 4  # of the page table with `bad_table`; even, as a table for fp8 has to be
BAD_ENTRY = 2_147_480_000  # no page has this number: the value of FlashMLA's own dense decode test


@dataclass(frozen=True)
class Workload:
    """One decode step.

    No request is longer than `kv_length` tokens; `paged` shuffles the pages of the cache, otherwise they lie in order
    (a contiguous cache, which paged kernels read through an identity table). With `causal`, query token t of
    `query_tokens` sees the keys below `length - query_tokens + 1 + t`. Output has the dtype of the inputs, the
    log-sum-exp is float32. A row that sees no key, as all rows of a request of length 0, has output 0 and a
    log-sum-exp of +inf, as FlashMLA defines it.

    With `lengths` "full" every request has `kv_length` tokens; with "ragged" they are log-uniform from 1 to
    `kv_length` (see `request_lengths`), as in a batch of old and new conversations.
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
    lengths: str = "full"

    def __post_init__(self) -> None:
        require_sizes(self, "batch", "kv_length", "query_tokens", "heads", "latent", "rope")
        require_choice("dtype", self.dtype, DTYPES)
        require_choice("lengths", self.lengths, LENGTHS)
        if self.query_tokens > self.kv_length:
            raise ValueError(
                f"query_tokens is {self.query_tokens}, more than kv_length {self.kv_length}: the cache holds the "
                "query tokens too"
            )

    @property
    def id(self) -> str:
        """Short and stable: `b32_q1_s4096_bf16`, then whatever differs from the defaults."""
        parts = [f"b{self.batch}", f"q{self.query_tokens}", f"s{self.kv_length}", self.dtype]
        parts += differing(self, heads="h", latent="l", rope="r")
        parts += ["paged"] * self.paged + ["full"] * (not self.causal) + differing(self, lengths="")
        return "_".join(parts)

    @property
    def pages_per_request(self) -> int:
        """Width of the page table; even for fp8: NVIDIA's kernel reads entries in pairs."""
        pages = -(-self.kv_length // PAGE)
        return pages + pages % 2 if self.dtype == "fp8" else pages

    @property
    def softmax_scale(self) -> float:
        """1/sqrt(192), DeepSeek's un-absorbed head: 128 without and 64 with rotary position."""
        return 1.0 / math.sqrt(128 + self.rope)


@dataclass
class Inputs:
    q: torch.Tensor  # [batch, query_tokens, heads, latent + rope], the dtype
    kv_cache: torch.Tensor  # [pages, PAGE, latent + rope], the dtype; rows past a request's length hold anything
    page_table: torch.Tensor  # [batch, pages_per_request or more], int32; past a request's pages anything may stand
    kv_lengths: torch.Tensor  # [batch], int32, each from 0 to kv_length
    softmax_scale: float


@dataclass
class Outputs:
    out: torch.Tensor  # [batch, query_tokens, heads, latent], the dtype
    lse: torch.Tensor  # [batch, query_tokens, heads], float32, natural logarithm of the sum of exp(scores)


def request_lengths(workload: Workload) -> tuple[int, ...]:
    """Return the tokens of each request, unless a distribution draws its own lengths.

    "ragged": kv_length to the power of u, u uniform in [0, 1), rounded down, and no fewer than the query tokens, which
    are in the cache too. Drawn by Python's generator from batch and kv_length alone: a workload has one cost.
    """
    w = workload
    if w.lengths == "full":
        return (w.kv_length,) * w.batch
    draw = random.Random(f"{w.batch} requests of up to {w.kv_length} tokens")
    return tuple(max(w.query_tokens, int(w.kv_length ** draw.random())) for _ in range(w.batch))


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return workloads to check as well: shuffled pages, and a length no tile divides."""
    result = [] if workload.paged else [replace(workload, paged=True)]
    if workload.kv_length - 27 >= workload.query_tokens:
        result.append(replace(workload, kv_length=workload.kv_length - 27))
    return tuple(result)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`.

    Distributions: `randn`; `large` (scores near +-100: one key takes nearly all weight); `dominant` (one key per
    request far above the rest); `constant` (all keys of a request equal: the softmax is uniform); `ragged` (request
    lengths from query_tokens to kv_length, never all equal when batch > 1); `length_one` (every request as short as
    it may be). And what a serving engine hands over, with lengths drawn as in `ragged`:

    - `nan_padding`: NaN, +inf and -inf by turns in the cache past each request's length, in its last page and in whole
      pages after it (elsewhere these rows are finite garbage); the first request, too, is shorter than its pages;
    - `empty_requests`: the first of every four requests has length 0, and the second has one token, so that all but
      the last of several causal query tokens see no key;
    - `bad_table`: a page table with unused columns, whose entries past a request's pages are no page numbers.
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w = workload
    generator = torch.Generator(device).manual_seed(seed)
    lengths = _lengths(w, distribution, generator, device)
    page_table = _page_table(w, generator, device)
    q = torch.randn(w.batch, w.query_tokens, w.heads, w.latent + w.rope, generator=generator, device=device)
    cache = _cache(w, distribution, generator, lengths, page_table, q)
    if distribution == "bad_table":
        page_table = torch.nn.functional.pad(page_table, (0, UNUSED_COLUMNS))
        column = torch.arange(page_table.shape[1], device=device)
        page_table[column * PAGE >= lengths[:, None]] = BAD_ENTRY
    return Inputs(q.to(cache.dtype), cache, page_table, lengths, w.softmax_scale)


def _page_table(w: Workload, generator: torch.Generator, device: str) -> torch.Tensor:
    import torch

    pages = w.batch * w.pages_per_request
    order = torch.randperm(pages, generator=generator, device=device) if w.paged else torch.arange(pages, device=device)
    return order.view(w.batch, w.pages_per_request).to(torch.int32)


def _cache(
    w: Workload,
    distribution: str,
    generator: torch.Generator,
    lengths: torch.Tensor,
    page_table: torch.Tensor,
    q: torch.Tensor,
) -> torch.Tensor:
    """Return the cache, [pages, PAGE, latent + rope] in the dtype; `q` is in float32."""
    import torch

    width, device = w.latent + w.rope, lengths.device
    cache = torch.empty(page_table.numel(), PAGE, width, dtype=torch_dtype(w.dtype), device=device)
    position = torch.arange(w.pages_per_request * PAGE, device=device)
    # Garbage past the end: finite by default, so that reading it shows where multiplying it by 0 does not.
    values = [math.nan, math.inf, -math.inf] if distribution == "nan_padding" else [64.0]
    garbage = torch.tensor(values, device=device)[position % len(values), None]
    for request in range(w.batch):  # one request at a time: float32 drafts of the whole cache would not fit
        keys = torch.randn(len(position), width, generator=generator, device=device)
        if distribution == "large":
            keys *= 8.0
        elif distribution == "constant":
            keys[:] = keys[0]
        elif distribution == "dominant":
            keys *= 0.1
            keys[int(lengths[request]) // 2] = q[request, 0, 0] * 2.0
        past = position >= lengths[request]
        keys[past] = garbage[past].expand(-1, width)
        cache[page_table[request].long()] = keys.view(-1, PAGE, width).to(cache.dtype)
    return cache


def _lengths(w: Workload, distribution: str, generator: torch.Generator, device: str) -> torch.Tensor:
    import torch

    if distribution == "length_one":
        return torch.full((w.batch,), w.query_tokens, dtype=torch.int32, device=device)
    lengths = torch.tensor(request_lengths(w), dtype=torch.int32, device=device)
    drawn = ("ragged", "nan_padding", "empty_requests", "bad_table")
    if distribution in drawn and w.kv_length > w.query_tokens:
        # The first request keeps its length: the longest one belongs to what is checked.
        lengths[1:] = torch.randint(
            w.query_tokens, w.kv_length, (w.batch - 1,), generator=generator, device=device, dtype=torch.int32
        )
    if distribution in ("nan_padding", "bad_table"):
        lengths[0] = max(w.query_tokens, int(lengths[0]) - PAGE - 27)  # leaves a part of a page and a whole one
    if distribution == "empty_requests":
        lengths[0::4] = 0
        lengths[1::4] = 1
    return lengths


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    """Make outputs of NaN: an element that is never written cannot pass."""
    import torch

    w = workload
    shape = (w.batch, w.query_tokens, w.heads)
    out = torch.full((*shape, w.latent), float("nan"), device=device).to(torch_dtype(w.dtype))
    return Outputs(out, torch.full(shape, float("nan"), device=device))


def _attend(inputs: Inputs, latent: int, causal: bool, same_precision: bool) -> Outputs:
    """Attend in float32, or with operands, probabilities and output in the input dtype."""
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
        keyless = lse[request] == float("-inf")
        weights = torch.softmax(scores, dim=-1).masked_fill(keyless[..., None], 0.0)
        if same_precision:
            out[request] = (weights.to(dtype).to(operand) @ keys[:, :latent].to(operand)).float()
        else:
            out[request] = weights @ keys[:, :latent].float()
        lse[request].masked_fill_(keyless, float("inf"))
    return Outputs(out.to(dtype) if same_precision else out, lse)


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """Compute in float32 (TF32 off, PyTorch's default for matrix products)."""
    return _attend(inputs, workload.latent, workload.causal, same_precision=False)


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """Compute with PyTorch in the workload's dtype: the yardstick for the allowed error."""
    return _attend(inputs, workload.latent, workload.causal, same_precision=True)


def cost(workload: Workload) -> Cost:
    """Count FLOPs (2 Q H T (2 latent + rope)) and bytes of all tensors.

    T: tokens of all requests. Cache, queries, output and LSE count once. The masked corner of causal query tokens is
    counted as done: at most Q(Q-1)/2 keys a request.
    """
    w = workload
    size = DTYPES[w.dtype]
    tokens = sum(request_lengths(w))
    rows = w.batch * w.query_tokens * w.heads
    return Cost(
        flops=2 * w.query_tokens * w.heads * tokens * (2 * w.latent + w.rope),
        bytes_read=size * (tokens + rows) * (w.latent + w.rope),
        bytes_written=rows * (w.latent * size + 4),
    )


def tolerance(dtype: str) -> float:
    """Return the relative error norm accepted even where `same_precision` is nearer."""
    return {"bf16": 5.0e-3, "fp16": 7.0e-4, "fp8": 6.0e-2}[dtype]
