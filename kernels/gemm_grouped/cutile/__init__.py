"""`gemm_grouped` in cuTile, for block-scaled operands.

Its blocks stay, and count through lists of matrices. Tiles of 128 x 128, the last candidate, are refused: «failed to
compile Tile IR program», without a place, by tileiras 13.4.92 and 13.5.37. Tiles of 256 x 256 are none: 13.4.92 had not
compiled them after four minutes.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_blockscaled.operator import BITS, BLOCK
from kernels.gemm_grouped.operator import Inputs, Outputs, Workload, matrices, results
from kernels.targets import BLACKWELL, MULTIPROCESSORS

DSL = "cutile"
SOURCE = "ours"
TARGETS = BLACKWELL
SYMBOL = "gemm_grouped"
MOST_BLOCKS = MULTIPROCESSORS["sm_100a"]  # an sm_103a GPU has as many
ROW_BYTES = 128  # of a tile of codes: what a swizzled row of shared memory holds
SCALE_TILE_BYTES = 512  # 128 rows by 4 scales


@dataclass(frozen=True)
class Tiles:
    """Rows and columns of C per block."""

    tile_m: int
    tile_n: int


TILES = (Tiles(128, 256), Tiles(256, 128), Tiles(128, 128))


def supports(workload: Workload) -> str | None:
    return None if workload.scaled else "this kernel takes operands with a scale per block; TileGym's has the others"


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per format and tile, which serves every list of sizes."""
    dtype = workload.dtype
    return tuple(Variant(f"{dtype}_{t.tile_m}x{t.tile_n}", {"dtype": dtype, **asdict(t)}) for t in TILES)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, array_list, build
    from kernels.gemm_grouped.cutile.kernel import grouped_products

    p = variant.params
    per_byte = 8 // BITS[p["dtype"]]
    arrays = [*[array("uint8", 2)] * 2, *[array("uint8", 3)] * 2, array("fp16", 2)]
    constants = [p["tile_m"], p["tile_n"], ROW_BYTES * per_byte, per_byte, BLOCK[p["dtype"]], MOST_BLOCKS]
    parameters = [*map(array_list, arrays), *constants]
    return build([DeviceFunction("kernel", SYMBOL, grouped_products, parameters)], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind as many blocks as multiprocessors, or tiles; a tile of scales is 512 bytes."""
    from cutesnake.stages.load.cutile import ArrayList

    a, b, *scales = zip(*matrices(inputs, workload), strict=True)
    flat = [[x.view(*x.shape[:2], SCALE_TILE_BYTES) for x in kind] for kind in scales]
    values = [ArrayList(kind) for kind in (a, b, *flat, results(outputs, workload))]
    p = build.params
    grid = (min(MOST_BLOCKS, workload.tiles(p["tile_m"], p["tile_n"])), 1, 1)
    return build.tile_runner(SYMBOL, values, grid)
