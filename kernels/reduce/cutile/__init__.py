"""`reduce` in cuTile: a block per tile of rows.

For few rows, several blocks share them, and a second launch follows. One build serves every number of rows and columns;
it holds the kernel twice, as the only launch (or the second), which writes the result, and as the first of two, which
writes float32.
"""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.matrices import refuse_extents
from kernels.reduce.operator import DTYPES, Inputs, Outputs, Workload
from kernels.targets import EVERY as TARGETS

DSL = "cutile"
SOURCE = "ours"
TILES = ((4, 1024), (1, 4096), (1, 2048))  # rows x columns; 4,096 elements are 32 registers of each of 128 threads
COMBINED = (4, 128)  # tile of the second launch
SHARED_COLUMNS = 16384  # rows at least this long are shared among blocks where there are few of them
BLOCKS_PER_PROCESSOR = 4  # as many as it takes to keep memory busy


def supports(workload: Workload) -> str | None:
    return refuse_extents(workload)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """`aligned` builds promise rows that start at multiples of 16 bytes, for TMA."""
    w = workload
    aligned = w.columns * DTYPES[w.dtype] % 16 == 0
    shared = w.columns >= SHARED_COLUMNS
    known = {"operation": w.operation, "dtype": w.dtype, "aligned": aligned, "shared": shared}
    return tuple(
        Variant(
            f"{w.operation}_{w.dtype}_{rows}x{columns}"
            + ("_shared" if shared else "")
            + ("" if aligned else "_unaligned"),
            {**known, "tile_m": rows, "tile_n": columns},
        )
        for rows, columns in sorted(TILES, key=lambda tile: tile[0] > 1 and shared)
    )


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build
    from kernels.reduce.cutile.kernel import reduce

    p = variant.params
    x, y = array(p["dtype"], 2, aligned=p["aligned"]), array(p["dtype"], 2, aligned=False)
    tile, maximum = [p["tile_m"], p["tile_n"]], p["operation"] == "max"
    if not p["shared"]:
        return build([DeviceFunction("kernel", "reduce", reduce, [x, y, *tile, maximum])], target, folder)
    partial = array("fp32", 2, aligned=False)
    functions = [
        DeviceFunction("kernel", "reduce", reduce, [x, partial, *tile, maximum]),
        DeviceFunction("combine", "combine", reduce, [partial, y, *COMBINED, maximum]),
    ]
    return build(functions, target, folder)


def blocks_along(rows: int, columns: int, tile_m: int, tile_n: int, processors: int) -> int:
    """Return how many blocks share a row: as fill the GPU, at most tiles."""
    row_tiles, tiles = -(-rows // tile_m), -(-columns // tile_n)
    return max(1, min(tiles, BLOCKS_PER_PROCESSOR * processors // row_tiles))


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind; the float32 workspace of a shared row is allocated once."""
    import torch

    from cutesnake.stages.load.cutile import TileLaunch, multiprocessors, sequence

    w, p = workload, build.params
    rows = -(-w.rows // p["tile_m"])
    function = build.cubin_function("kernel", "reduce")
    if not p["shared"]:
        return sequence(TileLaunch(function, "reduce", (rows, 1, 1), (inputs.x, outputs.y)))
    blocks = blocks_along(w.rows, w.columns, p["tile_m"], p["tile_n"], multiprocessors())
    partial = torch.empty(w.rows, blocks, dtype=torch.float32, device=inputs.x.device)
    combine = build.cubin_function("combine", "combine")
    return sequence(
        TileLaunch(function, "reduce", (rows, blocks, 1), (inputs.x, partial)),
        TileLaunch(combine, "combine", (-(-w.rows // COMBINED[0]), 1, 1), (partial, outputs.y)),
    )
