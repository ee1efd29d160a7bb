"""`elementwise_add` in cuTile: one tile per block, any matrix size from one build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cutesnake.contract import Executable, Runner, Variant
from kernels.elementwise_add.operator import DTYPES, Inputs, Outputs, Workload

DSL = "cutile"
SOURCE = "ours"
TARGETS = {
    "sm_90a": "",
    "sm_100a": "",
    "sm_103a": "",
    "sm_120a": "",
}
SYMBOL = "elementwise_add"
TILES = ((4, 1024), (1, 4096), (16, 256))  # rows x columns; wide tiles make the longest contiguous reads


def supports(workload: Workload) -> str | None:
    """All workloads, up to what 32-bit extents can hold."""
    if max(workload.rows, workload.columns) >= 2**31:
        return "extents are 32-bit in cuTile"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """One build per dtype and tile; `aligned` builds promise rows that start at multiples of 16 bytes, for TMA."""
    aligned = workload.columns * DTYPES[workload.dtype] % 16 == 0
    return tuple(
        Variant(
            f"{workload.dtype}_{rows}x{columns}" + ("" if aligned else "_unaligned"),
            {"dtype": workload.dtype, "tile_m": rows, "tile_n": columns, "aligned": aligned},
        )
        for rows, columns in TILES
    )


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.build import cutile as cutile_build
    from kernels.elementwise_add.cutile.kernel import add

    p = variant.params
    matrix = cutile_build.array(p["dtype"], 2, aligned=p["aligned"])
    parameters = [matrix, matrix, matrix, p["tile_m"], p["tile_n"]]
    return cutile_build.build([cutile_build.DeviceFunction("kernel", SYMBOL, add, parameters)], target, folder)


def load(folder: Path) -> Executable:
    from cutesnake import record
    from cutesnake.load.cutile import Cubin

    params = record.read("compile", folder / "build.json")["variant"]["params"]
    return Loaded(Cubin(folder / "kernel.cubin").function(SYMBOL), (params["tile_m"], params["tile_n"]))


class Loaded:
    """The build's function and the tile it was compiled for."""

    def __init__(self, function: Any, tile: tuple[int, int]) -> None:
        self._function = function
        self._tile = tile

    def bind(self, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
        """One block per tile, the last ones partly outside the matrix."""
        from cutesnake.load.cutile import Sequential, TileLaunch

        tile_m, tile_n = self._tile
        grid = (-(-workload.rows // tile_m), -(-workload.columns // tile_n), 1)
        return Sequential(TileLaunch(self._function, SYMBOL, grid, (inputs.a, inputs.b, outputs.c)))
