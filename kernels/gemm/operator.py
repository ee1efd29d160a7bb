"""Operator `gemm`: C = A B^T, batched, with float32 sums.

A linear layer computes it: B is its weight matrix. Both operands may have either of their dimensions contiguous (their
`major`): K, as activations and weights usually lie, or M and N.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice, require_sizes, torch_dtype

if TYPE_CHECKING:
    import torch

DTYPES = {"bf16": 2, "fp16": 2, "fp8": 1}  # of A and B; fp8 is E4M3
OUTPUT = {"bf16": "bf16", "fp16": "fp16", "fp8": "bf16"}  # element type of C
DISTRIBUTIONS = ("randn", "large", "dominant", "cancelling", "constant")
AXIS, AXIS_LABEL = "m", "rows of A and C (M)"

# Factors of `large`, with which products of normal numbers still fit into C for every K up to 16,384.
LARGE = {"bf16": 1.0e3, "fp16": 8.0, "fp8": 32.0}
DOMINANT = {"bf16": 1.0e3, "fp16": 100.0, "fp8": 100.0}


@dataclass(frozen=True)
class Workload:
    """`batch` products of `m` x `k` by transposed `n` x `k` matrices of `dtype`."""

    m: int
    n: int
    k: int
    batch: int = 1
    a_major: str = "k"  # the contiguous dimension of A: k or m
    b_major: str = "k"  # the contiguous dimension of B: k or n
    dtype: str = "bf16"

    def __post_init__(self) -> None:
        require_sizes(self, "m", "n", "k", "batch")
        require_choice("a_major", self.a_major, ("k", "m"))
        require_choice("b_major", self.b_major, ("k", "n"))
        require_choice("dtype", self.dtype, DTYPES)

    @property
    def id(self) -> str:
        batch = f"_l{self.batch}" if self.batch > 1 else ""
        major = ("_am" if self.a_major == "m" else "") + ("_bn" if self.b_major == "n" else "")
        return f"m{self.m}_n{self.n}_k{self.k}{batch}{major}_{self.dtype}"


@dataclass
class Inputs:
    a: torch.Tensor  # [batch, m, k], or [batch, k, m] where M is contiguous
    b: torch.Tensor  # [batch, n, k], or [batch, k, n] where N is contiguous


@dataclass
class Outputs:
    c: torch.Tensor  # [batch, m, n]


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return another size, no multiple of any tile; contiguous extents keep 16 bytes."""
    return (replace(workload, m=workload.m + 16, n=workload.n + 16, k=workload.k + 16),)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`.

    Distributions: `randn`; `large` (a wrong element type of the sums overflows); `dominant` (in each row one element
    far above the rest, which wide sums must not lose sight of); `cancelling` (the second half of K nearly undoes the
    first, so that sums lose digits); `constant` (all ones: every element of C is K, exactly).
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w = workload
    generator = torch.Generator(device).manual_seed(seed)
    a = torch.randn(w.batch, w.m, w.k, generator=generator, device=device)
    b = torch.randn(w.batch, w.n, w.k, generator=generator, device=device)
    if distribution == "large":
        a.mul_(LARGE[w.dtype])
        b.mul_(LARGE[w.dtype] ** 0.5)
    elif distribution == "dominant":
        where = torch.randint(w.k, (w.batch, w.m, 1), generator=generator, device=device)
        a.scatter_(2, where, DOMINANT[w.dtype])
    elif distribution == "cancelling":
        half = w.k // 2
        a[:, :, half : 2 * half] = a[:, :, :half]
        b[:, :, half : 2 * half].mul_(0.25).sub_(b[:, :, :half])
    elif distribution == "constant":
        a.fill_(1.0)
        b.fill_(1.0)
    dtype = torch_dtype(w.dtype)
    a, b = (x.mT if major != "k" else x for x, major in ((a, w.a_major), (b, w.b_major)))
    return Inputs(a.to(dtype).contiguous(), b.to(dtype).contiguous())


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    return Outputs(poisoned((workload.batch, workload.m, workload.n), OUTPUT[workload.dtype], device))


def factors(inputs: Inputs, workload: Workload) -> tuple[torch.Tensor, torch.Tensor]:
    """View the inputs as A [batch, m, k] and B^T [batch, k, n]."""
    a = inputs.a if workload.a_major == "k" else inputs.a.mT
    b = inputs.b.mT if workload.b_major == "k" else inputs.b
    return a, b


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 product of the inputs as given."""
    import torch

    a, b = factors(inputs, workload)
    return Outputs(torch.bmm(a.float(), b.float()))


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """Return PyTorch's product in the workload's dtype.

    PyTorch multiplies fp8 on some GPUs only: for fp8 it is the float32 product rounded to the output's type.
    """
    import torch

    a, b = factors(inputs, workload)
    if workload.dtype == "fp8":
        return Outputs(torch.bmm(a.float(), b.float()).to(torch_dtype(OUTPUT["fp8"])))
    return Outputs(torch.bmm(a, b))


def cost(workload: Workload) -> Cost:
    w = workload
    read = w.batch * (w.m + w.n) * w.k * DTYPES[w.dtype]
    return Cost(2 * w.batch * w.m * w.n * w.k, read, w.batch * w.m * w.n * DTYPES[OUTPUT[w.dtype]])


def tolerance(dtype: str) -> float:
    """Largest relative error norm when `same_precision` is exact: one rounding of C.

    In fp8, Hopper's tensor cores add products with 13 fraction bits and cut off the rest, and a kernel that leaves
    its sums there (NVIDIA's does) is up to some 2^-7 off.
    """
    return {"fp16": 5.0e-4, "bf16": 4.0e-3, "fp8": 1.0e-2}[dtype]
