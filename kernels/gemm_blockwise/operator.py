"""Operator `gemm_blockwise`: C = A B^T of fp8 operands with float32 block scales.

Blocks have 128 elements along K. An element of A is its code times the scale of its block of 1 x 128 elements
(activations, quantized token by token); an element of B its code times the scale of its block of 128 x 128 (weights).
It is the scheme of DeepSeek-V3 (arXiv:2412.19437, section 3.3.2): tensor cores sum the products of a block, other units
scale and add the sums.

`quantize`, `dequantize_rows` and `dequantize_blocks` take further dimensions in front: the grouped products use them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice
from kernels.matrices import Product

if TYPE_CHECKING:
    import torch

DTYPES = {"fp8": 1}  # E4M3, of A and B; C is bf16
BLOCK = 128  # elements along K, and along N of B, that share a scale
LARGEST = 448.0  # of E4M3
DISTRIBUTIONS = ("randn", "scales", "outlier", "constant")
AXIS, AXIS_LABEL = "m", "rows of A and C (M)"


@dataclass(frozen=True)
class Workload(Product):
    """The product of an `m` x `k` by a transposed `n` x `k` matrix, row-major."""

    TYPES = DTYPES
    dtype: str = "fp8"


@dataclass
class Inputs:
    a: torch.Tensor  # [m, k], fp8
    b: torch.Tensor  # [n, k], fp8
    a_scales: torch.Tensor  # [blocks along K, m], float32: neighbouring rows lie next to each other
    b_scales: torch.Tensor  # [blocks along N, blocks along K], float32


@dataclass
class Outputs:
    c: torch.Tensor  # [m, n], bf16


def blocks(extent: int) -> int:
    """Blocks that cover an extent, the last one perhaps in part."""
    return -(-extent // BLOCK)


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return another size, no multiple of any tile; rows keep 16 bytes."""
    return (Workload(workload.m + 1, workload.n + 16, workload.k + 16),)


def draw(shape: tuple[int, ...], rows: int, generator: torch.Generator, device: str, distribution: str) -> torch.Tensor:
    """Draw a float32 operand [..., r, k] whose blocks will have `rows` rows."""
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    x = torch.randn(shape, generator=generator, device=device)
    *front, r, k = shape
    if distribution == "scales":
        powers = torch.randint(-4, 5, (*front, -(-r // rows), blocks(k)), generator=generator, device=device)
        x.mul_(_spread(torch.exp2(powers.float()), rows, r, k))
    elif distribution == "outlier" and rows == 1:
        x.scatter_(-1, torch.randint(k, (*front, r, 1), generator=generator, device=device), 100.0)
    elif distribution == "constant":
        x.fill_(1.0)
    return x


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Matrices drawn on `device` from `seed`, then quantized block by block.

    Distributions: `randn`; `scales` (every block multiplied by a power of two from 2^-4 to 2^4, so that a
    scale in the wrong place shows); `outlier` (one element per row of A a hundred times as large, next to which the
    others of its block lose digits); `constant` (all elements equal: all of C, too).
    """
    import torch

    w, generator = workload, torch.Generator(device).manual_seed(seed)
    a = draw((w.m, w.k), 1, generator, device, distribution)
    b = draw((w.n, w.k), BLOCK, generator, device, distribution)
    (a_codes, a_scales), (b_codes, b_scales) = quantize(a, 1), quantize(b, BLOCK)
    return Inputs(a_codes, b_codes, a_scales.mT.contiguous(), b_scales)


def quantize(x: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize a float32 operand to fp8 codes [..., r, k] and block scales.

    Scales are [..., blocks of `rows` rows, blocks along K]. The scale of a block is its largest magnitude over the
    largest code.
    """
    import torch

    *_, r, k = x.shape
    down, along = -(-r // rows), blocks(k)
    padded = torch.nn.functional.pad(x, (0, along * BLOCK - k, 0, down * rows - r))
    largest = padded.abs().view(*x.shape[:-2], down, rows, along, BLOCK).amax((-3, -1))
    scales = largest.clamp(min=2.0**-100) / LARGEST
    return (x / _spread(scales, rows, r, k)).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn), scales


def _spread(scales: torch.Tensor, rows: int, r: int, k: int) -> torch.Tensor:
    """Repeat the value of each block for its `rows` x 128 elements."""
    return scales.repeat_interleave(rows, -2).repeat_interleave(BLOCK, -1)[..., :r, :k]


def dequantize_rows(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return the float32 matrix [..., r, k] of codes with scales [..., blocks, r]."""
    return codes.float() * _spread(scales.mT, 1, *codes.shape[-2:])


def dequantize_blocks(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Dequantize codes [..., n, k] with scales [..., blocks along N, along K] to float32."""
    return codes.float() * _spread(scales, BLOCK, *codes.shape[-2:])


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    return Outputs(poisoned((workload.m, workload.n), "bf16", device))


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 product of the dequantized operands."""
    a, b = dequantize_rows(inputs.a, inputs.a_scales), dequantize_blocks(inputs.b, inputs.b_scales)
    return Outputs(a @ b.T)


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's bf16 product of the dequantized operands, which bf16 rounds."""
    a, b = dequantize_rows(inputs.a, inputs.a_scales), dequantize_blocks(inputs.b, inputs.b_scales)
    return Outputs(a.bfloat16() @ b.bfloat16().T)


def cost(workload: Workload) -> Cost:
    """Count 2 M N K FLOPs, without scaling; bytes: operands, scales, C."""
    w = workload
    scales = 4 * blocks(w.k) * (w.m + blocks(w.n))
    return Cost(2 * w.m * w.n * w.k, (w.m + w.n) * w.k + scales, 2 * w.m * w.n)


def tolerance(dtype: str) -> float:
    """Largest relative error norm when `same_precision` is exact: one rounding to bf16.

    Tensor cores that cut sums of fp8 products to 13 fraction bits, as Hopper's do, add a tenth of it within a block.
    """
    return 4.0e-3
