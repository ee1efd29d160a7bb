"""Operator `tensor_products`: D = A B^T in every kind of product of Blackwell's tensor cores.

It exists for the instructions, not for speed: a kernel of few lines meets those that no kernel of the catalogue has,
with one CTA and with two. Scales of block-scaled kinds are all 1; `gemm_blockscaled` has real ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import require_choice, require_sizes

if TYPE_CHECKING:
    import torch

DTYPES = {"fp16": 2, "tf32": 4, "fp8": 1, "int8": 1, "mxf4": 1}  # bytes that hold an element of A or B; of mxf4, two
BITS = {"fp16": 16, "tf32": 32, "fp8": 8, "int8": 8, "mxf4": 4}
DISTRIBUTIONS = ("randn", "extremes")
AXIS, AXIS_LABEL = "k", "K (elements)"
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


@dataclass(frozen=True)
class Workload:
    """D (m, n), float32 or int32 of int8, from A (m, k), B (n, k)."""

    m: int
    n: int
    k: int
    dtype: str = "fp16"

    def __post_init__(self) -> None:
        require_sizes(self, "m", "n", "k")
        require_choice("dtype", self.dtype, DTYPES)
        if self.k % 2:
            raise ValueError(f"k is {self.k}; it must be even: a byte holds two elements of mxf4")

    @property
    def id(self) -> str:
        return f"m{self.m}_n{self.n}_k{self.k}_{self.dtype}"


@dataclass
class Inputs:
    a: (
        torch.Tensor
    )  # [m, k]: float16, float32 with the 10 bits of a tf32, e4m3, int8, or uint8 [m, k / 2] of e2m1 pairs
    b: torch.Tensor  # [n, k], like a


@dataclass
class Outputs:
    d: torch.Tensor  # [m, n], float32; int32 where the operands are int8


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return none: no GPU here could check them, and no size differs."""
    return ()


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Draw inputs on `device` from `seed`: `randn` or `extremes`.

    `extremes` has the largest magnitudes of either sign at random. Of fp16 and tf32 the extremes are 1,024, so that
    sums of float32 hold them.
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w = workload
    generator = torch.Generator(device).manual_seed(seed)

    def draw(rows: int) -> torch.Tensor:
        x = torch.randn(rows, w.k, generator=generator, device=device)
        if distribution == "extremes":
            x = torch.where(x > 0, 1.0, -1.0) * {"fp8": 448.0, "int8": 127.0, "mxf4": 6.0}.get(w.dtype, 1024.0)
        return encode(x, w.dtype)

    return Inputs(draw(w.m), draw(w.n))


def encode(x: torch.Tensor, dtype: str) -> torch.Tensor:
    """Round values to `dtype`: tf32 is cut, int8 takes 32 times a value."""
    import torch

    if dtype == "fp16":
        return x.half()
    if dtype == "tf32":
        return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)
    if dtype == "fp8":
        return x.to(torch.float8_e4m3fn)
    if dtype == "int8":
        return (x * 32).round().clamp(-127, 127).to(torch.int8)
    table = torch.tensor(E2M1, device=x.device)
    codes = (x[..., None] - table).abs().argmin(-1).to(torch.uint8)
    return codes[..., ::2] | codes[..., 1::2] << 4


def decode(operand: torch.Tensor) -> torch.Tensor:
    """float32 values of an operand."""
    import torch

    if operand.dtype != torch.uint8:
        return operand.float()
    table = torch.tensor(E2M1, device=operand.device)
    return table[torch.stack((operand & 15, operand >> 4), -1).flatten(-2).long()]


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    """Return outputs of NaN, or -1 billion, so that an unwritten element fails."""
    import torch

    w = workload
    if w.dtype == "int8":
        return Outputs(torch.full((w.m, w.n), -(10**9), dtype=torch.int32, device=device))
    return Outputs(torch.full((w.m, w.n), float("nan"), device=device))


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """Exact products, summed in float64 and rounded to float32."""
    return Outputs((decode(inputs.a).double() @ decode(inputs.b).double().T).float())


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """Exact products, summed in float32: the yardstick for the allowed error."""
    return Outputs(decode(inputs.a) @ decode(inputs.b).T)


def cost(workload: Workload) -> Cost:
    """FLOPs 2 m n k; bytes: both operands and D once."""
    w = workload
    return Cost(2 * w.m * w.n * w.k, (w.m + w.n) * w.k * BITS[w.dtype] // 8, 4 * w.m * w.n)


def tolerance(dtype: str) -> float:
    """Largest relative error norm accepted when `same_precision` happens to be nearer than a rounding allows.

    Hopper's tensor cores keep 13 bits of sums of 8-bit floats; Blackwell's may.
    """
    return {"fp16": 1e-5, "tf32": 1e-5, "fp8": 2e-3, "int8": 1e-6, "mxf4": 1e-5}[dtype]
