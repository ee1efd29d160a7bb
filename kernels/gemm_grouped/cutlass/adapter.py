"""What the adapters of NVIDIA's grouped GEMM examples share: variants, compilation, tables of addresses and sizes.

The examples read each group's sizes, strides and addresses from tables on the card, change copies of their TMA
descriptors accordingly, and find out by themselves which tiles there are: a build serves all sizes, and every launch
has as many clusters as fit on the card.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.contract import Build, Runner, Variant, not_baked

if TYPE_CHECKING:
    import torch

    from kernels.gemm_grouped.operator import Inputs, Outputs, Workload

MULTIPROCESSORS = 148  # of a B200 or B300; NVIDIA's runner asks the device
FUNCTION = "gemm"
DESCRIPTOR_WORDS = 16  # of 8 bytes: a TMA descriptor
TEMPLATE = 32  # rows and columns of the tensors that give descriptors their element type and majors


@dataclass(frozen=True)
class Example:
    """A class of NVIDIA's examples; `scaled` where operands have a scale per block."""

    path: str  # below the folder of examples
    name: str
    scaled: bool


@dataclass(frozen=True)
class Tiling:
    """Elements of C that a CTA computes, or a pair of CTAs together where `pair`; CTAs of a cluster along M and N."""

    m: int
    n: int
    cluster: tuple[int, int]
    pair: bool = False

    @property
    def id(self) -> str:
        return f"{self.m}x{self.n}_c{self.cluster[0]}x{self.cluster[1]}"


@not_baked
def variants(workload: Workload, tilings: tuple[Tiling, ...]) -> tuple[Variant, ...]:
    """A build per element type, tiling and number of groups, which is a constant of NVIDIA's kernels."""
    w = workload
    return tuple(
        Variant(
            f"{w.dtype}_g{w.groups}_{tiling.id}",
            {
                "dtype": w.dtype,
                "groups": w.groups,
                "tile_m": tiling.m,
                "tile_n": tiling.n,
                "pair": tiling.pair,
                "cluster_m": tiling.cluster[0],
                "cluster_n": tiling.cluster[1],
                "most_clusters": MULTIPROCESSORS // (tiling.cluster[0] * tiling.cluster[1]),
            },
        )
        for tiling in tilings
    )


def compile(example: Example, variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.build import cute as cute_build

    def program() -> tuple[Any, tuple[Any, ...]]:
        from kernels.gemm_grouped.cutlass import program as cutlass_program

        return cutlass_program.program(example.path, example.name, example.scaled, dict(variant.params))

    return cute_build.build(program, FUNCTION, target, folder)


@not_baked
def tables(inputs: Inputs, outputs: Outputs, workload: Workload) -> tuple[torch.Tensor, ...]:
    """Sizes (groups, 4), strides (groups, 3, 2) and addresses (groups, 3) of A, B and C; of scales (groups, 2)."""
    import torch

    from kernels.gemm_grouped.operator import matrices, results

    device, problems = outputs.c.device, workload.problems
    sizes = [(p.m, p.n, p.k, 1) for p in problems]
    strides = [((p.k, 1), (p.k, 1), (p.n, 1)) for p in problems]
    groups = list(zip(matrices(inputs, workload), results(outputs, workload), strict=True))
    addresses = [(group[0].data_ptr(), group[1].data_ptr(), c.data_ptr()) for group, c in groups]
    scales = [tuple(x.data_ptr() for x in group[2:]) for group, _ in groups]
    whole = [torch.tensor(x, dtype=torch.int32, device=device) for x in (sizes, strides)]
    return *whole, *(torch.tensor(x, dtype=torch.int64, device=device) for x in (addresses, scales))


@not_baked
def bind(example: Example, build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Tables of what lies where, and room for the descriptors of each multiprocessor, are made here once."""
    from cutesnake.load.cute import Call

    w, p = workload, build.params
    if w.groups != p["groups"]:
        raise ValueError(f"this build is for {p['groups']} groups, not {w.groups}")
    sizes, strides, addresses, scales = tables(inputs, outputs, w)
    arguments: tuple[Any, ...] = (inputs.a, inputs.b, outputs.c)
    if example.scaled:
        arguments = (*arguments, inputs.a_scales, inputs.b_scales, sizes, strides, addresses, scales)
    else:
        arguments = (*arguments, sizes, strides, addresses)
    call = Call(build.function(), (*arguments, descriptors(5 if example.scaled else 3, outputs.c.device), TEMPLATE))
    grid = (p["cluster_m"], p["cluster_n"], p["most_clusters"])
    return Runner(call, (build.launch(build.symbols[0], grid),))


@not_baked
def descriptors(kinds: int, device: torch.device) -> torch.Tensor:
    """Room for `kinds` TMA descriptors per multiprocessor, which have to start at multiples of their 128 bytes."""
    import torch

    words = MULTIPROCESSORS * kinds * DESCRIPTOR_WORDS
    room = torch.zeros(words + DESCRIPTOR_WORDS, dtype=torch.int64, device=device)
    begin = -room.data_ptr() % (8 * DESCRIPTOR_WORDS) // 8
    return room[begin : begin + words].view(MULTIPROCESSORS, kinds, DESCRIPTOR_WORDS)
