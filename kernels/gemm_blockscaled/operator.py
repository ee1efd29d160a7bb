"""Operator `gemm_blockscaled`: C = A B^T of 8-bit and 4-bit operands with block scales.

An element of A or B is its code times the scale of its block of 16 or 32 elements of a row. The formats
follow the OCP Microscaling specification, version 1.0, and NVIDIA's NVFP4:

    mxfp8   codes e4m3, scales e8m0 (powers of two), blocks of 32
    mxfp4   codes e2m1, scales e8m0, blocks of 32
    nvfp4   codes e2m1, scales e4m3, blocks of 16

All tensors of the inputs hold bytes. 4-bit codes lie two in a byte, the first in its low half. Scales lie in the order
in which tensor cores take them, as cuBLAS documents («1D block scaling factors layout»): tiles of 128 rows by 4
blocks, each as [32, 4, 4], where row r of the tile is [r % 32, r // 32]. Rows and blocks are padded to whole tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutesnake.model.contract import Cost
from cutesnake.model.workload import poisoned, require_choice
from kernels.matrices import Product

if TYPE_CHECKING:
    import torch

DTYPES = {"mxfp8": 1, "mxfp4": 1, "nvfp4": 1}  # bytes that hold an element; of the 4-bit ones, two
BITS = {"mxfp8": 8, "mxfp4": 4, "nvfp4": 4}
BLOCK = {"mxfp8": 32, "mxfp4": 32, "nvfp4": 16}  # elements of a row that share a scale
LARGEST = {"mxfp8": 448.0, "mxfp4": 6.0, "nvfp4": 6.0}  # code: of e4m3 and e2m1
EXPONENT = {"mxfp8": 8, "mxfp4": 2}  # of the largest code, which a block's largest element is given
DISTRIBUTIONS = ("randn", "scales", "outlier", "constant")
AXIS, AXIS_LABEL = "m", "rows of A and C (M)"
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # codes 0 to 7; bit 3 is the sign
TILE_ROWS, TILE_BLOCKS = 128, 4  # of scales


@dataclass(frozen=True)
class Workload(Product):
    """An `m` x `k` by transposed `n` x `k` product of `dtype`, in fp16."""

    TYPES = DTYPES
    dtype: str = "nvfp4"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k % BLOCK[self.dtype]:
            raise ValueError(f"k is {self.k}; it must be a multiple of the blocks of {BLOCK[self.dtype]} elements")

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of codes."""
        return self.k * BITS[self.dtype] // 8

    @property
    def blocks(self) -> int:
        """Scales of a row."""
        return self.k // BLOCK[self.dtype]


@dataclass
class Inputs:
    a: torch.Tensor  # [m, row_bytes], uint8
    b: torch.Tensor  # [n, row_bytes], uint8
    a_scales: torch.Tensor  # [tiles of 128 rows, tiles of 4 blocks, 32, 4, 4], uint8
    b_scales: torch.Tensor  # the same for B


@dataclass
class Outputs:
    c: torch.Tensor  # [m, n], fp16


def relatives(workload: Workload) -> tuple[Workload, ...]:
    """Return another size, no multiple of a tile; rows of scales end within one."""
    return (Workload(workload.m + 32, workload.n + 96, workload.k + 96, workload.dtype),)


