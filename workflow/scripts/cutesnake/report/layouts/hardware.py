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
SWIZZLE_BYTES = (128, 64, 32)  # of a row of a swizzle's atom
LANES, COLUMNS = 128, 512  # of an SM's tensor memory; a cell has 32 bits (PTX ISA: «Tensor memory addressing»)
MOST_BOX = 256  # elements along a dimension of a TMA box (CUDA driver API: cuTensorMapEncodeTiled)
DEPTH_BITS = 256  # of K that one tcgen05.mma covers (PTX ISA: «Matrix shape»)


def wgmma_accumulator(n: int) -> Layout:
    """Return the layout of D of wgmma.m64nNk*: 128 threads, N/2 values each."""
    return Layout(((4, 8, 4), (2, 2, n // 8)), ((128, 1, 16), (64, 8, 512)))


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


def accumulator_columns(m: int, n: int, ctas: int) -> int:
    """Return the columns of tensor memory that D of tcgen05.mma takes in each CTA."""
    return 1 + max(tensor_memory_place(m, n, ctas, 0, column)[2] for column in (0, n // 2 - 1, n - 1))


def most_box_elements(bits: int, swizzle_bytes: int) -> int:
    """Return the largest inner extent of a TMA box of elements of `bits` bits."""
    return min(MOST_BOX, swizzle_bytes * 8 // bits)


def product_depth(bits: int) -> int:
    """Return K of one tcgen05.mma on packed elements of `bits` bits."""
    return DEPTH_BITS // bits


def scale_factor_place(row: int, group: int) -> int:
    """Return the byte of a scale factor in its atom of 512 bytes.

    row: of 128 rows of A or B. group: of four along K. Line byte // 16 of the atom in shared memory becomes a lane of
    tensor memory, word byte // 4 % 4 a column (PTX ISA: «tcgen05.mma scale factor A layout», `scale_vec::4X`).
    """
    return row % 32 * 16 + row // 32 * 4 + group
