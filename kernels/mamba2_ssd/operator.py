"""Operator `mamba2_ssd`: the state space duality of Mamba-2 (arXiv:2405.21060), the forward pass over whole sequences.

Per head, with a state H of head_dim x state elements that starts at zero, and per token an input x, a step dt, an
input vector B and an output vector C (section 2 of the paper, discretised as its code does):

    H_t = exp(dt_t a) H_(t-1) + dt_t x_t B_t^T        y_t = H_t C_t + d x_t

a < 0 and d are one number per head. Heads share B and C in groups: head h reads group h // (heads / groups). The
chunked form of section 6, which every fast kernel computes, is matrix products within chunks and a recurrence between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import differing, poisoned, require_choice, require_multiple, require_sizes, torch_dtype

if TYPE_CHECKING:
    import torch

DTYPES = {"bf16": 2, "fp16": 2}
DISTRIBUTIONS = ("randn", "long_memory", "short_memory", "impulse")
AXIS, AXIS_LABEL = "length", "sequence length (tokens)"
CHUNK = 128  # tokens: of the yardstick


@dataclass(frozen=True)
class Workload:
    """A batch of sequences of `length` tokens, by default with the sizes of Mamba-2 2.7B."""

    batch: int
    length: int
    dtype: str = "bf16"
    heads: int = 80
    groups: int = 1
    head_dim: int = 64
    state: int = 128

    def __post_init__(self) -> None:
        require_sizes(self, "batch", "length", "heads", "groups", "head_dim", "state")
        require_choice("dtype", self.dtype, DTYPES)
        require_multiple(self, "heads", of="groups")

    @property
    def id(self) -> str:
        """Short and stable: `b4_s4096_bf16`, then whatever differs from the defaults."""
        others = differing(self, heads="h", groups="g", head_dim="d", state="n")
        return "_".join([f"b{self.batch}", f"s{self.length}", self.dtype, *others])

    @property
    def share(self) -> int:
        """Heads that share a B and a C."""
        return self.heads // self.groups


@dataclass
class Inputs:
    x: torch.Tensor  # [batch, length, heads, head_dim], the dtype
    dt: torch.Tensor  # [batch, length, heads], the dtype: step sizes, above 0
    a: torch.Tensor  # [heads], float32: below 0
    b: torch.Tensor  # [batch, length, groups, state], the dtype
    c: torch.Tensor  # [batch, length, groups, state], the dtype
    d: torch.Tensor  # [heads], the dtype


@dataclass
class Outputs:
    y: torch.Tensor  # [batch, length, heads, head_dim], the dtype
    final_state: torch.Tensor  # [batch, heads, head_dim, state], the dtype: H after the last token


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return a sequence of one chunk, which carries no state from chunk to chunk."""
    return (replace(workload, length=CHUNK),) if workload.length > CHUNK else ()


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`.

    Distributions: `randn` (as NVIDIA's example draws them: a token's part in the state lasts some 50 tokens);
    `long_memory` (the state forgets a thousandth in 100 tokens: it sums up the whole sequence, across all chunks);
    `short_memory` (the state forgets all but e^-20 at each token: products of decays leave the range of float32 where
    a kernel multiplies exp(s_i) by exp(-s_j)); `impulse` (only the first token has an input: all that comes later is
    the state's).
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w, dtype = workload, torch_dtype(workload.dtype)
    generator = torch.Generator(device).manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return 0.5 * torch.randn(*shape, generator=generator, device=device)

    x = draw(w.batch, w.length, w.heads, w.head_dim)
    dt = torch.nn.functional.softplus(draw(w.batch, w.length, w.heads) - 4)
    a = -torch.exp(draw(w.heads))
    b, c = (draw(w.batch, w.length, w.groups, w.state) for _ in "bc")
    d = draw(w.heads)
    if distribution == "long_memory":
        a = -1e-5 / dt.mean((0, 1))
    elif distribution == "short_memory":
        dt, a = 4 + dt, a - 5
    elif distribution == "impulse":
        x[:, 1:] = 0
    return Inputs(x.to(dtype), dt.to(dtype), a.float(), b.to(dtype), c.to(dtype), d.to(dtype))


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    w = workload
    shapes = (w.batch, w.length, w.heads, w.head_dim), (w.batch, w.heads, w.head_dim, w.state)
    return Outputs(*(poisoned(shape, w.dtype, device) for shape in shapes))


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """Compute the recurrence token by token, in float32."""
    import torch

    w, i = workload, inputs
    x, dt = i.x.float(), i.dt.float()
    b, c = (each.float().repeat_interleave(w.share, 2) for each in (i.b, i.c))
    state = torch.zeros(w.batch, w.heads, w.head_dim, w.state, device=x.device)
    y = torch.empty_like(x)
    decay, step = torch.exp(dt * i.a), dt[..., None] * x
    for t in range(w.length):
        state.mul_(decay[:, t, :, None, None]).addcmul_(step[:, t, ..., None], b[:, t, :, None, :])
        torch.matmul(state, c[:, t, ..., None], out=y[:, t, ..., None])
    return Outputs(y + i.d.float()[:, None] * x, state)


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """Compute the chunked form with operands in the workload's dtype: the yardstick of errors."""
    return chunked(inputs, workload, CHUNK)


def chunked(inputs: Inputs, workload: Workload, chunk: int) -> Outputs:
    """Compute section 6 of the paper in PyTorch, `chunk` tokens at a time.

    Sums of decays and states are in float32.

    Per chunk, with s the running sum of dt a and H the state before it:

        y = (C B^T * exp(s_i - s_j) for j <= i) (dt x) + exp(s) C H^T
        H' = exp(s_last) H + (dt exp(s_last - s) x)^T B
    """
    import torch

    w, i, dtype = workload, inputs, inputs.x.dtype
    y = torch.empty_like(i.x)
    state = torch.zeros(w.batch, w.heads, w.head_dim, w.state, device=i.x.device)
    for begin in range(0, w.length, chunk):
        span = slice(begin, begin + chunk)
        x, dt = i.x[:, span].transpose(1, 2), i.dt[:, span].float().transpose(1, 2)  # heads before tokens
        b, c = (each[:, span].transpose(1, 2).repeat_interleave(w.share, 1) for each in (i.b, i.c))
        s = torch.cumsum(dt * i.a[:, None], -1)
        decay = torch.exp((s[..., :, None] - s[..., None, :]).tril()).tril()
        weights = (c @ b.transpose(2, 3)).float() * decay * dt[..., None, :]
        out = (weights.to(dtype) @ x).float() + torch.exp(s)[..., None] * (c @ state.to(dtype).transpose(2, 3)).float()
        y[:, span] = (out + i.d.float()[:, None, None] * x.float()).to(dtype).transpose(1, 2)
        scaled = (b.float() * (dt * torch.exp(s[..., -1:] - s))[..., None]).to(dtype)
        state = torch.exp(s[..., -1])[..., None, None] * state + (x.transpose(2, 3) @ scaled).float()
    return Outputs(y, state.to(dtype))


def cost(workload: Workload) -> Cost:
    """FLOPs of the recurrence's products, 4 head_dim state per token and head; every tensor once.

    The chunked form does 2 c (state + head_dim) more per token and head, in chunks of c tokens: work that the
    recurrence does not need, though no fast kernel is without it.
    """
    w = workload
    tokens, size = w.batch * w.length, DTYPES[w.dtype]
    x = tokens * w.heads * w.head_dim
    read = size * (x + tokens * w.heads + 2 * tokens * w.groups * w.state + w.heads) + 4 * w.heads
    return Cost(
        flops=4 * x * w.state, bytes_read=read, bytes_written=size * (x + w.batch * w.heads * w.head_dim * w.state)
    )


def tolerance(dtype: str) -> float:
    """Largest relative error norm accepted when `same_precision` happens to be nearer than a rounding allows."""
    return {"bf16": 1.0e-2, "fp16": 1.5e-3}[dtype]
