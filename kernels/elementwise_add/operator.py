"""Operator `elementwise_add`: C = A + B, small enough to follow through every stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice, torch_dtype
from kernels.matrices import Matrix

if TYPE_CHECKING:
    import torch

DTYPES = {"fp32": 4, "fp16": 2, "bf16": 2, "int32": 4}
DISTRIBUTIONS = ("randn", "large")
AXIS, AXIS_LABEL = "rows", "rows"


@dataclass(frozen=True)
class Workload(Matrix):
    """Row-major matrices of `rows` x `columns` elements of `dtype`."""

    TYPES = DTYPES


@dataclass
class Inputs:
    a: torch.Tensor  # [rows, columns]
    b: torch.Tensor  # [rows, columns]


@dataclass
class Outputs:
    c: torch.Tensor  # [rows, columns]


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return a workload of another size, which is no multiple of any tile."""
    return (Workload(workload.rows + 1, workload.columns, workload.dtype),)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs from `seed`, equal on every machine, and move them to `device`.

    The CPU draws them. Floating-point numbers are normal, times 1,000 if `large`. Integers are uniform up to 1,000 in
    magnitude, whose sums float32 holds exactly, so that an error of 1 shows; `large` ones up to 2^30, whose sums just
    fit.
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    generator = torch.Generator().manual_seed(seed)
    shape, dtype = (workload.rows, workload.columns), torch_dtype(workload.dtype)
    large = distribution == "large"
    if dtype.is_floating_point:
        a, b = (torch.randn(shape, generator=generator).mul_(1.0e3 if large else 1.0).to(dtype) for _ in "ab")
    else:
        limit = 2**30 if large else 1000
        a, b = (torch.randint(-limit, limit, shape, generator=generator, dtype=dtype) for _ in "ab")
    return Inputs(a.to(device), b.to(device))


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    return Outputs(poisoned((workload.rows, workload.columns), workload.dtype, device))


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 sum of the inputs as given; of integers the exact sum, rounded once."""
    if not inputs.a.is_floating_point():
        return Outputs((inputs.a.long() + inputs.b.long()).float())
    return Outputs(inputs.a.float() + inputs.b.float())


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's own computation in the workload's dtype: the yardstick for the allowed error."""
    return Outputs(inputs.a + inputs.b)


def cost(workload: Workload) -> Cost:
    elements = workload.rows * workload.columns
    size = DTYPES[workload.dtype]
    return Cost(flops=elements, bytes_read=2 * elements * size, bytes_written=elements * size)


def tolerance(dtype: str) -> float:
    """Largest relative error norm when `same_precision` is exact: one rounding, 0 for integers."""
    return {"fp32": 1.0e-7, "fp16": 5.0e-4, "bf16": 4.0e-3, "int32": 0.0}[dtype]
