"""Matrix operands in shared memory, by descriptors of wgmma and tcgen05.

Canonical layouts: PTX ISA, «Matrix descriptor» of wgmma and tcgen05, and CUTLASS's BSD headers
(mma_traits_sm90_gmma.hpp, mma_sm100_desc.hpp). In 16-byte chunks, with W = 1, 2, 4 or 8 chunks per swizzled row:

- K-major: ((8,n),c):((W,SBO),1 or LBO)
- MN-major: ((W,n),(8,k)):((1,LBO),(W,SBO))
- MN-major without swizzle: ((1,n),(8,k)):((-,SBO),(1,LBO))
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from .address import SHARED_BASE

_WIDTH = {0: 1, 3: 2, 2: 4, 1: 8}  # wgmma's layout field: none, 32, 64, 128 bytes
_WIDTH_SM100 = {0: 1, 6: 2, 4: 4, 2: 8, 1: 8}


@dataclass(frozen=True)
class Matrix:
    """A decoded descriptor: start, leading and stride offsets in bytes, swizzle.

    The start is a byte offset in the CTA's shared window. The swizzle is the number of chunks per row, and whether
    128-byte rows are swizzled in 32-byte atoms.
    """

    start: int
    lbo: int
    sbo: int
    width: int
    wide_atom: bool


@lru_cache(maxsize=65536)
def matrix(desc: int, sm100: bool) -> Matrix:
    """Decode a 64-bit shared-memory descriptor. Raises ValueError for an unknown layout."""
    layout = desc >> 61 & 7 if sm100 else desc >> 62 & 3
    table = _WIDTH_SM100 if sm100 else _WIDTH
    if layout not in table or desc >> 49 & 7 or (sm100 and desc >> 52 & 1):
        raise ValueError(f"shared-memory descriptor {desc:#x}")
    return Matrix(
        (desc & 0x3FFF) << 4,
        (desc >> 16 & 0x3FFF) << 4,
        (desc >> 32 & 0x3FFF) << 4,
        table[layout],
        sm100 and layout == 1,
    )


@lru_cache(maxsize=4096)
def _chunks(
    low: int, lbo: int, sbo: int, width: int, wide_atom: bool, mn_major: bool, rows: int, row_chunks: int
) -> np.ndarray:
    """Return chunk numbers (rows, row_chunks) from the start rounded down to 1024 bytes.

    `low` is the start modulo 1024. K-major: a row is one M or N index, its chunks run along K. MN-major: a row is one K
    index, its chunks run along M or N.
    """
    r, c = np.arange(rows)[:, None], np.arange(row_chunks)[None, :]
    lbo, sbo = lbo // 16, sbo // 16
    if wide_atom:
        chunk = c % 8 + c // 8 * lbo + r % 4 * 8 + r // 4 * sbo if mn_major else None
        if chunk is None:
            raise ValueError("32-byte swizzle atoms exist for MN-major operands only")
    elif not mn_major:
        chunk = r % 8 * width + r // 8 * sbo + c * (lbo if width == 1 else 1)
    elif width == 1:
        chunk = c * sbo + r % 8 + r // 8 * lbo
    else:
        chunk = c % width + c // width * lbo + r % 8 * width + r // 8 * sbo
    chunk = chunk + low // 16
    if wide_atom:
        return chunk ^ ((chunk >> 3 & 3) << 1)
    mask = {1: 0, 2: 1, 4: 3, 8: 7}[width]
    return chunk ^ (chunk >> 3 & mask)


@dataclass(frozen=True, eq=False)
class Chunks:
    """Numbers of 16-byte chunks, their minimum and maximum; do not modify the array."""

    numbers: np.ndarray
    least: int
    greatest: int

    @cached_property
    def words(self) -> np.ndarray:
        """The numbers of the chunks' 4-byte words."""
        return (self.numbers.reshape(-1, 1) * 4 + np.arange(4)).ravel()


@lru_cache(maxsize=2048)
def chunks(m: Matrix, mn_major: bool, extent: int, k: int, bits: int) -> Chunks:
    """Return the chunks of an operand within the CTA's shared array, which begins at SHARED_BASE."""
    rows, per = (extent, k * bits // 128) if not mn_major else (k, extent * bits // 128)
    low = m.start % 1024
    base = (m.start - low - SHARED_BASE) // 16
    index = base + _chunks(low, m.lbo, m.sbo, m.width, m.wide_atom, mn_major, rows, per)
    return Chunks(index, int(index.min()), int(index.max()))


@lru_cache(maxsize=4096)
def quarter(of: Chunks, n: int, mn_major: bool) -> Chunks:
    """Return the chunks of the n-th quarter of an operand's rows."""
    numbers = np.array_split(of.numbers, 4, axis=int(mn_major))[n]
    return Chunks(numbers, int(numbers.min()), int(numbers.max()))


def gather(shared: np.ndarray, m: Matrix, mn_major: bool, extent: int, k: int, bits: int) -> tuple[np.ndarray, Chunks]:
    """Return (bytes, chunks) of an operand.

    Bytes are (extent, k*bits/8) K-major, or (k, extent*bits/8) MN-major.
    Raises IndexError if it reaches outside the CTA's shared memory.
    """
    operand_chunks = chunks(m, mn_major, extent, k, bits)
    words = shared.view(np.uint64).reshape(-1, 2)
    if operand_chunks.least < 0 or operand_chunks.greatest >= len(words):
        reached = f"reaches chunk {operand_chunks.greatest} of {len(words)}"
        raise IndexError(f"operand at shared offset {m.start - SHARED_BASE} {reached}")
    return words[operand_chunks.numbers].reshape(len(operand_chunks.numbers), -1).view(np.uint8), operand_chunks
