"""`gemm_grouped` for Hopper in CuTe DSL: CTAs count through the tiles of all groups.

Other than NVIDIA's example, a launch takes the sizes from the host, and a build serves all sizes.
"""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_grouped.operator import Inputs, Outputs, Workload, matrices, results
from kernels.hopper_gemm import adapter
from kernels.hopper_gemm.adapter import TARGETS, compile

DSL = "cute"
SOURCE = "ours"
MOST_GROUPS = 16  # each has two TMA descriptors of 128 bytes among the arguments, which have 4 KiB


def supports(workload: Workload) -> str | None:
    if workload.scaled:
        return "this kernel takes 16-bit operands"
    return None if workload.groups <= MOST_GROUPS else f"{workload.groups} groups; at most {MOST_GROUPS}"


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return builds per element type, number of groups and tile; fastest on an H200 first."""
    w = workload
    large, middle, small = adapter.TILINGS[:3]
    tilings = (middle, large, small) if w.m <= 64 and w.k <= 2048 else (large, middle, small)
    return adapter.variants(f"{w.dtype}_g{w.groups}", tilings, dtype=w.dtype, count=w.groups)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind sizes, which the host must know, and as many CTAs as fit."""
    from cutesnake.stages.load.cute import multiprocessors

    p = build.params
    groups = zip(workload.problems, matrices(inputs, workload), results(outputs, workload), strict=True)
    whole = inputs.a, inputs.b, outputs.c
    arguments: list[int] = []
    for x, (a, b, *_), c in sorted(groups, key=lambda group: -group[0].k):  # the last tiles are short ones
        parts = zip((a, b, c), whole, strict=True)
        begins = (part.storage_offset() - vector.storage_offset() for part, vector in parts)
        arguments += (x.m, x.n, x.k, *begins)
    tiles = workload.tiles(p["tile_m"], p["tile_n"])
    ctas = min(tiles, p["occupancy"] * multiprocessors(outputs.c.device))
    return build.runner((*whole, tuple(arguments), tiles, ctas), (ctas, 1, 1))
