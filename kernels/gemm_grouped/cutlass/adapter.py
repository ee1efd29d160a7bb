"""Shared code of the adapters of NVIDIA's grouped GEMM examples.

It has variants, compilation, and tables of addresses and sizes. The examples read each group's sizes, strides and
addresses from tables on the GPU, change copies of their TMA descriptors accordingly, and find out by themselves which
tiles there are: a build serves all sizes, and every launch has as many clusters as fit on the GPU. The one for Hopper
wants to know how many tiles there are when it is compiled: a cluster that starts without a tile of its own never ends
(seen in ptxsim, and its source says why).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.gemm_grouped.operator import Inputs, Outputs, Workload, matrices, results
from kernels.targets import MULTIPROCESSORS
from kernels.upstream import examples
from kernels.upstream import gemm as upstream
from kernels.upstream.gemm import Tiling

if TYPE_CHECKING:
    import torch

TILINGS = (Tiling(128, 128, (1, 1)), Tiling(256, 128, (2, 1), pair=True), Tiling(256, 256, (2, 1), pair=True))
DESCRIPTOR_WORDS = 16  # of 8 bytes: a TMA descriptor
TEMPLATE = 32  # rows and columns of the tensors that give descriptors their element type and majors


@dataclass(frozen=True)
class Example(examples.Example):
    """A class of NVIDIA's examples, as a kernel; `takes` is `plain`, `scaled` or `hopper`."""

    PROGRAM = "kernels.gemm_grouped.cutlass.program:program"
    takes: str
    tilings: tuple[Tiling, ...]

    @not_baked
    def supports(self, workload: Workload) -> str | None:
        if workload.scaled == (self.takes == "scaled"):
            return None
        return f"NVIDIA's example takes {'16-bit operands' if workload.scaled else 'operands with a scale per block'}"

    @not_baked
    def variants(self, workload: Workload, target: str) -> tuple[Variant, ...]:
        """Return a build per element type, tiling and number of groups, a constant."""
        w, counted = workload, target == "sm_90a"
        return tuple(
            Variant(
                (w.id if counted else f"{w.dtype}_g{w.groups}") + f"_{tiling.id}",
                {
                    "dtype": w.dtype,
                    "groups": w.groups,
                    "tile_m": tiling.m,
                    "tile_n": tiling.n,
                    "pair": tiling.pair,
                    **upstream.cluster_params(target, tiling.cluster),
                    "processors": MULTIPROCESSORS[target],
                    "tiles": clusters(tiling, w) if counted else 0,  # 0: as many clusters as fit on the GPU
                },
            )
            for tiling in self.tilings
        )

    @property
    def chosen(self) -> tuple[Any, ...]:
        return (self.takes,)

    @not_baked
    def bind(self, build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
        """Bind tables of addresses and room for descriptors, which are made here once."""
        w, p = workload, build.params
        if w.groups != p["groups"]:
            raise ValueError(f"this build is for {p['groups']} groups, not {w.groups}")
        if p["tiles"] and p["tiles"] != (tiles := clusters(_tiling(p), w)):
            raise ValueError(f"this build is for {p['tiles']} clusters' tiles, not {tiles}")
        sizes, strides, addresses, scales = tables(inputs, outputs, w)
        arguments: tuple[Any, ...] = (inputs.a, inputs.b, outputs.c)
        if self.takes == "scaled":
            arguments = (*arguments, inputs.a_scales, inputs.b_scales, sizes, strides, addresses, scales)
        else:
            arguments = (*arguments, sizes, strides, addresses)
        kinds = 5 if self.takes == "scaled" else 3  # TMA descriptors per multiprocessor: A, B and C, and of scales
        grid = (p["cluster_m"], p["cluster_n"], min(p["tiles"] or p["most_clusters"], p["most_clusters"]))
        return build.runner((*arguments, descriptors(p["processors"], kinds, outputs.c.device), TEMPLATE), grid)


@not_baked
def clusters(tiling: Tiling, workload: Workload) -> int:
    """Clusters that cover C of all groups."""
    cta_tile = (tiling.m // 2 if tiling.pair else tiling.m, tiling.n)
    return sum(math.prod(upstream.clusters(p.m, p.n, 1, cta_tile, tiling.cluster)) for p in workload.problems)


@not_baked
def tables(inputs: Inputs, outputs: Outputs, workload: Workload) -> tuple[torch.Tensor, ...]:
    """Return tables of sizes, strides and addresses of A, B, C and scales.

    Sizes are (groups, 4), strides (groups, 3, 2), addresses (groups, 3), those for scales (groups, 2).
    """
    import torch

    device, problems = outputs.c.device, workload.problems
    sizes = [(p.m, p.n, p.k, 1) for p in problems]
    strides = [((p.k, 1), (p.k, 1), (p.n, 1)) for p in problems]
    groups = list(zip(matrices(inputs, workload), results(outputs, workload), strict=True))
    addresses = [(group[0].data_ptr(), group[1].data_ptr(), c.data_ptr()) for group, c in groups]
    scales = [tuple(x.data_ptr() for x in group[2:]) for group, _ in groups]
    whole = [torch.tensor(x, dtype=torch.int32, device=device) for x in (sizes, strides)]
    return *whole, *(torch.tensor(x, dtype=torch.int64, device=device) for x in (addresses, scales))


@not_baked
def _tiling(params: Mapping[str, Any]) -> Tiling:
    p = params
    return Tiling(p["tile_m"], p["tile_n"], (p["cluster_m"], p["cluster_n"]), p["pair"])


@not_baked
def descriptors(processors: int, kinds: int, device: torch.device) -> torch.Tensor:
    """Allocate room for `kinds` TMA descriptors per multiprocessor, aligned to 128 bytes."""
    import torch

    words = processors * kinds * DESCRIPTOR_WORDS
    room = torch.zeros(words + DESCRIPTOR_WORDS, dtype=torch.int64, device=device)
    begin = -room.data_ptr() % (8 * DESCRIPTOR_WORDS) // 8
    return room[begin : begin + words].view(processors, kinds, DESCRIPTOR_WORDS)
