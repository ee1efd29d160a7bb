"""TMA descriptors and the movement of boxes between global and shared memory.

The 128 bytes of a descriptor are not documented; their fields were found by comparing what CuTe DSL's host code
writes for known tensors (docs/ptxsim.md). Swizzling follows PTX ISA 5.5.7: 16-byte chunks are exchanged by an
exclusive or of address bits, so a box's place in shared memory is its linear place with those bits changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

DTYPE_BITS = {0: 8, 1: 16, 2: 32, 3: 32, 4: 64, 5: 64, 6: 16, 7: 32, 8: 32, 9: 64, 10: 16, 11: 4, 12: 4}
DTYPE_NAMES = {0: "u8", 1: "u2", 2: "u4", 3: "i4", 4: "u8", 5: "i8", 6: "f2", 7: "f4", 8: "f4", 9: "f8", 10: "bf16"}


@dataclass(frozen=True)
class TensorMap:
    """A decoded descriptor: address, sizes, byte strides and box per dimension (innermost first), element bits.

    swizzle is 0 to 3 (none, 32, 64, 128 bytes); atom 0, 1 or 3 (16-, 32-, 64-byte chunks kept whole).
    """

    address: int
    dtype: int
    bits: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    atom: int

    @property
    def padded(self) -> bool:
        """4-bit elements that take 16 bytes of shared memory for each 8 bytes of global memory."""
        return self.dtype == 12

    @property
    def inner_bytes(self) -> int:
        """Bytes of a box's row in global memory."""
        return self.box[0] * self.bits // 8

    @property
    def box_bytes(self) -> int:
        """Bytes a box takes in shared memory; what complete_tx counts, out-of-bounds elements included."""
        return int(np.prod(self.box[1:], dtype=np.int64)) * self.inner_bytes * (2 if self.padded else 1)


def _bits(value: int, at: int, width: int) -> int:
    return value >> at & ((1 << width) - 1)


@lru_cache(maxsize=4096)
def decode(raw: bytes) -> TensorMap:
    """The fields of a 128-byte descriptor. Raises ValueError for what is not understood."""
    v = int.from_bytes(raw[:64], "little")
    rank, dtype = _bits(v, 68, 3) + 1, _bits(v, 71, 4)
    if dtype not in DTYPE_BITS or rank > 5:
        raise ValueError(f"TMA descriptor with element type {dtype} and rank {rank}")
    strides = [_bits(v, 96 + 32 * k, 32) | _bits(v, 224 + 4 * k, 4) << 32 for k in range(4)]
    return TensorMap(
        _bits(v, 0, 64),
        dtype,
        DTYPE_BITS[dtype],
        tuple(_bits(v, 256 + 32 * k, 32) + 1 for k in range(rank)),
        (0, *(16 * s for s in strides[: rank - 1])),
        tuple(_bits(v, 440 + 8 * k, 8) + 1 for k in range(rank)),
        _bits(v, 77, 2),
        _bits(v, 83, 2),
    )


@lru_cache(maxsize=4096)
def places(start: int, nbytes: int, swizzle: int, atom: int) -> np.ndarray | None:
    """Index, in 16-byte chunks from `start` rounded down to 1024 bytes, of each chunk of a box; None when linear.

    start: shared offset of the box modulo 1024.
    """
    if swizzle == 0:
        return None
    chunk = (start >> 4) + np.arange(-(-nbytes // 16))
    if atom == 0:
        mask = (1 << swizzle) - 1
        return chunk ^ (chunk >> 3 & mask)
    if atom == 1 and swizzle == 3:  # 32-byte atoms: bits 5 and 6 against bits 7 and 8
        return chunk ^ ((chunk >> 3 & 3) << 1)
    if atom == 3 and swizzle == 3:
        return chunk ^ ((chunk >> 3 & 1) << 2)
    raise ValueError(f"TMA swizzle {swizzle} with atom {atom}")


def window(tm: TensorMap, coords: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[int, ...], tuple[int, ...]] | None:
    """(slices of the box inside the tensor, first coordinates, extents), innermost first; None when all is outside."""
    slices, first, extent = [], [], []
    for c, n, b in zip(coords, tm.sizes, tm.box, strict=False):
        lo, hi = max(0, -c), min(b, n - c)
        if lo >= hi:
            return None
        slices.append(slice(lo, hi))
        first.append(c + lo)
        extent.append(hi - lo)
    return tuple(slices), tuple(first), tuple(extent)


def region(tm: TensorMap, buffer: np.ndarray, base: int, first: tuple[int, ...], extent: tuple[int, ...]) -> np.ndarray:
    """The part of a tensor as a byte array view, outermost dimension first; `base` is the address of buffer[0]."""
    offset = (
        tm.address
        - base
        + first[0] * tm.bits // 8
        + sum(c * s for c, s in zip(first[1:], tm.strides[1:], strict=False))
    )
    shape = (*extent[:0:-1], extent[0] * tm.bits // 8)
    return np.ndarray(shape, np.uint8, buffer, offset, (*tm.strides[:0:-1], 1))


def last_byte(tm: TensorMap, first: tuple[int, ...], extent: tuple[int, ...]) -> tuple[int, int]:
    """(first address, one past the last address) that a region touches."""
    start = tm.address + first[0] * tm.bits // 8 + sum(c * s for c, s in zip(first[1:], tm.strides[1:], strict=False))
    end = start + sum((n - 1) * s for n, s in zip(extent[1:], tm.strides[1:], strict=False)) + extent[0] * tm.bits // 8
    return start, end
