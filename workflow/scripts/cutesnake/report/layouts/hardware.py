"""Layouts of accumulators in registers and tensor memory, and of TMA boxes in shared memory.

Thread-value layouts map (thread, value) to the column-major offset in the matrix. PTX ISA: «wgmma.mma_async».
"""

from __future__ import annotations

from cutesnake.report.layouts.algebra import Layout, Swizzle

SWIZZLES = {
    "none": None,
    "32 B": Swizzle(1, 4, 3),
    "64 B": Swizzle(2, 4, 3),
    "128 B": Swizzle(3, 4, 3),
}  # on byte offsets


def wgmma_accumulator(n: int) -> Layout:
    """Return the layout of D of wgmma.m64nNk*: 128 threads, N/2 values each."""
    return Layout(((4, 8, 4), (2, 2, n // 8)), ((128, 1, 16), (64, 8, 512)))


def box_in_shared_memory(rows: int, inner_bytes: int) -> Layout:
    """Return a TMA box before its swizzle: rows x 16-byte chunks -> byte."""
    return Layout((rows, max(inner_bytes // 16, 1)), (inner_bytes, 16))


def tensor_memory_place(m: int, n: int, ctas: int, row: int, column: int) -> tuple[int, int, int]:
    """Return CTA, lane and column of an element of D of tcgen05.mma.

    m, n: shape of D; ctas: 1, or 2 for a pair.
    PTX ISA: «tcgen05 data path layouts» A (M 256), B (M 128, two CTAs), D (M 128) and F (M 64).
    """
    cta, row = divmod(row, m // ctas)
    if m == 64:
        return cta, row % 16 + row // 16 * 32, column
    if m // ctas == 64:
        return cta, row + column // (n // 2) * 64, column % (n // 2)
    return cta, row, column
