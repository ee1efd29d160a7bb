"""Shared limits and tile of kernels over the elements of a row-major matrix.

The tile of vectors is NVIDIA's.
"""

from __future__ import annotations

from typing import Protocol

MOST_ELEMENTS = 2**31 - 2**14  # no tile has 2^14 elements
VECTOR_BYTES = 16
TILE = (16, 32)  # rows, and vectors of a row: (4, 32) threads of (4, vector) values, as in NVIDIA's examples
WIDEST = 256  # elements of a row of a tile, of the narrowest type


class Matrix(Protocol):
    """A workload over one."""

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> int: ...


def refuse_extents(matrix: Matrix) -> str | None:
    """Return why cuTile's 32-bit extents cannot hold a matrix, or None."""
    return "extents are 32-bit in cuTile" if max(matrix.rows, matrix.columns) >= 2**31 else None


def refuse_count(elements: int) -> str | None:
    """Return why 32 bits cannot count so many elements, or None.

    A partial last tile counts in full.
    """
    if elements > MOST_ELEMENTS:
        return f"the kernel counts elements in 32 bits and takes up to {MOST_ELEMENTS:,}"
    return None


def refuse_coordinates(matrix: Matrix) -> str | None:
    """Do as `refuse_count` for a matrix, including the partial tiles at its ends."""
    return refuse_count((matrix.rows + TILE[0]) * (matrix.columns + WIDEST))


def tiles(matrix: Matrix, element_bytes: int) -> int:
    """Return the tiles of 16 rows by 32 vectors that cover a matrix."""
    return -(-matrix.rows // TILE[0]) * -(-matrix.columns // (TILE[1] * VECTOR_BYTES // element_bytes))
