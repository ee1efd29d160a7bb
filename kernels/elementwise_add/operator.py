"""Operator `elementwise_add`: C = A + B over an M x N matrix. Small enough to follow through every stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutesnake.contract import Cost

if TYPE_CHECKING:
    import torch

DTYPES = {"fp32": 4, "fp16": 2, "bf16": 2}
DISTRIBUTIONS = ("randn", "large")
PLANNED = ()  # no binding looks at values
AXIS, AXIS_LABEL = "rows", "rows"


@dataclass(frozen=True)
class Workload:
    """Row-major matrices of `rows` x `columns` elements of `dtype`."""

    rows: int
    columns: int
    dtype: str = "fp32"

    def __post_init__(self) -> None:
        for key in ("rows", "columns"):
            value = getattr(self, key)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{key} is {value!r}; it must be a whole number from 1 up")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}; allowed: {', '.join(DTYPES)}")

    @property
    def id(self) -> str:
        return f"m{self.rows}_n{self.columns}_{self.dtype}"


@dataclass
class Inputs:
    a: torch.Tensor  # [rows, columns]
    b: torch.Tensor  # [rows, columns]


@dataclass
class Outputs:
    c: torch.Tensor  # [rows, columns]


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """A size beside a workload that is no multiple of any tile."""
    return (Workload(workload.rows + 1, workload.columns, workload.dtype),)


def torch_dtype(name: str) -> torch.dtype:
    import torch

    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[name]


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw on the CPU, so that a seed means the same numbers on every machine, then move to `device`."""
    import torch

    if distribution not in DISTRIBUTIONS:
        raise ValueError(f"distribution is {distribution!r}; allowed: {', '.join(DISTRIBUTIONS)}")
    generator = torch.Generator().manual_seed(seed)
    scale = 1.0e3 if distribution == "large" else 1.0
    shape = (workload.rows, workload.columns)
    a, b = (torch.randn(shape, generator=generator).mul_(scale).to(torch_dtype(workload.dtype)) for _ in "ab")
    return Inputs(a.to(device), b.to(device))


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    """Outputs poisoned with NaN: an element that is never written cannot pass."""
    import torch

    shape = (workload.rows, workload.columns)
    return Outputs(torch.full(shape, float("nan"), dtype=torch_dtype(workload.dtype), device=device))


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 sum of the inputs as given."""
    return Outputs(inputs.a.float() + inputs.b.float())


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's own computation in the workload's dtype: the yardstick for the allowed error."""
    return Outputs(inputs.a + inputs.b)


def cost(workload: Workload) -> Cost:
    elements = workload.rows * workload.columns
    size = DTYPES[workload.dtype]
    return Cost(flops=elements, bytes_read=2 * elements * size, bytes_written=elements * size)


def tolerance(dtype: str) -> float:
    """Largest relative error norm when `same_precision` is exact: one rounding to `dtype`."""
    return {"fp32": 1.0e-7, "fp16": 5.0e-4, "bf16": 4.0e-3}[dtype]
