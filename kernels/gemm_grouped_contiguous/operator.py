"""Operator `gemm_grouped_contiguous`: rows of A, stored group by group, times each group's B.

What a layer of a mixture of experts computes for tokens that are sorted by expert: row i of C is row i of A times the
transpose of B[group of i]. Operands are fp8 with float32 scales, as in `gemm_blockwise`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned
from kernels.gemm_blockwise import operator as blockwise
from kernels.matrices import Groups

if TYPE_CHECKING:
    import torch

DTYPES = blockwise.DTYPES
DISTRIBUTIONS = blockwise.DISTRIBUTIONS
AXIS, AXIS_LABEL = "m", "rows of A per group, mean"


@dataclass(frozen=True)
class Workload(Groups):
    """`groups` matrices B, each n x k, and on average `m` rows of A each.

    With `sizes` "even" every group has `m` rows. With "uneven" groups are taken in pairs, of which one gives some of
    its rows to the other, by multiples of ALIGNED; the first group gives all it has and is empty.
    """

    TYPES = DTYPES
    ALIGNED: ClassVar = 128  # rows: groups are padded to multiples, so that no tile of C has rows of two groups
    sizes: str = "even"
    dtype: str = "fp8"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.m % self.ALIGNED:
            raise ValueError(f"m is {self.m}; groups have multiples of {self.ALIGNED} rows")

    @property
    def rows(self) -> int:
        """Of A and C, all groups together."""
        return self.groups * self.m

    @property
    def group_rows(self) -> tuple[int, ...]:
        """Rows of each group, the same for all inputs of a workload."""
        rows, draw = [self.m] * self.groups, random.Random(0)
        if self.sizes == "uneven":
            for i in range(0, self.groups - 1, 2):
                units = self.m // self.ALIGNED
                moved = self.ALIGNED * (draw.randint(0, units) if i else units)
                rows[i], rows[i + 1] = rows[i] - moved, rows[i + 1] + moved
        return tuple(rows)


@dataclass
class Inputs:
    a: torch.Tensor  # [rows, k], fp8
    b: torch.Tensor  # [groups, n, k], fp8
    a_scales: torch.Tensor  # [blocks along K, rows], float32
    b_scales: torch.Tensor  # [groups, blocks along N, blocks along K], float32
    group_of_row: torch.Tensor  # [rows], int32
    starts: torch.Tensor  # [groups + 1], int32: the first row of each group, and the end


@dataclass
class Outputs:
    c: torch.Tensor  # [rows, n], bf16


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return other N, K, no multiples of a tile, and groups of other sizes."""
    w = workload
    return (replace(w, n=w.n + 16, k=w.k + 16, sizes="uneven" if w.sizes == "even" else "even"),)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`, with the distributions of `gemm_blockwise`."""
    import torch

    w, generator = workload, torch.Generator(device).manual_seed(seed)
    a = blockwise.draw((w.rows, w.k), 1, generator, device, distribution)
    a_codes, a_scales = blockwise.quantize(a, 1)
    b = torch.empty(w.groups, w.n, w.k, dtype=torch.float8_e4m3fn, device=device)
    b_scales = torch.empty(w.groups, blockwise.blocks(w.n), blockwise.blocks(w.k), device=device)
    for group in range(w.groups):  # one by one: a layer's experts in float32 would take many gigabytes
        drawn = blockwise.draw((w.n, w.k), blockwise.BLOCK, generator, device, distribution)
        b[group], b_scales[group] = blockwise.quantize(drawn, blockwise.BLOCK)
    sizes = torch.tensor(w.group_rows, device=device)
    group_of_row = torch.arange(w.groups, dtype=torch.int32, device=device).repeat_interleave(sizes)
    starts = torch.tensor([0, *accumulate(w.group_rows)], dtype=torch.int32, device=device)
    return Inputs(a_codes, b, a_scales.mT.contiguous(), b_scales, group_of_row, starts)


def make_outputs(workload: Workload, device: torch.device | str = "cpu") -> Outputs:
    return Outputs(poisoned((workload.rows, workload.n), "bf16", device))


def products(inputs: Inputs, workload: Workload, c: torch.Tensor) -> torch.Tensor:
    """Fill and return `c`: a product per group of operands dequantized to its dtype."""
    a = blockwise.dequantize_rows(inputs.a, inputs.a_scales).to(c.dtype)
    weights = (blockwise.dequantize_blocks(*each) for each in zip(inputs.b, inputs.b_scales, strict=True))
    return multiply_groups(a, weights, workload.group_rows, c)


def multiply_groups(
    a: torch.Tensor, weights: Iterable[torch.Tensor], group_rows: tuple[int, ...], c: torch.Tensor
) -> torch.Tensor:
    """Multiply each group's rows of A by its transposed weights [n, k] into `c`.

    The products have the element type of `c`, which is returned. The groups' rows follow each other in A and C; weights
    are asked for one by one, since all might not fit.
    """
    import torch

    begin = 0
    for b, rows in zip(weights, group_rows, strict=True):
        end = begin + rows
        torch.mm(a[begin:end].to(c.dtype), b.to(c.dtype).T, out=c[begin:end])
        begin = end
    return c


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 products of the dequantized operands."""
    return Outputs(products(inputs, workload, make_outputs(workload, inputs.a.device).c.float()))


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's bf16 products of the dequantized operands, which bf16 rounds."""
    return Outputs(products(inputs, workload, make_outputs(workload, inputs.a.device).c))


def cost(workload: Workload) -> Cost:
    """Count 2 M N K FLOPs; bytes: A, C, B of groups with rows, scales."""
    w = workload
    used = sum(rows > 0 for rows in w.group_rows)
    along_k = blockwise.blocks(w.k)
    a = w.rows * (w.k + 4 * along_k)
    b = used * (w.n * w.k + 4 * blockwise.blocks(w.n) * along_k)
    return Cost(2 * w.rows * w.n * w.k, a + b, 2 * w.rows * w.n)


tolerance = blockwise.tolerance
