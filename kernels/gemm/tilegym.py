"""Adapter of TileGym's `matmul` (cuTile), the plain kernel: a block per tile of C.

It wants B as (K, N): the operator's B goes in as a view. Where K is contiguous, TMA fetches it so.
"""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm import tilegym_tiles
from kernels.gemm.operator import Inputs, Outputs, Workload, factors
from kernels.gemm.tilegym_tiles import Tiles, supports
from kernels.upstream import tilegym as upstream
from kernels.upstream.tilegym import SOURCE, TARGETS

DSL = "cutile"
SYMBOL = "tilegym_matmul"
# TileGym's autotuner tries all of them. On sm_90a tiles of 256 columns spill registers, and go last here.
TILES = {
    "sm_90a": (
        Tiles(128, 128, 32, 1),
        Tiles(128, 256, 64, 1, 1, 8),
        Tiles(64, 128, 64, 1, 1, 0),
        Tiles(64, 64, 64, 1, 1, 0),
        Tiles(256, 256, 64, 2),
        Tiles(256, 256, 64, 4),
        Tiles(512, 256, 64, 2),
    ),
    "sm_100a": (Tiles(256, 256, 64, 2), Tiles(256, 256, 64, 4), Tiles(512, 256, 64, 2), Tiles(128, 128, 32, 1)),
}


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    tiles = TILES[target]
    if target == "sm_90a":  # the fastest on an H200 first
        first = tiles[2] if workload.m <= 128 else tiles[1]
        tiles = (first, *(t for t in tiles if t != first))
    return tilegym_tiles.variants(workload, tiles)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build

    p = variant.params
    kernel = tilegym_tiles.configured(target, p, "_matmul")
    arrays = [
        array(p["dtype"], 2, p["aligned"], major=0 if p["a_major"] == "m" else 1),  # (M, K)
        array(p["dtype"], 2, p["aligned"], major=0 if p["b_major"] == "k" else 1),  # (K, N)
        array(p["output"], 2, p["aligned"]),  # (M, N)
    ]
    constants = [p["tile_size_m"], p["tile_size_n"], p["tile_size_k"]]
    return build([DeviceFunction("kernel", SYMBOL, kernel, [*arrays, *constants])], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind the grid and arguments of TileGym's `_cutile_autotune_matmul`."""
    p = build.params
    a, b = (factor[0] for factor in factors(inputs, workload))
    tiles = -(-workload.m // p["tile_size_m"]) * -(-workload.n // p["tile_size_n"])
    return build.tile_runner(SYMBOL, (a, b, outputs.c[0]), (tiles, 1, 1))
