"""Workloads over row-major matrices, kernels' limits, and the vector tile of NVIDIA's examples."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from cutesnake.model.workload import require_choice, require_sizes

MOST_ELEMENTS = 2**31 - 2**14  # no tile has 2^14 elements
VECTOR_BYTES = 16
TILE = (16, 32)  # rows, and vectors of a row: (4, 32) threads of (4, vector) values, as in NVIDIA's examples
WIDEST = 256  # elements of a row of a tile, of the narrowest type


@dataclass(frozen=True)
class Matrix:
    """A row-major matrix of `rows` x `columns` elements of `dtype`, one of TYPES."""

    TYPES: ClassVar[Iterable[str]]
    rows: int
    columns: int
    dtype: str = "fp32"

    def __post_init__(self) -> None:
        require_sizes(self, "rows", "columns")
        require_choice("dtype", self.dtype, self.TYPES)

    @property
    def id(self) -> str:
        return f"m{self.rows}_n{self.columns}_{self.dtype}"


@dataclass(frozen=True)
class Product:
    """A product of `m` x `k` by transposed `n` x `k` matrices of `dtype`."""

    TYPES: ClassVar[Iterable[str]]
    m: int
    n: int
    k: int
    dtype: str

    def __post_init__(self) -> None:
        require_sizes(self, "m", "n", "k")
        require_choice("dtype", self.dtype, self.TYPES)

    @property
    def id(self) -> str:
        return f"m{self.m}_n{self.n}_k{self.k}_{self.dtype}"


@dataclass(frozen=True)
class Groups:
    """`groups` products of about `m` x `k` by transposed `n` x `k` matrices.

    How the groups differ in size is one of SIZES, the default first; `dtype` is one of TYPES.
    """

    TYPES: ClassVar[Iterable[str]]
    SIZES: ClassVar[tuple[str, ...]] = ("even", "uneven")
    groups: int
    m: int
    n: int
    k: int
    sizes: str
    dtype: str

    def __post_init__(self) -> None:
        require_sizes(self, "groups", "m", "n", "k")
        require_choice("sizes", self.sizes, self.SIZES)
        require_choice("dtype", self.dtype, self.TYPES)

    @property
    def id(self) -> str:
        sizes = f"_{self.sizes}" * (self.sizes != self.SIZES[0])
        return f"g{self.groups}_m{self.m}_n{self.n}_k{self.k}{sizes}_{self.dtype}"


def refuse_extents(matrix: Matrix) -> str | None:
    """Return why cuTile's 32-bit extents cannot hold a matrix, or None."""
    return "extents are 32-bit in cuTile" if max(matrix.rows, matrix.columns) >= 2**31 else None


def refuse_count(elements: int) -> str | None:
    """Return why 32 bits cannot count the elements, the last tile in full."""
    if elements > MOST_ELEMENTS:
        return f"the kernel counts elements in 32 bits and takes up to {MOST_ELEMENTS:,}"
    return None


def refuse_coordinates(matrix: Matrix) -> str | None:
    """Do as `refuse_count` for a matrix, including the partial tiles at its ends."""
    return refuse_count((matrix.rows + TILE[0]) * (matrix.columns + WIDEST))


def tiles(matrix: Matrix, element_bytes: int) -> int:
    """Return the tiles of 16 rows by 32 vectors that cover a matrix."""
    return -(-matrix.rows // TILE[0]) * -(-matrix.columns // (TILE[1] * VECTOR_BYTES // element_bytes))
