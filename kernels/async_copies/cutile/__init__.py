"""`async_copies` in cuTile: one tile per block, any matrix size from one build."""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.async_copies.operator import Inputs, Outputs, Workload
from kernels.upstream.gemm import refused_rows

DSL = "cutile"
SOURCE = "ours"
TARGETS: dict[str, tuple[str, ...]] = dict.fromkeys(("sm_90a", "sm_100a", "sm_103a"), ("TMA",))
SYMBOL = "async_copies"
TILES = ((4, 1024), (1, 4096), (16, 256))  # rows x columns


def supports(workload: Workload) -> str | None:
    """Workloads whose rows start at multiples of 16 bytes, which TMA asks for."""
    return refused_rows(("columns", workload.columns, 32, "x and y"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per tile; each serves every size."""
    dtype = workload.dtype
    return tuple(Variant(f"{dtype}_{m}x{n}", {"dtype": dtype, "tile_m": m, "tile_n": n}) for m, n in TILES)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build
    from kernels.async_copies.cutile.kernel import copy

    p = variant.params
    matrix = array(p["dtype"], 2)
    return build([DeviceFunction("kernel", SYMBOL, copy, [matrix, matrix, p["tile_m"], p["tile_n"]])], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One block per tile, the last ones partly outside the matrix."""
    p = build.params
    grid = (-(-workload.rows // p["tile_m"]), -(-workload.columns // p["tile_n"]), 1)
    return build.tile_runner(SYMBOL, (inputs.x, outputs.y), grid)
