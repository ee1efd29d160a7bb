"""Adapter of TileGym's `masked_bmm` (cuTile).

Its blocks stay, and skip the tiles that have no row in use. It multiplies operands as they are: it takes no scales, so
that of this operator's element types it has bf16 alone.
"""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_grouped_masked.operator import Inputs, Outputs, Workload, clear_unused
from kernels.upstream import tilegym as upstream
from kernels.upstream.gemm import refused_rows
from kernels.upstream.tilegym import SOURCE, TARGETS

DSL = "cutile"
SYMBOL = "tilegym_grouped_masked"
GROUP_ROWS = 8  # of tiles that neighbouring blocks share


@dataclass(frozen=True)
class Tiles:
    """A configuration that TileGym's autotuner would try."""

    tile_m: int
    tile_n: int
    tile_k: int
    num_ctas: int
    occupancy: int

    @property
    def id(self) -> str:
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}_c{self.num_ctas}_o{self.occupancy}"


TILES = {  # what TileGym takes where tuning is switched off, then the largest tile that it would try
    "sm_90a": (Tiles(128, 128, 64, 1, 1), Tiles(128, 256, 64, 2, 1)),
    "sm_100a": (Tiles(128, 128, 64, 1, 2), Tiles(256, 256, 64, 2, 1)),
}


def supports(workload: Workload) -> str | None:
    if workload.dtype != "bf16":
        return f"dtype is {workload.dtype}: TileGym's masked_bmm takes no scales"
    return refused_rows(("k", workload.k, 16, "A and B"), ("n", workload.n, 16, "C"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per configuration, which serves every size."""
    dtype = workload.dtype
    return tuple(Variant(f"{dtype}_{t.id}", {"dtype": dtype, **asdict(t)}) for t in TILES[target])


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build

    p = variant.params
    module = upstream.module("masked_bmm", "tilegym.suites.flashinfer.cutile.gemm")
    wanted = {"BLOCK_M": p["tile_m"], "BLOCK_N": p["tile_n"], "BLOCK_K": p["tile_k"], "GROUP_SIZE_M": GROUP_ROWS}
    wanted |= {"num_ctas": p["num_ctas"], "occupancy": p["occupancy"]}
    kernel = upstream.configured(module, "_masked_bmm_kernel", "_masked_bmm_autotune_configs", target, wanted)
    arrays = [*[array(p["dtype"], 3)] * 3, array("int32", 1, aligned=False)]
    constants = [0, 1, p["tile_m"], p["tile_n"], p["tile_k"], GROUP_ROWS]  # A as it is, B transposed
    return build([DeviceFunction("kernel", SYMBOL, kernel, [*arrays, *constants])], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind the grid and arguments of TileGym's `masked_bmm`."""
    from cutesnake.stages.load.cutile import multiprocessors

    w, p = workload, build.params
    tiles = -(-w.m // p["tile_m"]) * -(-w.n // p["tile_n"]) * w.groups
    blocks = min(multiprocessors() // p["num_ctas"], tiles) * p["occupancy"]
    values = (inputs.a, inputs.b, outputs.c, inputs.rows)
    return build.tile_runner(SYMBOL, values, (blocks, 1, 1), partial(clear_unused, inputs, outputs))
