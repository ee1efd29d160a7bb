"""Operator `gemm_epilogue`: D = activation(alpha A B^T + beta C).

Sum and activation are in float32. A linear layer with a residual or bias matrix and its activation, in one kernel
instead of three.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import require_choice
from kernels.gemm import operator as gemm
from kernels.matrices import Product

if TYPE_CHECKING:
    import torch

DTYPES = {"bf16": 2, "fp16": 2}
DISTRIBUTIONS = gemm.DISTRIBUTIONS
AXIS, AXIS_LABEL = "m", "rows of A and D (M)"
ACTIVATIONS = ("identity", "relu", "silu")
ALPHA, BETA = 0.5, 2.0  # numbers that no kernel may mistake for 1


@dataclass(frozen=True)
class Workload(Product):
    """The product of an `m` x `k` by a transposed `n` x `k` matrix, row-major."""

    TYPES = DTYPES
    dtype: str = "bf16"
    activation: str = "silu"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("activation", self.activation, ACTIVATIONS)

    @property
    def id(self) -> str:
        return f"m{self.m}_n{self.n}_k{self.k}_{self.activation}_{self.dtype}"

    @property
    def plain(self) -> gemm.Workload:
        """Return the product as a workload of `gemm`."""
        return gemm.Workload(self.m, self.n, self.k, dtype=self.dtype)


@dataclass
class Inputs:
    a: torch.Tensor  # [m, k]
    b: torch.Tensor  # [n, k]
    c: torch.Tensor  # [m, n]
    alpha: float
    beta: float


@dataclass
class Outputs:
    d: torch.Tensor  # [m, n]


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return another size, no multiple of any tile; rows keep 16 bytes."""
    return (replace(workload, m=workload.m + 1, n=workload.n + 16, k=workload.k + 16),)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device`, A and B as `gemm`; C is like their product."""
    import torch

    w = workload
    drawn = gemm.make_inputs(w.plain, seed, device, distribution)
    generator = torch.Generator(device).manual_seed(seed + 1)
    c = torch.randn(w.m, w.n, generator=generator, device=device) * w.k**0.5
    return Inputs(drawn.a[0], drawn.b[0], c.to(drawn.a.dtype), ALPHA, BETA)


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    return Outputs(gemm.make_outputs(workload.plain, device).c[0])


def activate(x: torch.Tensor, activation: str, inplace: bool = False) -> torch.Tensor:
    """Apply the activation to a tensor in its own precision, optionally in place."""
    from torch.nn.functional import relu, silu

    return x if activation == "identity" else {"relu": relu, "silu": silu}[activation](x, inplace=inplace)


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 throughout."""
    sums = inputs.alpha * (inputs.a.float() @ inputs.b.float().T) + inputs.beta * inputs.c.float()
    return Outputs(activate(sums, workload.activation))


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's own: the sum rounded to the workload's dtype, then the activation of that."""
    import torch

    sums = torch.addmm(inputs.c, inputs.a, inputs.b.T, beta=inputs.beta, alpha=inputs.alpha)
    return Outputs(activate(sums, workload.activation))


def cost(workload: Workload) -> Cost:
    """Count the product, and C read once; the epilogue's operations do not count."""
    plain = gemm.cost(workload.plain)
    return Cost(plain.flops, plain.bytes_read + plain.bytes_written, plain.bytes_written)


tolerance = gemm.tolerance
