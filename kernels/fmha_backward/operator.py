"""Operator `fmha_backward`: gradients of `fmha` (FlashAttention, arXiv:2205.14135, appendix B.4; -2, arXiv:2307.08691).

With P = softmax(scale * Q K^T), recomputed from the log-sum-exp of each row of scores that the forward pass kept:

    dV = P^T dO        dS = P * (dO V^T - rowsum(dO * O))        dQ = scale * dS K        dK = scale * dS^T Q

Where query heads share a key head, dK and dV are sums over the group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutesnake.contract import Cost
from cutesnake.workload import require_choice, require_sizes, torch_dtype
from kernels.fmha import operator as fmha

if TYPE_CHECKING:
    import torch

DTYPES = {"bf16": 2, "fp16": 2}
DISTRIBUTIONS = ("randn", "rising")  # with keys all alike dQ is 0, and errors relative to it mean nothing
PLANNED = ()  # no binding looks at values
AXIS, AXIS_LABEL = fmha.AXIS, fmha.AXIS_LABEL


@dataclass(frozen=True)
class Workload(fmha.Workload):
    """The sizes of `fmha`; operands and gradients have `dtype`.

    With a `window`, which takes `causal`, a token sees itself and the `window` tokens before it; 0 is for all of them.
    """

    window: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("dtype", self.dtype, DTYPES)
        if self.window:
            require_sizes(self, "window")
            if not self.causal:
                raise ValueError("window is for causal attention: causal must be true with it")

    @property
    def id(self) -> str:
        return super().id + f"_w{self.window}" * bool(self.window)


@dataclass
class Inputs:
    q: torch.Tensor  # [batch, length, heads, head_dim], the dtype
    k: torch.Tensor  # [batch, length, kv_heads, head_dim], the dtype
    v: torch.Tensor  # [batch, length, kv_heads, head_dim], the dtype
    out: torch.Tensor  # [batch, length, heads, head_dim], the dtype: what the forward pass returned
    lse: torch.Tensor  # [batch, heads, length], float32: natural logarithm of the sum of exp(scores)
    dout: torch.Tensor  # [batch, length, heads, head_dim], the dtype
    softmax_scale: float


@dataclass
class Outputs:
    dq: torch.Tensor  # [batch, length, heads, head_dim], the dtype
    dk: torch.Tensor  # [batch, length, kv_heads, head_dim], the dtype
    dv: torch.Tensor  # [batch, length, kv_heads, head_dim], the dtype


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """A length beside a workload's that is no multiple of any tile."""
    w = workload
    if w.length <= 27:
        return ()
    return (replace(w, length=w.length - 27),)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Inputs drawn on `device` from `seed`: those of `fmha` of the same name, its output, and normal `dout`."""
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w = workload
    given = fmha.make_inputs(w, seed, device, distribution)
    out = torch.empty_like(given.q)
    lse = torch.empty(w.batch, w.heads, w.length, device=device)
    for q, k, v, (request, heads) in fmha.key_heads(given, w):
        scores = _scores(q.float(), k.float(), w)
        lse[request, heads] = torch.logsumexp(scores, -1)
        out[request, :, heads] = (torch.softmax(scores, -1) @ v.float()).to(out.dtype).transpose(0, 1)
    generator = torch.Generator(device).manual_seed(seed + 1)
    dout = torch.randn(given.q.shape, generator=generator, device=device).to(out.dtype)
    return Inputs(given.q, given.k, given.v, out, lse, dout, given.softmax_scale)


def _scores(q: torch.Tensor, k: torch.Tensor, w: Workload) -> torch.Tensor:
    """scale * q @ k^T in float32, -inf where a token comes after the query; [group, length, length]."""
    import torch

    scores = (q @ k.T).float() * w.softmax_scale
    if not w.causal:
        return scores
    position = torch.arange(w.length, device=q.device)
    ahead = position[None, :] - position[:, None]  # tokens by which a key comes after a query
    hidden = (ahead > 0) | (ahead < -w.window) if w.window else ahead > 0
    return scores.masked_fill(hidden, float("-inf"))


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    """Outputs poisoned with NaN: an element that is never written cannot pass."""
    import torch

    w, dtype = workload, torch_dtype(workload.dtype)

    def poisoned(heads: int) -> torch.Tensor:
        return torch.full((w.batch, w.length, heads, w.head_dim), float("nan"), dtype=dtype, device=device)

    return Outputs(poisoned(w.heads), poisoned(w.kv_heads), poisoned(w.kv_heads))


def _gradients(inputs: Inputs, workload: Workload, same_precision: bool) -> Outputs:
    """In float32, or with operands, row sums, P, dS and gradients rounded to the workload's dtype."""
    import torch

    w, dtype = workload, inputs.q.dtype
    kind = dtype if same_precision else torch.float32
    dq, dk, dv = (torch.empty(x.shape, dtype=kind, device=x.device) for x in (inputs.q, inputs.k, inputs.v))
    for q, k, v, (request, heads) in fmha.key_heads(inputs, w):
        q, k, v = q.to(kind), k.to(kind), v.to(kind)
        dout, out = (x[request, :, heads].transpose(0, 1) for x in (inputs.dout, inputs.out))
        p = torch.exp(_scores(q, k, w) - inputs.lse[request, heads, :, None])
        dout = dout.to(kind)
        delta = (dout * out.to(kind)).sum(-1, keepdim=True).float()
        ds = (p * ((dout @ v.T).float() - delta)).to(kind)
        head = heads.start // w.group
        dv[request, :, head] = torch.einsum("gqk,gqd->kd", p.to(kind), dout)
        dk[request, :, head] = torch.einsum("gqk,gqd->kd", ds, q) * w.softmax_scale
        dq[request, :, heads] = (ds @ k * w.softmax_scale).transpose(0, 1)
    return Outputs(dq, dk, dv)


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 throughout (TF32 off, PyTorch's default for matrix products)."""
    return _gradients(inputs, workload, same_precision=False)


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """The same formulas in the workload's dtype: the yardstick for the allowed error."""
    return _gradients(inputs, workload, same_precision=True)


def cost(workload: Workload) -> Cost:
    """FLOPs 10 D per query head and visible pair of tokens (five products); bytes: inputs and gradients once."""
    w = workload
    pairs = w.length * (w.length + 1) // 2 if w.causal else w.length**2
    if w.window and w.window < w.length:
        unseen = w.length - w.window - 1  # tokens before the window of the last query
        pairs -= unseen * (unseen + 1) // 2
    tokens = w.batch * w.length
    size = DTYPES[w.dtype] * w.head_dim
    return Cost(
        flops=10 * w.head_dim * w.batch * w.heads * pairs,
        bytes_read=tokens * (size * (3 * w.heads + 2 * w.kv_heads) + 4 * w.heads),
        bytes_written=tokens * size * (w.heads + 2 * w.kv_heads),
    )


def tolerance(dtype: str) -> float:
    """Largest relative error norm accepted when `same_precision` happens to be nearer than a rounding allows."""
    return {"bf16": 1.0e-2, "fp16": 1.5e-3}[dtype]
