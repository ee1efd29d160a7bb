"""Operator `async_copies`: y = x by copies that no other kernel uses, whatever their speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice
from kernels.matrices import Matrix

if TYPE_CHECKING:
    import torch

DTYPES = {"fp32": 4}
DISTRIBUTIONS = ("randn", "numbered")
AXIS, AXIS_LABEL = "rows", "rows"


@dataclass(frozen=True)
class Workload(Matrix):
    """A matrix of `rows` x `columns`."""

    TYPES = DTYPES


@dataclass
class Inputs:
    x: torch.Tensor  # [rows, columns], float32


@dataclass
class Outputs:
    y: torch.Tensor  # [rows, columns], float32


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """None: the kernels take whole tiles."""
    return ()


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`; `numbered`: an element's value is its position."""
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w = workload
    if distribution == "numbered":
        return Inputs(torch.arange(w.rows * w.columns, device=device).float().view(w.rows, w.columns) + seed)
    generator = torch.Generator(device).manual_seed(seed)
    return Inputs(torch.randn(w.rows, w.columns, generator=generator, device=device))


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    return Outputs(poisoned((workload.rows, workload.columns), workload.dtype, device))


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    return Outputs(inputs.x.clone())


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    return reference(inputs, workload)


def cost(workload: Workload) -> Cost:
    """No FLOPs; every byte once each way."""
    size = 4 * workload.rows * workload.columns
    return Cost(0, size, size)


def tolerance(dtype: str) -> float:
    """Return a tiny number: a copy is exact, but the checker needs one above 0."""
    return 1e-9
