"""How matrix products and TMA boxes lie in registers, tensor memory and shared memory, as layouts.

Thread-value layouts map (thread, value) to the column-major place in the matrix. PTX ISA: «wgmma.mma_async»,
«mma.m16n8k16», «tcgen05: tensor memory».
"""

from __future__ import annotations

from cutesnake.layouts.algebra import Layout, Swizzle

SWIZZLES = {"none": None, "32 B": Swizzle(1, 4, 3), "64 B": Swizzle(2, 4, 3), "128 B": Swizzle(3, 4, 3)}  # of bytes


def wgmma_accumulator(n: int) -> Layout:
    """D of wgmma.m64nNk*: 128 threads, N/2 values each, over 64 x N."""
    return Layout(((4, 8, 4), (2, 2, n // 8)), ((128, 1, 16), (64, 8, 512)))


def wgmma_operand_a(element_bits: int) -> Layout:
    """A of wgmma in registers: 128 threads over 64 x (256 / bits) of 16-bit elements or others of 32 bytes a row."""
    pair = 32 // element_bits
    return Layout(((4, 8, 4), (pair, 2, 2)), ((64 * pair, 1, 16), (64, 8, 256 * pair)))


def mma_sync_accumulator() -> Layout:
    """D of mma.m16n8k*: 32 threads, four values each, over 16 x 8."""
    return Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))


def tensor_memory_accumulator(n: int) -> Layout:
    """D of tcgen05.mma with M = 128: lane and column of tensor memory over 128 x N; a lane is a row."""
    return Layout((128, n), (1, 128))


def box_in_shared_memory(rows: int, inner_bytes: int) -> Layout:
    """A TMA box in shared memory before its swizzle: rows x 16-byte chunks -> byte."""
    return Layout((rows, max(inner_bytes // 16, 1)), (inner_bytes, 16))
