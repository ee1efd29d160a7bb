"""Operator `gemm_grouped_masked`: products of equally large groups that use some rows only.

What a layer of a mixture of experts computes while decoding, where the host does not know how many tokens each expert
got: for every group, the first rows of A times the transpose of B. Operands are fp8 with float32 scales, as in
`gemm_blockwise`, or bf16 without. What a kernel leaves in the unused rows of C is its own affair: `finish` of every
binding puts zeros there (`clear_unused`), and so does the reference.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, torch_dtype
from kernels.gemm_blockwise import operator as blockwise
from kernels.matrices import Groups

if TYPE_CHECKING:
    import torch

DTYPES = {**blockwise.DTYPES, "bf16": 2}
DISTRIBUTIONS = blockwise.DISTRIBUTIONS
AXIS, AXIS_LABEL = "m", "room for rows per group"
SPARE = 256  # entries of `rows` past the groups, all 0: NVIDIA's kernel looks up tiles past the last (found by ptxsim)


@dataclass(frozen=True)
class Workload(Groups):
    """`groups` matrices B, each n x k, with room for `m` rows each.

    With `sizes` "full" all of it is used. With "uneven" the first group has no row, the second as many as it can, and
    the others log-uniformly many.
    """

    TYPES, SIZES = DTYPES, ("uneven", "full")
    sizes: str = "uneven"
    dtype: str = "fp8"

    @property
    def group_rows(self) -> tuple[int, ...]:
        """Rows in use of each group, the same for all inputs of a workload."""
        if self.sizes == "full":
            return (self.m,) * self.groups
        draw = random.Random(0)
        rows = [round(math.exp(draw.uniform(0, math.log(self.m)))) for _ in range(self.groups)]
        return (0, self.m, *rows[2:])[: self.groups]


@dataclass
class Inputs:
    a: torch.Tensor  # [groups, m, k], the dtype
    b: torch.Tensor  # [groups, n, k], the dtype
    a_scales: torch.Tensor  # [groups, blocks along K, m], float32; 1 throughout with bf16
    b_scales: torch.Tensor  # [groups, blocks along N, blocks along K], float32; 1 throughout with bf16
    rows: torch.Tensor  # [groups + SPARE], int32: rows in use of each group


@dataclass
class Outputs:
    c: torch.Tensor  # [groups, m, n], bf16


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return another size, no multiple of any tile; rows keep 16 bytes."""
    w = workload
    return (replace(w, m=w.m + 1, n=w.n + 16, k=w.k + 16),)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`, with the distributions of `gemm_blockwise`.

    Unused rows of A hold NaN, so that a kernel which lets them into used ones shows.
    """
    import torch

    w, generator = workload, torch.Generator(device).manual_seed(seed)
    a, b = (torch.empty(w.groups, r, w.k, dtype=torch_dtype(w.dtype), device=device) for r in (w.m, w.n))
    along = blockwise.blocks(w.k)
    a_scales = torch.ones(w.groups, along, w.m, device=device)
    b_scales = torch.ones(w.groups, blockwise.blocks(w.n), along, device=device)
    for group, used in enumerate(w.group_rows):  # one by one: in float32 they would take many gigabytes
        drawn_a = blockwise.draw((w.m, w.k), 1, generator, device, distribution)
        drawn_b = blockwise.draw((w.n, w.k), blockwise.BLOCK, generator, device, distribution)
        if w.dtype == "fp8":
            a[group], scales = blockwise.quantize(drawn_a, 1)
            a_scales[group] = scales.mT
            b[group], b_scales[group] = blockwise.quantize(drawn_b, blockwise.BLOCK)
            a.view(torch.uint8)[group, used:] = 0x7F  # NaN of E4M3
        else:
            a[group], b[group] = drawn_a, drawn_b
            a[group, used:] = float("nan")
    rows = torch.tensor([*w.group_rows, *[0] * SPARE], dtype=torch.int32, device=device)
    return Inputs(a, b, a_scales, b_scales, rows)


def make_outputs(workload: Workload, device: torch.device | str = "cpu") -> Outputs:
    return Outputs(poisoned((workload.groups, workload.m, workload.n), "bf16", device))


def clear_unused(inputs: Inputs, outputs: Outputs) -> None:
    """Zero the rows of C that no group uses, for the `finish` of a binding."""
    import torch

    groups, m, _ = outputs.c.shape
    row = torch.arange(m, device=outputs.c.device)
    outputs.c.masked_fill_((row[None, :] >= inputs.rows[:groups, None])[..., None], 0.0)


def products(inputs: Inputs, workload: Workload, c: torch.Tensor) -> torch.Tensor:
    """Fill rows of `c` in use with products of dequantized operands; return `c`."""
    import torch

    for group, used in enumerate(workload.group_rows):
        a = blockwise.dequantize_rows(inputs.a[group, :used], inputs.a_scales[group, :, :used]).to(c.dtype)
        b = blockwise.dequantize_blocks(inputs.b[group], inputs.b_scales[group]).to(c.dtype)
        torch.mm(a, b.T, out=c[group, :used])
    return c


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 products of the dequantized operands."""
    result = Outputs(products(inputs, workload, make_outputs(workload, inputs.a.device).c.float()))
    clear_unused(inputs, result)
    return result


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's bf16 products of the dequantized operands, which bf16 rounds."""
    result = Outputs(products(inputs, workload, make_outputs(workload, inputs.a.device).c))
    clear_unused(inputs, result)
    return result


def cost(workload: Workload) -> Cost:
    """Count FLOPs and bytes of rows in use, and B of their groups."""
    w, size = workload, DTYPES[workload.dtype]
    rows, used = sum(w.group_rows), sum(rows > 0 for rows in w.group_rows)
    along_k = blockwise.blocks(w.k) if w.dtype == "fp8" else 0  # scales of a row
    a = rows * (size * w.k + 4 * along_k)
    b = used * (size * w.n * w.k + 4 * blockwise.blocks(w.n) * along_k)
    return Cost(2 * rows * w.n * w.k, a + b, 2 * rows * w.n)


tolerance = blockwise.tolerance
