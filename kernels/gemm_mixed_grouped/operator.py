"""Operator `gemm_mixed_grouped`: rows of A, stored group by group, times each group's weights.

The layer of a mixture of experts of `gemm_grouped_contiguous`, with bf16 activations and weights of 8 or 4 bits as in
`gemm_mixed`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice
from kernels.gemm_grouped_contiguous import operator as contiguous
from kernels.gemm_mixed import operator as mixed

if TYPE_CHECKING:
    import torch

DTYPES = mixed.DTYPES
DISTRIBUTIONS = mixed.DISTRIBUTIONS
AXIS, AXIS_LABEL = "m", "rows of A per group, mean"


@dataclass(frozen=True)
class Workload(contiguous.Workload):
    """The sizes of `gemm_grouped_contiguous`, whose groups have multiples of 8 rows here."""

    TYPES = DTYPES
    ALIGNED = 8
    dtype: str = "int8"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.plain

    @property
    def plain(self) -> mixed.Workload:
        """Return an average group as a workload of `gemm_mixed`."""
        return mixed.Workload(self.m, self.n, self.k, self.dtype)


@dataclass
class Inputs:
    a: torch.Tensor  # [rows, k], bf16
    b: torch.Tensor  # [groups, n, k] int8 or e4m3, or [groups, n, k / 2] bytes of two int4
    b_scales: torch.Tensor  # [groups, k / 128, n], bf16; [groups, 1, 1] where there are none
    starts: torch.Tensor  # [groups + 1], int32: the first row of each group, and the end


@dataclass
class Outputs:
    c: torch.Tensor  # [rows, n], bf16


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return a workload of another size and groups, which is no multiple of a tile."""
    w = workload
    k = w.k + (mixed.BLOCK if w.plain.scaled else 16)
    return (replace(w, m=w.m + 8, n=w.n + 16, k=k, sizes="uneven" if w.sizes == "even" else "even"),)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`, by the distributions of `gemm_mixed`."""
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w, generator = workload, torch.Generator(device).manual_seed(seed)
    a = torch.randn(w.rows, w.k, generator=generator, device=device)
    if distribution == "constant":
        a.fill_(1.0)
    drawn = [mixed.draw_weights((w.n, w.k), w.dtype, distribution, generator, device) for _ in range(w.groups)]
    b, scales = (torch.stack(kind) for kind in zip(*drawn, strict=True))
    starts = torch.tensor([0, *accumulate(w.group_rows)], dtype=torch.int32, device=device)
    return Inputs(a.to(torch.bfloat16), b, scales, starts)


def make_outputs(workload: Workload, device: torch.device | str = "cpu") -> Outputs:
    return Outputs(poisoned((workload.rows, workload.n), "bf16", device))


def products(inputs: Inputs, workload: Workload, c: torch.Tensor) -> torch.Tensor:
    """Fill and return `c` by one product per group in its element type."""
    weights = (mixed.weights(*each) for each in zip(inputs.b, inputs.b_scales, strict=True))
    return contiguous.multiply_groups(inputs.a, weights, workload.group_rows, c)


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 products with the weights that codes and scales stand for."""
    return Outputs(products(inputs, workload, make_outputs(workload, inputs.a.device).c.float()))


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's bf16 products with the weights rounded to bf16."""
    return Outputs(products(inputs, workload, make_outputs(workload, inputs.a.device).c))


def cost(workload: Workload) -> Cost:
    """Count 2 M N K FLOPs; bytes: A, C, B of groups with rows, scales."""
    w = workload
    used = sum(rows > 0 for rows in w.group_rows)
    read = 2 * w.rows * w.k + used * mixed.weight_bytes(w.n, w.k, w.dtype)
    return Cost(2 * w.rows * w.n * w.k, read, 2 * w.rows * w.n)


tolerance = mixed.tolerance
