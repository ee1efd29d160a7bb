"""What the adapters of NVIDIA's blockwise GEMM examples share: variants, compilation, grids.

The examples are `blockwise_gemm`, `contiguous_grouped_gemm` and `masked_grouped_gemm`, which take the same operands;
the grouped ones take a tensor of whole numbers besides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Variant, not_baked
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream import examples
from kernels.upstream import gemm as upstream

if TYPE_CHECKING:
    import torch

    from kernels.matrices import Groups, Product

TILE_N = 128  # all that the examples take: a block of B's scales


@dataclass(frozen=True)
class Tiling:
    """Rows of C of a CTA, or of a CTA `pair`; CTAs of a cluster."""

    m: int
    cluster: tuple[int, int]
    pair: bool = False

    @property
    def id(self) -> str:
        return f"{self.m}x{TILE_N}_c{self.cluster[0]}x{self.cluster[1]}" + "_pair" * self.pair


@dataclass(frozen=True)
class Example(examples.Example):
    """A class of NVIDIA's examples; `indexed` ones take integers after the scales."""

    PROGRAM = "kernels.gemm_blockwise.cutlass.program:program"
    tilings: tuple[Tiling, ...]
    indexed: bool = False

    @not_baked
    def supports(self, workload: Product | Groups) -> str | None:
        """All of fp8 whose rows are whole multiples of 16 bytes, which TMA asks for."""
        w = workload
        if w.dtype != "fp8":
            return f"dtype is {w.dtype}: NVIDIA's example takes fp8 with scales"
        return upstream.refused_rows(("k", w.k, 8, "A and B"), ("n", w.n, 16, "C"))

    @not_baked
    def variants(self, workload: Product | Groups, target: str) -> tuple[Variant, ...]:
        """Return a build per tiling, which serves every size."""
        dtype = workload.dtype
        return tuple(
            Variant(
                f"{dtype}_{tiling.id}",
                {
                    "dtype": dtype,
                    "tile_m": tiling.m,
                    "pair": tiling.pair,
                    **upstream.cluster_params("sm_100a", tiling.cluster),  # an sm_103a GPU has as many multiprocessors
                },
            )
            for tiling in self.tilings
        )

    @property
    def chosen(self) -> tuple[Any, ...]:
        return (self.indexed,)


@not_baked
def operands(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, a_scales: torch.Tensor, b_scales: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """View batched tensors with the batch last; scales of A become (rows, blocks, batch)."""
    plain = tuple(upstream.operand(x) for x in (a, b, c))
    return *plain, upstream.operand(a_scales, first_major=True), upstream.operand(b_scales)


@not_baked
def grid(build: Build, m: int, n: int, batch: int) -> tuple[int, int, int]:
    """Return the CTAs for `batch` matrices, at most as many clusters as fit."""
    p = build.params
    cta_tile, cluster = (p["tile_m"] // (2 if p["pair"] else 1), TILE_N), (p["cluster_m"], p["cluster_n"])
    return upstream.persistent_grid(m, n, batch, cta_tile, cluster, p["most_clusters"])
