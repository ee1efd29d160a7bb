"""Layouts of wgmma accumulators in registers and of TMA boxes in shared memory.

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
