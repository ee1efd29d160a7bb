"""`gemm_mixed_grouped` in cuTile: blocks that stay, and count through the groups' tiles."""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_mixed import cutile as plain
from kernels.gemm_mixed.cutile import SOURCE, TARGETS
from kernels.gemm_mixed_grouped.operator import Inputs, Outputs, Workload

DSL = "cutile"
SYMBOL = "gemm_mixed_grouped"
RESIDENT = 2  # blocks per multiprocessor


def supports(workload: Workload) -> str | None:
    return plain.supports(workload.plain)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per type of weights and tile, which serves every size."""
    return tuple(_not_spilling(variant, target) for variant in plain.variants(workload.plain, target))


def _not_spilling(variant: Variant, target: str) -> Variant:
    """Halve the depth where Hopper's compiler would spill (in 999 loads and stores)."""
    p = variant.params
    if target != "sm_90a" or p["dtype"] == "int4" or (p["tile_m"], p["tile_n"]) != (64, 128):
        return variant
    half = plain.TILE_K // 2
    return Variant(f"{variant.id}x{half}", {**p, "tile_k": half})


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build
    from kernels.gemm_mixed_grouped.cutile.kernel import gemm_mixed_grouped

    a, codes, scales, c = plain.constraints(variant.params["dtype"])
    parameters = [a, codes, scales, array("int32", 1, aligned=False), c, *plain.constants(variant.params)]
    return build([DeviceFunction("kernel", SYMBOL, gemm_mixed_grouped, parameters)], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """No more blocks than there can be tiles."""
    from cutesnake.stages.load.cutile import multiprocessors

    w, p = workload, build.params
    tiles = (w.rows // p["tile_m"] + w.groups) * -(-w.n // p["tile_n"])
    grid = (min(RESIDENT * multiprocessors(), tiles), 1, 1)
    values = (inputs.a, plain.codes(inputs.b), inputs.b_scales, inputs.starts, outputs.c)
    return build.tile_runner(SYMBOL, values, grid)
