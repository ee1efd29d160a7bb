"""What kernels over the elements of a row-major matrix share: how large it may be, and NVIDIA's tile of vectors."""

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


def beyond_extents(matrix: Matrix) -> str | None:
    """Why cuTile's 32-bit extents cannot hold a matrix, or None."""
    return "extents are 32-bit in cuTile" if max(matrix.rows, matrix.columns) >= 2**31 else None


def beyond_count(elements: int) -> str | None:
    """Why 32 bits cannot count so many elements, with those of a last tile that reaches past the end, or None."""
    if elements > MOST_ELEMENTS:
        return f"the kernel counts elements in 32 bits and takes up to {MOST_ELEMENTS:,}"
    return None


def beyond_coordinates(matrix: Matrix) -> str | None:
    """As above, for a matrix whose tiles reach past the ends of rows and columns."""
    return beyond_count((matrix.rows + TILE[0]) * (matrix.columns + WIDEST))


def tiles(matrix: Matrix, element_bytes: int) -> int:
    """Tiles of 16 rows by 32 vectors that cover a matrix of elements of so many bytes."""
    return -(-matrix.rows // TILE[0]) * -(-matrix.columns // (TILE[1] * VECTOR_BYTES // element_bytes))
