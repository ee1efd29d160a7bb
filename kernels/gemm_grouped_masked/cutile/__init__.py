"""`gemm_grouped_masked` in cuTile: a block per tile leaves if no row is used."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_grouped_masked.operator import Inputs, Outputs, Workload, clear_unused
from kernels.targets import TENSOR_CORES as TARGETS
from kernels.upstream.gemm import refused_rows

DSL = "cutile"
SOURCE = "ours"
SYMBOL = "gemm_grouped_masked"
BLOCK = 128  # elements along K, and along N of B, that share a scale


@dataclass(frozen=True)
class Tiles:
    """Rows and columns of C per block, and blocks that a multiprocessor is to hold."""

    tile_m: int
    tile_n: int
    occupancy: int

    @property
    def id(self) -> str:
        return f"{self.tile_m}x{self.tile_n}_o{self.occupancy}"


TILES = (Tiles(64, 128, 2), Tiles(128, 128, 1), Tiles(128, 64, 2))


def supports(workload: Workload) -> str | None:
    """All of fp8 whose rows are whole multiples of 16 bytes, which the builds promise."""
    if workload.dtype != "fp8":
        return f"dtype is {workload.dtype}: this kernel takes fp8 with scales"
    return refused_rows(("k", workload.k, 8, "A and B"), ("n", workload.n, 16, "C"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per tile, which serves every size."""
    dtype = workload.dtype
    return tuple(Variant(f"{dtype}_{tiles.id}", {"dtype": dtype, **asdict(tiles)}) for tiles in TILES)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build
    from kernels.gemm_grouped_masked.cutile.kernel import gemm_grouped_masked

    p = variant.params
    scales = array("fp32", 3, aligned=False)
    arrays = [array("fp8", 3), array("fp8", 3), scales, scales, array("int32", 1, aligned=False), array("bf16", 3)]
    kernel = gemm_grouped_masked.replace_hints(occupancy=p["occupancy"])
    return build([DeviceFunction("kernel", SYMBOL, kernel, [*arrays, p["tile_m"], p["tile_n"], BLOCK])], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Blocks of a group that share columns of B follow each other."""
    w, i, p = workload, inputs, build.params
    grid = (-(-w.m // p["tile_m"]), -(-w.n // p["tile_n"]), w.groups)
    values = (i.a, i.b, i.a_scales, i.b_scales, i.rows, outputs.c)
    return build.tile_runner(SYMBOL, values, grid, partial(clear_unused, inputs, outputs))
