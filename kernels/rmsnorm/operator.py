"""Operator `rmsnorm`: y = x / sqrt(mean(x^2) + eps) * weight by row.

Rows belong to a matrix. Root mean square layer normalization, Zhang and Sennrich 2019 (arXiv:1910.07467),
equation 4, with the eps that all implementations add under the root.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice, torch_dtype
from kernels.matrices import Matrix

if TYPE_CHECKING:
    import torch

DTYPES = {"bf16": 2, "fp16": 2, "fp32": 4}
DISTRIBUTIONS = ("randn", "large", "tiny", "outlier", "zeros")
AXIS, AXIS_LABEL = "rows", "rows"
EPS = 1.0e-6  # what Llama and NVIDIA's example use


@dataclass(frozen=True)
class Workload(Matrix):
    """A row-major matrix of `rows` x `columns` elements of `dtype`; each row is normalized."""

    TYPES = DTYPES
    dtype: str = "bf16"


@dataclass
class Inputs:
    x: torch.Tensor  # [rows, columns]
    weight: torch.Tensor  # [columns], same dtype
    eps: float


@dataclass
class Outputs:
    y: torch.Tensor  # [rows, columns]


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """One row more, so that the last block of rows is not full."""
    return (Workload(workload.rows + 1, workload.columns, workload.dtype),)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs from `seed`, equal on every machine, and move them to `device`.

    The CPU draws them. The mean square is about 1 (`randn`), 10^6 (`large`), 10^-6, the size of eps (`tiny`), all in
    one element of each row (`outlier`), or 0, so that eps alone keeps the root from 0 (`zeros`). The weight is 1 +
    randn / 4.
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    generator = torch.Generator().manual_seed(seed)
    dtype = torch_dtype(workload.dtype)
    weight = torch.randn(workload.columns, generator=generator).div_(4).add_(1)
    if distribution == "zeros":
        x = torch.zeros(workload.rows, workload.columns, dtype=dtype)
    else:
        scale = {"large": 1.0e3, "tiny": 1.0e-3}.get(distribution, 1.0)
        x = torch.randn(workload.rows, workload.columns, generator=generator).mul_(scale).to(dtype)
    if distribution == "outlier":
        place = torch.randint(workload.columns, (workload.rows, 1), generator=generator)
        x.scatter_(1, place, 1.0e4)
    return Inputs(x.to(device), weight.to(dtype).to(device), EPS)


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    return Outputs(poisoned((workload.rows, workload.columns), workload.dtype, device))


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 throughout, from the inputs as given."""
    x = inputs.x.float()
    root = (x.square().mean(-1, keepdim=True) + inputs.eps).rsqrt_()
    return Outputs(x * root * inputs.weight.float())


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's own computation in the workload's dtype: the yardstick for the allowed error."""
    from torch.nn.functional import rms_norm

    return Outputs(rms_norm(inputs.x, (workload.columns,), inputs.weight, inputs.eps))


def cost(workload: Workload) -> Cost:
    """Count a square, its addition and two products per element, no roots."""
    elements = workload.rows * workload.columns
    size = DTYPES[workload.dtype]
    return Cost(flops=4 * elements, bytes_read=(elements + workload.columns) * size, bytes_written=elements * size)


def tolerance(dtype: str) -> float:
    """Largest relative error norm when `same_precision` happens to be nearer than one rounding to `dtype`."""
    return {"fp32": 1.0e-6, "fp16": 5.0e-4, "bf16": 4.0e-3}[dtype]
