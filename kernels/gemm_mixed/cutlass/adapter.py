"""What the adapters of NVIDIA's mixed-input GEMM examples share: variants, compilation, launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.gemm_mixed.operator import BITS, Inputs, Outputs, Workload
from kernels.gemm_mixed_grouped.operator import Inputs as GroupedInputs
from kernels.gemm_mixed_grouped.operator import Outputs as GroupedOutputs
from kernels.gemm_mixed_grouped.operator import Workload as Grouped
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream import examples
from kernels.upstream import gemm as upstream

if TYPE_CHECKING:
    import torch

    from kernels.matrices import Groups, Product


@dataclass(frozen=True)
class Tiling:
    """Rows of B and A and depth of a CTA's or CTA `pair`'s products; cluster."""

    m: int
    n: int
    k: int
    cluster: tuple[int, int]
    pair: bool = False

    @property
    def id(self) -> str:
        return f"{self.m}x{self.n}x{self.k}_c{self.cluster[0]}x{self.cluster[1]}"


# Of the product without groups. The depth divides the blocks of int4 that share a scale.
TILINGS = (Tiling(256, 128, 128, (2, 1), pair=True), Tiling(128, 128, 128, (1, 1)), Tiling(128, 64, 128, (1, 1)))


@dataclass(frozen=True)
class Example(examples.Example):
    """A class of NVIDIA's examples, or `batch_first` one of nvidia-cutlass-operators."""

    PROGRAM = "kernels.gemm_mixed.cutlass.program:program"
    tilings: tuple[Tiling, ...] = TILINGS
    batch_first: bool = False

    @not_baked
    def supports(self, workload: Product | Groups) -> str | None:
        """All whose rows are whole multiples of 16 bytes, which TMA asks for.

        NVIDIA's examples say that they are for weights of int8, uint8 and int4. They compile for fp8 weights as well,
        and are right with them in the simulator.
        """
        w = workload
        return upstream.refused_rows(
            ("k", w.k, BITS[w.dtype], "B"), ("k", w.k, 16, "A"), ("n", w.n, 16, "C and scales")
        )

    @not_baked
    def variants(self, workload: Product | Groups, target: str) -> tuple[Variant, ...]:
        """Return a build per element type, tiling and number of groups, a constant."""
        dtype, groups = workload.dtype, getattr(workload, "groups", 0)
        return tuple(
            Variant(
                f"{dtype}_" + f"g{groups}_" * (groups > 0) + tiling.id,
                {
                    "dtype": dtype,
                    "groups": groups,
                    "tile_m": tiling.m,
                    "tile_n": tiling.n,
                    "tile_k": tiling.k,
                    "pair": tiling.pair,
                    **upstream.cluster_params("sm_100a", tiling.cluster),  # an sm_103a GPU has as many multiprocessors
                },
            )
            for tiling in self.tilings
        )

    @property
    def chosen(self) -> tuple[Any, ...]:
        return (self.batch_first,)


@not_baked
def arguments(
    a: torch.Tensor, b: torch.Tensor, scales: torch.Tensor | None, ends: torch.Tensor | None, c: torch.Tensor
) -> tuple[torch.Tensor | None, ...]:
    """Return tensors as views with the groups, or a batch of one, last.

    b and scales are [groups, …], the others one matrix. `scales` [groups, blocks, n] become (n, blocks, groups), and c
    [m, n] (n, m, 1).
    """
    narrow = upstream.operand(b)
    factors = None if scales is None else upstream.operand(scales, first_major=True)
    return narrow, factors, upstream.operand(a[None]), ends, upstream.operand(c[None], first_major=True)


@not_baked
def grid(build: Build, m: int, n: int) -> tuple[int, int, int]:
    """Return at most as many clusters as fit at once, with groups always as many."""
    p = build.params
    if p["groups"]:
        return p["cluster_m"], p["cluster_n"], p["most_clusters"]
    cta_tile, cluster = (p["tile_m"] // (2 if p["pair"] else 1), p["tile_n"]), (p["cluster_m"], p["cluster_n"])
    return upstream.persistent_grid(n, m, 1, cta_tile, cluster, p["most_clusters"])


@not_baked
def bind_groups(build: Build, workload: Grouped, inputs: GroupedInputs, outputs: GroupedOutputs) -> Runner:
    """Bind the tensors of the grouped product without copies, as views."""
    w, i = workload, inputs
    if w.groups != build.params["groups"]:
        raise ValueError(f"this build is for {build.params['groups']} groups, not {w.groups}")
    values = arguments(i.a, i.b, i.b_scales if w.plain.scaled else None, i.starts, outputs.c)
    return build.runner(values, grid(build, w.rows, w.n))


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind the tensors of the product without groups without copies, as views."""
    scales = inputs.b_scales[None] if workload.scaled else None
    values = arguments(inputs.a, inputs.b[None], scales, None, outputs.c)
    return build.runner(values, grid(build, workload.m, workload.n))
