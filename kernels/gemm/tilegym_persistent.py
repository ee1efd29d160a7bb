"""TileGym's static persistent `matmul` (cuTile): blocks that fit at once take several tiles."""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm import tilegym_tiles
from kernels.gemm.operator import Inputs, Outputs, Workload
from kernels.gemm.tilegym_tiles import Tiles, supports
from kernels.upstream import tilegym as upstream
from kernels.upstream.tilegym import SOURCE, TARGETS

DSL = "cutile"
SYMBOL = "tilegym_matmul_persistent"
GROUP_SIZE_M = 8  # tiles of a column that follow each other, in all of TileGym's configurations
INFERRED = -1  # latency of the loads: the compiler's own guess
# Of what TileGym's autotuner tries. On sm_90a tiles of 256 columns spill registers, and go last here.
TILES = {
    "sm_90a": (
        Tiles(128, 128, 64, 1),
        Tiles(128, 256, 64, 1, 1, 8),
        Tiles(256, 128, 64, 1, 1, 8),
        Tiles(64, 128, 64, 1, 1, 0),
        Tiles(64, 64, 64, 1, 1, 0),
        Tiles(256, 128, 32, 2),
        Tiles(256, 256, 64, 2),
        Tiles(256, 256, 64, 1),
    ),
    "sm_100a": (Tiles(256, 256, 64, 2), Tiles(256, 512, 64, 2), Tiles(256, 256, 128, 2), Tiles(128, 128, 64, 1)),
}


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    tiles = TILES[target]
    if target == "sm_90a" and workload.m <= 128:  # the fastest on an H200 first
        first = tiles[4] if workload.m <= 64 else tiles[3]
        tiles = (first, *(t for t in tiles if t != first))
    return tilegym_tiles.variants(workload, tiles)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build, scalar

    p = variant.params
    kernel = tilegym_tiles.configured(target, p, "_static_persistent_matmul")
    matrices = [array(p[name], 2, p["aligned"]) for name in ("dtype", "dtype", "output")]
    constants = [p["tile_size_m"], p["tile_size_n"], p["tile_size_k"], p["a_major"] == "m", p["b_major"] == "k"]
    parameters = [*matrices, *[scalar("int32")] * 3, *constants, GROUP_SIZE_M, INFERRED]
    return build([DeviceFunction("kernel", SYMBOL, kernel, parameters)], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind TileGym's `_cutile_autotune_static_persistent_matmul`, with matrices as stored."""
    from cutesnake.stages.load.cutile import multiprocessors

    w, p = workload, build.params
    tiles = -(-w.m // p["tile_size_m"]) * -(-w.n // p["tile_size_n"])
    blocks = min(multiprocessors() // p["num_ctas"], tiles) * p["occupancy"]
    values = (inputs.a[0], inputs.b[0], outputs.c[0], w.m, w.n, w.k)
    return build.tile_runner(SYMBOL, values, (blocks, 1, 1))
