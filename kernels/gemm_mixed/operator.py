"""Operator `gemm_mixed`: C = A B^T of bf16 activations and 8-bit or 4-bit weights.

The product is in bf16.

What a linear layer computes whose weights are stored in fewer bits than its activations have:

    int8, fp8    an element of B is its code (fp8 is E4M3), which bf16 holds exactly
    int4         an element of B is its code, from -8 to 7, times a bf16 scale per row and 128 elements of it
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice
from kernels.fmha_mixed_decode.operator import decode, encode
from kernels.matrices import Product

if TYPE_CHECKING:
    import torch

DTYPES = {"int8": 1, "int4": 1, "fp8": 1}  # bytes that hold an element of B; of int4, two
BITS = {"int8": 8, "int4": 4, "fp8": 8}
LARGEST = {"int8": 127.0, "int4": 7.0, "fp8": 448.0}
LOWEST = {"int8": -128.0, "int4": -8.0, "fp8": -448.0}
UNIT = {"int8": 32.0, "int4": 2.0, "fp8": 1.0}  # codes that stand for a normal number of size 1
BLOCK = 128  # elements of a row of B that share a scale, where there are scales
DISTRIBUTIONS = ("randn", "scales", "extremes", "constant")
AXIS, AXIS_LABEL = "m", "rows of A and C (M)"


@dataclass(frozen=True)
class Workload(Product):
    """An `m` x `k` by transposed `n` x `k` product of `dtype`, row-major."""

    TYPES = DTYPES
    dtype: str = "int8"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scaled and self.k % BLOCK:
            raise ValueError(f"k is {self.k}; with {self.dtype} it must be a multiple of {BLOCK}")

    @property
    def scaled(self) -> bool:
        """Whether B has scales."""
        return self.dtype == "int4"


@dataclass
class Inputs:
    a: torch.Tensor  # [m, k], bf16
    b: torch.Tensor  # [n, k] int8 or e4m3, or [n, k / 2] bytes of two int4, the first in the low half
    b_scales: torch.Tensor  # [k / 128, n], bf16: neighbouring rows' lie next to each other; [1, 1] where there are none


@dataclass
class Outputs:
    c: torch.Tensor  # [m, n], bf16


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return another size, no multiple of any tile; rows keep 16 bytes."""
    w = workload
    return (replace(w, m=w.m + 8, n=w.n + 16, k=w.k + (BLOCK if w.scaled else 16)),)


def draw_weights(
    shape: tuple[int, int], dtype: str, distribution: str, generator: torch.Generator, device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of B, [n, k]; see `make_inputs`."""
    import torch

    n, k = shape
    x = torch.randn(shape, generator=generator, device=device)
    scales = torch.ones(1, 1, device=device)
    if dtype == "int4":
        scales = torch.rand(k // BLOCK, n, generator=generator, device=device) + 0.5
    if distribution == "scales":
        if dtype == "int4":
            scales *= torch.exp2(torch.randint(-4, 5, scales.shape, generator=generator, device=device).float())
        else:
            x *= torch.exp2(torch.randint(-3, 1, (n, 1), generator=generator, device=device).float())
    values = x * UNIT[dtype]
    if distribution == "extremes":
        values = torch.where(x > 0, LARGEST[dtype], LOWEST[dtype])
    elif distribution == "constant":
        values, scales = torch.ones_like(x), torch.ones_like(scales)
    return encode(values.clamp(LOWEST[dtype], LARGEST[dtype]), dtype), scales.to(torch.bfloat16)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`.

    Distributions: `randn`; `scales` (scales of int4, or else whole rows of B, differ by up to 2^8 and 2^3, so that
    what belongs to another shows); `extremes` (every code is the largest or the lowest there is); `constant` (all
    ones: every element of C is k).
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w, generator = workload, torch.Generator(device).manual_seed(seed)
    a = torch.randn(w.m, w.k, generator=generator, device=device)
    if distribution == "constant":
        a.fill_(1.0)
    b, scales = draw_weights((w.n, w.k), w.dtype, distribution, generator, device)
    return Inputs(a.to(torch.bfloat16), b, scales)


def weights(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Dequantize codes to float32 [n, k]; scales of [1, 1] stand for none."""
    values = decode(codes)
    return values if scales.shape == (1, 1) else values * scales.float().T.repeat_interleave(BLOCK, 1)


def make_outputs(workload: Workload, device: torch.device | str = "cpu") -> Outputs:
    return Outputs(poisoned((workload.m, workload.n), "bf16", device))


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 product with the weights that codes and scales stand for."""
    return Outputs(inputs.a.float() @ weights(inputs.b, inputs.b_scales).T)


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """Return PyTorch's product with bf16 weights, which are exact for all but int4."""
    return Outputs(inputs.a @ weights(inputs.b, inputs.b_scales).bfloat16().T)


def weight_bytes(n: int, k: int, dtype: str) -> int:
    """Bytes of codes and scales of B."""
    return n * k * BITS[dtype] // 8 + (2 * n * k // BLOCK if dtype == "int4" else 0)


def cost(workload: Workload) -> Cost:
    """Count 2 M N K FLOPs; bytes: A, codes and scales of B, C."""
    w = workload
    return Cost(2 * w.m * w.n * w.k, 2 * w.m * w.k + weight_bytes(w.n, w.k, w.dtype), 2 * w.m * w.n)


def tolerance(dtype: str) -> float:
    """Largest relative error norm when `same_precision` is exact: one rounding to bf16."""
    return 4.0e-3
