"""TileGym's `group_gemm` (cuTile): blocks count through the tiles of a list of matrices."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.gemm_grouped.operator import Inputs, Outputs, Workload, matrices, results
from kernels.targets import MULTIPROCESSORS
from kernels.upstream import tilegym as upstream
from kernels.upstream.tilegym import SOURCE, TARGETS

DSL = "cutile"
SYMBOL = "tilegym_group_gemm"


@dataclass(frozen=True)
class Tiles:
    """A configuration of TileGym's autotuner, its field names in lower case."""

    tile_m: int
    tile_n: int
    tile_k: int
    num_ctas: int

    @property
    def id(self) -> str:
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}_c{self.num_ctas}"


@dataclass(frozen=True)
class AddedTiles(Tiles):
    """A configuration that this project adds: worker warps (0: the compiler's choice), blocks per multiprocessor."""

    warps: int
    occupancy: int = 1

    @property
    def id(self) -> str:
        return f"{super().id}_w{self.warps}_o{self.occupancy}"


TILES = (Tiles(128, 128, 128, 1), Tiles(256, 256, 64, 2))
ADDED = (  # for Hopper, where both of TileGym's spill
    AddedTiles(128, 128, 64, 1, 8),
    AddedTiles(128, 128, 128, 1, 8),
    AddedTiles(128, 256, 64, 1, 8),
    AddedTiles(256, 128, 64, 1, 8),
    AddedTiles(64, 128, 64, 1, 0),
    AddedTiles(64, 64, 64, 1, 0, 2),
)


def supports(workload: Workload) -> str | None:
    return "TileGym's group_gemm takes 16-bit operands" if workload.scaled else None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per configuration; how many blocks stay is a constant."""
    dtype = workload.dtype
    return tuple(
        Variant(f"{dtype}_{t.id}", {"dtype": dtype, **asdict(t), "blocks": _blocks(t, target)})
        for t in _tiles(workload, target)
    )


@not_baked
def _tiles(workload: Workload, target: str) -> tuple[Tiles, ...]:
    """Return the configurations, the fastest on an H200 first."""
    if target != "sm_90a":
        return TILES
    first = AddedTiles(256, 128, 64, 1, 8) if workload.m >= 256 else AddedTiles(128, 256, 64, 1, 8)
    return (first, *(t for t in ADDED if t != first), *TILES)


@not_baked
def _blocks(tiles: Tiles, target: str) -> int:
    return MULTIPROCESSORS[target] // tiles.num_ctas * getattr(tiles, "occupancy", 1)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, array_list, build

    p = variant.params
    module = upstream.module("group_gemm")
    wanted = {"TILE_M": p["tile_m"], "TILE_N": p["tile_n"], "TILE_K": p["tile_k"]}
    wanted |= {"num_ctas": p["num_ctas"], "occupancy": 1}
    if "warps" in p:
        kernel = upstream.hinted(module._group_gemm_kernel, p)
    else:
        kernel = upstream.configured(module, "_group_gemm_kernel", "_group_gemm_autotune_configs", target, wanted)
    lists = [array_list(array(p["dtype"], 2))] * 3
    constants = [p["tile_m"], p["tile_n"], p["tile_k"], p["blocks"], True]  # B as (N, K)
    return build([DeviceFunction("kernel", SYMBOL, kernel, [*lists, *constants])], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind the grid and arguments of TileGym's `group_gemm`, without blocks that get no tile."""
    from cutesnake.stages.load.cutile import ArrayList

    a, b = zip(*matrices(inputs, workload), strict=True)
    values = (ArrayList(a), ArrayList(b), ArrayList(results(outputs, workload)))
    p = build.params
    grid = (min(p["blocks"], workload.tiles(p["tile_m"], p["tile_n"])), 1, 1)
    return build.tile_runner(SYMBOL, values, grid)
