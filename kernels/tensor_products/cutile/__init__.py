"""`tensor_products` in cuTile: a block per tile of D."""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.tensor_products.operator import BITS, Inputs, Outputs, Workload
from kernels.upstream.gemm import refused_rows

DSL = "cutile"
SOURCE = "ours"
TARGETS: dict[str, tuple[str, ...]] = {
    "sm_90a": ("TMA", "wgmma"),
    "sm_100a": ("tcgen05", "tensor memory"),
    "sm_103a": ("tcgen05", "tensor memory"),
}
SYMBOL = "tensor_products"
STORED = {"fp16": "fp16", "tf32": "fp32", "fp8": "fp8", "int8": "int8"}  # element types of operands in memory
STAGE_BYTES = 128  # of a tile of A or B along K
TILES = ((64, 64), (128, 128), (128, 256))  # M x N


def supports(workload: Workload) -> str | None:
    """All but mxf4, if rows are whole multiples of 16 bytes."""
    w = workload
    if w.dtype not in STORED:
        return f"dtype is {w.dtype}: this kernel takes {', '.join(STORED)}"
    return refused_rows(("k", w.k, BITS[w.dtype], "A and B"), ("n", w.n, 32, "D"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per kind of product and tile, which serves every size."""
    dtype = workload.dtype
    small, middle, large = TILES
    # On Hopper the largest tile spills, and the middle one is the fastest with so many rows.
    order = (large, middle, small) if target != "sm_90a" else (middle, small, large)
    tiles = TILES if workload.m <= 1024 else order
    return tuple(Variant(f"{dtype}_{m}x{n}", {"dtype": dtype, "tile_m": m, "tile_n": n}) for m, n in tiles)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build
    from kernels.tensor_products.cutile.kernel import tensor_products

    p = variant.params
    operand, sums = array(STORED[p["dtype"]], 2), array("int32" if p["dtype"] == "int8" else "fp32", 2)
    constants = [p["tile_m"], p["tile_n"], 8 * STAGE_BYTES // BITS[p["dtype"]], int(p["dtype"] == "tf32")]
    function = DeviceFunction("kernel", SYMBOL, tensor_products, [operand, operand, sums, *constants])
    return build([function], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One block per tile of D."""
    w, p = workload, build.params
    grid = (-(-w.m // p["tile_m"]), -(-w.n // p["tile_n"]), 1)
    values = (inputs.a, inputs.b, outputs.d)
    return build.tile_runner(SYMBOL, values, grid)
