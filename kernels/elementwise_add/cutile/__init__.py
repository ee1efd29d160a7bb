"""`elementwise_add` in cuTile: one tile per block, any matrix size from one build."""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.elementwise_add.operator import DTYPES, Inputs, Outputs, Workload
from kernels.targets import EVERY as TARGETS

DSL = "cutile"
SOURCE = "ours"
SYMBOL = "elementwise_add"
TILES = ((4, 1024), (1, 4096), (16, 256))  # rows x columns; wide tiles make the longest contiguous reads


def supports(workload: Workload) -> str | None:
    """All workloads, up to what 32-bit extents can hold."""
    if max(workload.rows, workload.columns) >= 2**31:
        return "extents are 32-bit in cuTile"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per dtype and tile; TMA takes `aligned` rows (multiples of 16 bytes)."""
    aligned = workload.columns * DTYPES[workload.dtype] % 16 == 0
    return tuple(
        Variant(
            f"{workload.dtype}_{rows}x{columns}" + ("" if aligned else "_unaligned"),
            {"dtype": workload.dtype, "tile_m": rows, "tile_n": columns, "aligned": aligned},
        )
        for rows, columns in TILES
    )


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile import cutile as cutile_build
    from kernels.elementwise_add.cutile.kernel import add

    p = variant.params
    matrix = cutile_build.array(p["dtype"], 2, aligned=p["aligned"])
    parameters = [matrix, matrix, matrix, p["tile_m"], p["tile_n"]]
    return cutile_build.build([cutile_build.DeviceFunction("kernel", SYMBOL, add, parameters)], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One block per tile, the last ones partly outside the matrix."""
    tile_m, tile_n = build.params["tile_m"], build.params["tile_n"]
    grid = (-(-workload.rows // tile_m), -(-workload.columns // tile_n), 1)
    return build.tile_runner(SYMBOL, (inputs.a, inputs.b, outputs.c), grid)
