"""Operator `tutorial_gemm`: C = A B^T in fp16, as in NVIDIA's tutorial for SM100.

B lies there twice: as fp16, and as 8-bit integers with a scale, which the tutorial's last step multiplies out by
itself. Both hold the same numbers exactly, so that all steps have one reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from kernels.gemm import operator as gemm
from kernels.matrices import Product

if TYPE_CHECKING:
    import torch

DTYPES = {"fp16": 2}
DISTRIBUTIONS = gemm.DISTRIBUTIONS
AXIS, AXIS_LABEL = "m", "rows of A and C (M)"
SCALE = 2.0**-5  # of B's integers: numbers up to 4 in steps that fp16 holds exactly


@dataclass(frozen=True)
class Workload(Product):
    """The product of an `m` x `k` by a transposed `n` x `k` matrix, row-major."""

    TYPES = DTYPES
    dtype: str = "fp16"

    @property
    def plain(self) -> gemm.Workload:
        """Return the product as a workload of `gemm`."""
        return gemm.Workload(self.m, self.n, self.k, dtype=self.dtype)


@dataclass
class Inputs:
    a: torch.Tensor  # [m, k] fp16
    b: torch.Tensor  # [n, k] fp16
    b_quantized: torch.Tensor  # [n, k] int8; times `scale` it is b
    scale: float

    @property
    def plain(self) -> gemm.Inputs:
        """The same factors as inputs of `gemm`."""
        return gemm.Inputs(self.a[None], self.b[None])


@dataclass
class Outputs:
    c: torch.Tensor  # [m, n] fp16

    @property
    def plain(self) -> gemm.Outputs:
        """The same memory as outputs of `gemm`."""
        return gemm.Outputs(self.c[None])


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return a workload of another size, in whole tiles: the tutorial takes no others."""
    return (Workload(workload.m + 256, workload.n + 512, workload.k + 128),)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs as `gemm`, with B rounded to what its integers can hold."""
    import torch

    drawn = gemm.make_inputs(workload.plain, seed, device, distribution)
    b_quantized = (drawn.b[0].float() / SCALE).round().clamp(-127, 127)
    b = (b_quantized * SCALE).to(drawn.b.dtype)
    return Inputs(drawn.a[0], b, b_quantized.to(torch.int8), SCALE)


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    return Outputs(gemm.make_outputs(workload.plain, device).c[0])


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 product of the fp16 inputs as given."""
    return Outputs(gemm.reference(inputs.plain, workload.plain).c[0])


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's own product in fp16."""
    return Outputs(gemm.same_precision(inputs.plain, workload.plain).c[0])


def cost(workload: Workload) -> Cost:
    """Count work on fp16; the last step also converts B from bytes."""
    return gemm.cost(workload.plain)


tolerance = gemm.tolerance
