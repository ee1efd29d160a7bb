"""Operator `reduce`: the sum or the largest element of every row of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice, torch_dtype
from kernels.matrices import Matrix

if TYPE_CHECKING:
    import torch

DTYPES = {"fp32": 4, "fp16": 2, "bf16": 2}
DISTRIBUTIONS = ("randn", "ones", "negative", "peak", "wide", "infinite")
OPERATIONS = ("sum", "max")
AXIS, AXIS_LABEL = "columns", "columns"


@dataclass(frozen=True)
class Workload(Matrix):
    """A row-major matrix of `rows` x `columns` elements of `dtype`, each row reduced by `operation`."""

    TYPES = DTYPES
    operation: str = "sum"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("operation", self.operation, OPERATIONS)

    @property
    def id(self) -> str:
        return f"{self.operation}_{super().id}"


@dataclass
class Inputs:
    x: torch.Tensor  # [rows, columns]


@dataclass
class Outputs:
    y: torch.Tensor  # [rows, 1], the same dtype; sums are added in float32 and rounded once


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """One row more, so that the last block of rows is not full."""
    return (Workload(workload.rows + 1, workload.columns, workload.dtype, workload.operation),)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs from `seed`, equal on every machine, and move them to `device`.

    The CPU draws them. `ones`: a sum that is kept in 16 bits gets stuck. `negative`: a maximum that starts at 0 shows.
    `peak`: one element of each row, anywhere, is 1,000 times the others, so that one that is left out shows. `wide`:
    magnitudes from 2^-8 to 2^8. `infinite`: rows of -inf but for one element, and every seventh row of nothing else.
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    generator = torch.Generator().manual_seed(seed)
    shape = (workload.rows, workload.columns)
    if distribution == "ones":
        x = torch.ones(shape)
    else:
        x = torch.randn(shape, generator=generator)
    place = torch.randint(workload.columns, (workload.rows, 1), generator=generator)
    if distribution == "negative":
        x.abs_().add_(0.5).neg_()
    elif distribution == "peak":
        x.scatter_(1, place, 1.0e3)
    elif distribution == "wide":
        x.mul_(torch.exp2(torch.rand(shape, generator=generator).mul_(16).sub_(8)))
    elif distribution == "infinite":
        kept = x.gather(1, place)
        x.fill_(float("-inf")).scatter_(1, place, kept)
        x[::7] = float("-inf")
    return Inputs(x.to(torch_dtype(workload.dtype)).to(device))


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    return Outputs(poisoned((workload.rows, 1), workload.dtype, device))


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32, of sums that were added in float64."""
    if workload.operation == "max":
        return Outputs(inputs.x.amax(-1, keepdim=True).float())
    return Outputs(inputs.x.double().sum(-1, keepdim=True).float())


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's own computation in the workload's dtype: the yardstick for the allowed error."""
    if workload.operation == "max":
        return Outputs(inputs.x.amax(-1, keepdim=True))
    return Outputs(inputs.x.sum(-1, keepdim=True))


def cost(workload: Workload) -> Cost:
    """One addition or comparison per element."""
    size = DTYPES[workload.dtype]
    elements = workload.rows * workload.columns
    return Cost(flops=elements, bytes_read=elements * size, bytes_written=workload.rows * size)


def tolerance(dtype: str) -> float:
    """Largest relative error norm when `same_precision` happens to be nearer: one rounding to 16 bits.

    A float32 sum of n normal numbers is of the size of the root of n, and its partial sums too: with a few dozen
    roundings of 2^-24 on the way, each of a number of that size, an error beyond 4e-6 is none of rounding.
    """
    return {"fp32": 4.0e-6, "fp16": 5.0e-4, "bf16": 4.0e-3}[dtype]
