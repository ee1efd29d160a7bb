"""How wgmma's accumulators lie in registers and TMA boxes in shared memory, as layouts.

Thread-value layouts map (thread, value) to the column-major place in the matrix. PTX ISA: «wgmma.mma_async».
"""

from __future__ import annotations

from cutesnake.report.layouts.algebra import Layout, Swizzle

SWIZZLES = {"none": None, "32 B": Swizzle(1, 4, 3), "64 B": Swizzle(2, 4, 3), "128 B": Swizzle(3, 4, 3)}  # of bytes


def wgmma_accumulator(n: int) -> Layout:
    """D of wgmma.m64nNk*: 128 threads, N/2 values each, over 64 x N."""
    return Layout(((4, 8, 4), (2, 2, n // 8)), ((128, 1, 16), (64, 8, 512)))


def box_in_shared_memory(rows: int, inner_bytes: int) -> Layout:
    """A TMA box in shared memory before its swizzle: rows x 16-byte chunks -> byte."""
    return Layout((rows, max(inner_bytes // 16, 1)), (inner_bytes, 16))