def make_inputs(workload: Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Inputs:
    """Matrices drawn on `device` from `seed`, then quantized block by block.

    Distributions: `randn`; `scales` (every block multiplied by a power of two from 2^-4 to 2^4, so that a scale in the
    wrong place shows); `outlier` (one element per row of A a hundred times as large, next to which the others of its
    block vanish); `constant` (all elements equal: all of C, too).
    """
    import torch

    require_choice("distribution", distribution, DISTRIBUTIONS)
    w = workload
    generator = torch.Generator(device).manual_seed(seed)
    a, b = (torch.randn(rows, w.k, generator=generator, device=device) for rows in (w.m, w.n))
    if distribution == "scales":
        for x in (a, b):
            powers = torch.randint(-4, 5, (len(x), w.blocks), generator=generator, device=device)
            x.mul_(torch.exp2(powers.float()).repeat_interleave(BLOCK[w.dtype], 1))
    elif distribution == "outlier":
        a.scatter_(1, torch.randint(w.k, (w.m, 1), generator=generator, device=device), 100.0)
    elif distribution == "constant":
        a.fill_(1.0)
        b.fill_(1.0)
    (a_codes, a_scales), (b_codes, b_scales) = quantize(a, w.dtype), quantize(b, w.dtype)
    return Inputs(a_codes, b_codes, a_scales, b_scales)


def quantize(x: torch.Tensor, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of a float32 matrix, as `Inputs` holds them.

    The scale of a block is its largest magnitude over the largest code, rounded to e4m3 (nvfp4), or the power of two
    that gives that magnitude the exponent of the largest code (mxfp8, mxfp4; OCP specification, section 6.3).
    """
    import torch

    rows, columns = x.shape
    blocks = x.view(rows, -1, BLOCK[dtype])
    largest = blocks.abs().amax(-1)
    if dtype == "nvfp4":
        scales = (largest / LARGEST[dtype]).clamp(2.0**-9, 448.0).to(torch.float8_e4m3fn)
        codes, factor = scales.view(torch.uint8), scales.float()
    else:
        power = torch.floor(torch.log2(largest.clamp(min=2.0**-100))) - EXPONENT[dtype]
        codes, factor = (power + 127).to(torch.uint8), torch.exp2(power)
    scaled = (blocks / factor[..., None]).clamp(-LARGEST[dtype], LARGEST[dtype]).view(rows, columns)
    return _encode(scaled, dtype), _tiled(codes)


def _encode(x: torch.Tensor, dtype: str) -> torch.Tensor:
    import torch

    if dtype == "mxfp8":
        return x.to(torch.float8_e4m3fn).view(torch.uint8)
    table = torch.tensor(E2M1, device=x.device)
    code = torch.bucketize(x.abs(), (table[1:] + table[:-1]) / 2).to(torch.uint8)
    code |= (x < 0).to(torch.uint8) << 3
    return code[:, 0::2] | code[:, 1::2] << 4


def _tiled(scales: torch.Tensor) -> torch.Tensor:
    """[rows, blocks] in the order of the tensor cores, padded with zeros."""
    import torch

    rows, blocks = scales.shape
    scales = torch.nn.functional.pad(scales, (0, -blocks % TILE_BLOCKS, 0, -rows % TILE_ROWS))
    tiles = scales.view(-1, 4, 32, scales.shape[1] // TILE_BLOCKS, TILE_BLOCKS)
    return tiles.permute(0, 3, 2, 1, 4).contiguous()


def e2m1_values(device: torch.device | str) -> torch.Tensor:
    """Return the float32 values of the sixteen 4-bit codes."""
    import torch

    return torch.tensor([*E2M1, *(-x for x in E2M1)], device=device)


def dequantize(
    codes: torch.Tensor, scales: torch.Tensor, workload: Workload, values: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the float32 matrix of codes and scales.

    fp16 holds its elements exactly, for the inputs made here. `values` are `e2m1_values`, made once where this is
    called often or in a CUDA graph.
    """
    import torch

    rows = len(codes)
    flat = scales.permute(0, 3, 2, 1, 4).reshape(scales.shape[0] * TILE_ROWS, -1)[:rows, : workload.blocks]
    if workload.dtype == "mxfp8":
        matrix = codes.view(torch.float8_e4m3fn).float()
    else:
        halves = torch.stack((codes & 15, codes >> 4), -1).view(rows, workload.k)
        matrix = (e2m1_values(codes.device) if values is None else values)[halves.long()]
    if workload.dtype == "nvfp4":
        factor = flat.contiguous().view(torch.float8_e4m3fn).float()
    else:
        factor = torch.exp2(flat.float() - 127)
    return matrix * factor.repeat_interleave(BLOCK[workload.dtype], 1)


def operands(inputs: Inputs, workload: Workload) -> tuple[torch.Tensor, torch.Tensor]:
    """Return A and B, dequantized to float32."""
    a = dequantize(inputs.a, inputs.a_scales, workload)
    return a, dequantize(inputs.b, inputs.b_scales, workload)


def make_outputs(workload: Workload, device: str = "cpu") -> Outputs:
    return Outputs(poisoned((workload.m, workload.n), "fp16", device))


def reference(inputs: Inputs, workload: Workload) -> Outputs:
    """float32 product of the dequantized operands."""
    a, b = operands(inputs, workload)
    return Outputs(a @ b.T)


def same_precision(inputs: Inputs, workload: Workload) -> Outputs:
    """PyTorch's fp16 product of the dequantized operands, which fp16 holds exactly."""
    a, b = operands(inputs, workload)
    return Outputs(a.half() @ b.half().T)


def cost(workload: Workload) -> Cost:
    """Count 2 M N K FLOPs; bytes: codes and scales without padding, and C."""
    w = workload
    return Cost(
        flops=2 * w.m * w.n * w.k, bytes_read=(w.m + w.n) * (w.row_bytes + w.blocks), bytes_written=2 * w.m * w.n
    )


def tolerance(dtype: str) -> float:
    """Largest relative error norm when `same_precision` is exact: one rounding to fp16."""
    return 5.0e-4
