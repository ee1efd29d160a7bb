"""Operator `dependent_launch`: two dependent additions in two kernels.

They are w = u + v, then y = w + x. Little of the work of the second depends on the first: it can be launched early,
read x while the first one ends, and wait only before it reads w (programmatic dependent launch, CUDA C++ programming
guide, 6.2.8.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice, torch_dtype
from kernels.matrices import Matrix

if TYPE_CHECKING:
    import torch

DTYPES = {"fp32": 4, "fp16": 2, "bf16": 2}
DISTRIBUTIONS = ("randn", "large", "cancelling")
AXIS, AXIS_LABEL = "rows", "rows"


@dataclass(frozen=True)
class Workload(Matrix):
    """Row-major matrices of `rows` x `columns` elements of `dtype`."""

    TYPES = DTYPES


@dataclass
class Inputs:
    u: torch.Tensor  # [rows, columns]
    v: torch.Tensor  # [rows, columns]
    x: torch.Tensor  # [rows, columns]


@dataclass
class Outputs:
    y: torch.Tensor  # [rows, columns]
    w: torch.Tensor  # [rows, columns], which the first kernel writes and the second reads


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return a workload of another size, which is no multiple of any tile."""
    return (Workload(workload.rows + 1, workload.columns, workload.dtype),)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs from `seed`, equal on every machine, and move them to `device`.

    The CPU draws them. Normal numbers, times 1,000 if `large`. `cancelling`: x is -v, so that y is u, but for
    roundings.
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    generator = torch.Generator().manual_seed(seed)
    scale = 1.0e3 if distribution == "large" else 1.0
    shape, dtype = (workload.rows, workload.columns), torch_dtype(workload.dtype)
    u, v, x = (torch.randn(shape, generator=generator).mul_(scale).to(dtype) for _ in "uvx")
    return Inputs(u.to(device), v.to(device), (-v if distribution == "cancelling" else x).to(device))


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    """Fill w too: an element read before it is written cannot pass."""
    return Outputs(*(poisoned((workload.rows, workload.columns), workload.dtype, device) for _ in "yw"))


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 sums of the inputs as given; w is not rounded before x is added."""
    w = inputs.u.float() + inputs.v.float()
    return Outputs(w + inputs.x.float(), w)


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's own computation in the workload's dtype: the yardstick for the allowed error."""
    w = inputs.u + inputs.v
    return Outputs(w + inputs.x, w)


def cost(workload: Workload) -> Cost:
    """Two additions per element; u, v, w and x are read, w and y written."""
    elements = workload.rows * workload.columns
    size = DTYPES[workload.dtype]
    return Cost(flops=2 * elements, bytes_read=4 * elements * size, bytes_written=2 * elements * size)


def tolerance(dtype: str) -> float:
    """Largest relative error norm when `same_precision` is exact: one rounding to `dtype`."""
    return {"fp32": 1.0e-7, "fp16": 5.0e-4, "bf16": 4.0e-3}[dtype]
