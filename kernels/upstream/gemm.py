"""Shared code of adapters of NVIDIA's GEMM classes.

It has element types, tensors as the classes take them, and grids. The classes of CUTLASS's examples compute C = A B^T
on tensors A (M, K, L), B (N, K, L) and C (M, N, L), L being the batch. Their `major` is the mode whose elements lie
next to each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernels.targets import MULTIPROCESSORS

if TYPE_CHECKING:
    import torch

# Names of the workloads' element types, and of some that only tests build for -> names in `cutlass`
ELEMENTS = {
    "bf16": "BFloat16",
    "fp16": "Float16",
    "fp32": "Float32",
    "tf32": "TFloat32",
    "fp8": "Float8E4M3FN",
    "e5m2": "Float8E5M2",
    "int8": "Int8",
    "uint8": "Uint8",
    "int32": "Int32",
}
ALIGNMENT = 16  # bytes: what TMA asks of the address and of every stride but the contiguous one


@dataclass(frozen=True)
class Tiling:
    """Elements of C of a CTA, or of a CTA `pair`; CTAs of a cluster."""

    m: int
    n: int
    cluster: tuple[int, int]
    pair: bool = False

    @property
    def id(self) -> str:
        return f"{self.m}x{self.n}_c{self.cluster[0]}x{self.cluster[1]}"


def cluster_params(target: str, cluster: tuple[int, int]) -> dict[str, int]:
    """Return a variant's CTAs along M and N, and clusters that a GPU holds."""
    along_m, along_n = cluster
    most = MULTIPROCESSORS[target] // (along_m * along_n)
    return {"cluster_m": along_m, "cluster_n": along_n, "most_clusters": most}


def element(name: str) -> Any:
    """Return the type of `cutlass` for an element type of the workloads."""
    import cutlass

    return getattr(cutlass, ELEMENTS[name])


def fake(name: str, first_major: bool = False, alignment: int = ALIGNMENT) -> Any:
    """Return a fake compact tensor (rows, columns, batch) with dynamic extents.

    Rows are contiguous (columns have stride 1) unless `first_major`: then the first mode has stride 1.
    """
    import cutlass.cute as cute
    from cutlass.cute.runtime import make_fake_compact_tensor

    order = (0, 1, 2) if first_major else (1, 0, 2)
    sizes = tuple(cute.sym_int32() for _ in range(3))
    return make_fake_compact_tensor(element(name), sizes, stride_order=order, assumed_align=alignment)


def operand(stored: torch.Tensor, first_major: bool = False) -> torch.Tensor:
    """View (batch, rows, columns), or `first_major` (batch, columns, rows), as (rows, columns, batch)."""
    return stored.permute(2, 1, 0) if first_major else stored.permute(1, 2, 0)


def misaligned(extent: int, bits: int) -> bool:
    """Whether rows of `extent` elements would start off the 16 bytes that TMA asks for."""
    return extent * bits % (8 * ALIGNMENT) != 0


def refused_rows(*rows: tuple[str, int, int, str]) -> str | None:
    """In a sentence, the first rows that TMA cannot take; None if it takes all.

    Each is given by the workload's field that says how long it is, its elements, their bits, and its tensors' names.
    """
    for name, extent, bits, tensors in rows:
        if misaligned(extent, bits):
            return f"{name} is {extent}: TMA takes rows of {tensors} in multiples of {ALIGNMENT} bytes"
    return None


def clusters(m: int, n: int, batch: int, cta_tile: tuple[int, int], cluster: tuple[int, int]) -> tuple[int, int, int]:
    """Return the clusters of `cta_tile` CTAs along M, N and L that cover C."""
    along_m = -(-m // (cta_tile[0] * cluster[0]))
    along_n = -(-n // (cta_tile[1] * cluster[1]))
    return along_m, along_n, batch


def tile_grid(m: int, n: int, batch: int, cta_tile: tuple[int, int], cluster: tuple[int, int]) -> tuple[int, int, int]:
    """Return a CTA per tile, rounded up to whole clusters, also for dynamic schedulers."""
    along_m, along_n, along_l = clusters(m, n, batch, cta_tile, cluster)
    return along_m * cluster[0], along_n * cluster[1], along_l


def persistent_grid(
    m: int, n: int, batch: int, cta_tile: tuple[int, int], cluster: tuple[int, int], most_clusters: int
) -> tuple[int, int, int]:
    """CTAs of a launch of `utils.StaticPersistentTileScheduler`: at most `most_clusters` clusters, side by side."""
    along_m, along_n, along_l = clusters(m, n, batch, cta_tile, cluster)
    return *cluster, min(along_m * along_n * along_l, most_clusters)
