"""Operator `gemm_grouped`: products C = A B^T of groups of any size, in one launch.

Operands are 16-bit numbers, as in `gemm`, or block-scaled ones, as in `gemm_blockscaled`. All matrices of a kind lie
one after the other in a vector; a kernel finds a group's by its address and sizes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice, torch_dtype
from kernels.gemm import operator as gemm
from kernels.gemm_blockscaled import operator as blockscaled
from kernels.matrices import Groups

if TYPE_CHECKING:
    import torch

SCALED = tuple(blockscaled.DTYPES)  # of the element types, those with a scale per block
DTYPES = {"bf16": 2, "fp16": 2, **blockscaled.DTYPES}
OUTPUT = {"bf16": "bf16", "fp16": "fp16", **dict.fromkeys(SCALED, "fp16")}  # element type of C
DISTRIBUTIONS = ("randn", "constant", "scales", "large")
AXIS, AXIS_LABEL = "m", "rows of A per group, mean"
STEP = 32  # sizes are multiples, so that rows of all element types are multiples of 16 bytes


@dataclass(frozen=True)
class Problem:
    """One group: C (m x n) is A B^T; the depth is k."""

    m: int
    n: int
    k: int


@dataclass(frozen=True)
class Workload(Groups):
    """`groups` products, on average an `m` x `k` by a transposed `n` x `k` matrix.

    With `sizes` "even" all have these sizes. With "uneven" groups are taken in pairs, of which one gives some of each
    of its sizes to the other, by multiples of 32.
    """

    TYPES = DTYPES
    sizes: str = "even"
    dtype: str = "bf16"

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("m", "n", "k"):
            if getattr(self, key) % STEP:
                raise ValueError(f"{key} is {getattr(self, key)}; it must be a multiple of {STEP}")

    @property
    def scaled(self) -> bool:
        """Whether operands have a scale per block."""
        return self.dtype in SCALED

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The groups' sizes, the same for all inputs of a workload."""
        means, draw = (self.m, self.n, self.k), random.Random(0)
        sizes: list[tuple[int, ...]] = [means] * self.groups
        if self.sizes == "uneven":
            for i in range(0, self.groups - 1, 2):
                moved = [STEP * draw.randint(0, mean // STEP - 1) for mean in means]
                sizes[i] = tuple(mean - less for mean, less in zip(means, moved, strict=True))
                sizes[i + 1] = tuple(mean + more for mean, more in zip(means, moved, strict=True))
        return tuple(Problem(*size) for size in sizes)

    def tiles(self, m: int, n: int) -> int:
        """Tiles of m x n elements that cover C of all groups."""
        return sum(-(-p.m // m) * -(-p.n // n) for p in self.problems)

    def plain(self, problem: Problem) -> blockscaled.Workload:
        """Return a scaled group as a workload of `gemm_blockscaled`."""
        return blockscaled.Workload(problem.m, problem.n, problem.k, self.dtype)


@dataclass
class Inputs:
    """Row-major vectors of all groups' matrices; scaled ones as bytes, as in `gemm_blockscaled`."""

    a: torch.Tensor  # the dtype, or uint8
    b: torch.Tensor  # the same
    a_scales: torch.Tensor  # uint8; a single byte that nothing reads where elements have no scales
    b_scales: torch.Tensor  # the same


@dataclass
class Outputs:
    c: torch.Tensor  # vector of all groups' C, row-major; bf16 or fp16


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return groups whose sizes are no multiples of a tile."""
    w = workload
    return (replace(w, m=w.m + STEP, n=w.n + STEP, k=w.k + STEP),)


def parts(vector: torch.Tensor, shapes: Sequence[tuple[int, ...]]) -> Iterator[torch.Tensor]:
    """Return views of consecutive tensors of these shapes in a vector."""
    sizes = [math.prod(shape) for shape in shapes]
    for begin, size, shape in zip(accumulate(sizes, initial=0), sizes, shapes, strict=False):
        yield vector[begin : begin + size].view(shape)


def matrices(inputs: Inputs, workload: Workload) -> list[tuple[torch.Tensor, ...]]:
    """View each group's A, B and, if any, scales, as `gemm_blockscaled.Inputs` has them."""
    w = workload
    if not w.scaled:
        a = parts(inputs.a, [(p.m, p.k) for p in w.problems])
        return list(zip(a, parts(inputs.b, [(p.n, p.k) for p in w.problems]), strict=True))
    plain = [w.plain(p) for p in w.problems]
    scales = [[(-(-r // 128), -(-p.blocks // 4), 32, 4, 4) for r, p in _rows(plain, name)] for name in "mn"]
    a = parts(inputs.a, [(p.m, p.row_bytes) for p in plain])
    b = parts(inputs.b, [(p.n, p.row_bytes) for p in plain])
    return list(zip(a, b, parts(inputs.a_scales, scales[0]), parts(inputs.b_scales, scales[1]), strict=True))


def _rows(plain: list[blockscaled.Workload], name: str) -> Iterator[tuple[int, blockscaled.Workload]]:
    return ((getattr(p, name), p) for p in plain)


def results(outputs: Outputs, workload: Workload) -> list[torch.Tensor]:
    """Return views of each group's C."""
    return list(parts(outputs.c, [(p.m, p.n) for p in workload.problems]))


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`, group by group.

    Distributions: `randn`; `constant` (all ones: every element of a group's C is its k); `scales` (every group, or
    where elements have scales every block, multiplied by a power of two of its own, so that what belongs to another
    shows); `large` (a wrong element type of the sums overflows; with scales the same as `randn`).
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w = workload
    drawn: list[tuple[torch.Tensor, ...]] = []
    for group, p in enumerate(w.problems):
        own = seed * w.groups + group
        if w.scaled:
            kind = "randn" if distribution == "large" else distribution
            result = blockscaled.make_inputs(w.plain(p), own, device, kind)
            drawn.append((result.a, result.b, result.a_scales, result.b_scales))
        else:
            kind = "randn" if distribution == "scales" else distribution
            dense = gemm.make_inputs(gemm.Workload(p.m, p.n, p.k, dtype=w.dtype), own, device, kind)
            a = dense.a * 2.0 ** (group % 5 - 2) if distribution == "scales" else dense.a
            drawn.append((a, dense.b, *[torch.zeros(1 - bool(group), dtype=torch.uint8, device=device)] * 2))
    return Inputs(*(torch.cat([x.flatten() for x in kind]) for kind in zip(*drawn, strict=True)))


def make_outputs(workload: Workload, device: torch.device | str = "cpu") -> Outputs:
    return Outputs(poisoned((sum(p.m * p.n for p in workload.problems),), OUTPUT[workload.dtype], device))


def operands(
    group: tuple[torch.Tensor, ...], problem: Problem, workload: Workload, values: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a group's A and B; scaled ones by `gemm_blockscaled.dequantize`."""
    if not workload.scaled:
        return group[0], group[1]
    plain = workload.plain(problem)
    a = blockscaled.dequantize(group[0], group[2], plain, values)
    return a, blockscaled.dequantize(group[1], group[3], plain, values)


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 products of the operands as given, or dequantized."""
    import torch

    groups = zip(matrices(inputs, workload), workload.problems, strict=True)
    result = (operands(group, problem, workload) for group, problem in groups)
    return Outputs(torch.cat([(a.float() @ b.float().T).flatten() for a, b in result]))


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's own products in the type of C, which holds dequantized operands exactly."""
    import torch

    dtype = torch_dtype(OUTPUT[workload.dtype])
    groups = zip(matrices(inputs, workload), workload.problems, strict=True)
    result = (operands(group, problem, workload) for group, problem in groups)
    return Outputs(torch.cat([(a.to(dtype) @ b.to(dtype).T).flatten() for a, b in result]))


def cost(workload: Workload) -> Cost:
    """Add up the costs of the groups."""
    w = workload
    if w.scaled:
        costs = [blockscaled.cost(w.plain(p)) for p in w.problems]
    else:
        costs = [gemm.cost(gemm.Workload(p.m, p.n, p.k, dtype=w.dtype)) for p in w.problems]
    return Cost(sum(c.flops for c in costs), sum(c.bytes_read for c in costs), sum(c.bytes_written for c in costs))


def tolerance(dtype: str) -> float:
    """Largest relative error norm when `same_precision` is exact: one rounding of C."""
    return gemm.tolerance(OUTPUT[dtype])
