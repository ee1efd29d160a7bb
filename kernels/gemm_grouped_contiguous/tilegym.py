"""Adapter of TileGym's `ragged_block_scaled_bmm` (cuTile).

Its blocks stay for several tiles, of groups of any size. It has three kernels: one whose blocks count through the
groups' own tiles (`own`), and two whose blocks count through as many tiles for every group as the largest one has
(`uniform`, and `swap`, which computes B A^T and transposes it). With tiles of 256 columns, which TileGym 1.5.1 takes by
default on Hopper from 256 rows per group on, it multiplies both blocks of 128 columns by the scale of the first:
tests/kernels/test_gemm_blockwise.py shows it on TileGym's source. Only tiles of 128 columns are taken here.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_grouped_contiguous.operator import Inputs, Outputs, Workload
from kernels.upstream import tilegym as upstream
from kernels.upstream.gemm import refused_rows
from kernels.upstream.tilegym import SOURCE, TARGETS

DSL = "cutile"
SYMBOL = "tilegym_grouped_contiguous"
BLOCK = 128  # columns and depth of a tile
KERNELS = {
    "own": "_ragged_block_scaled_bmm_kernel",
    "uniform": "_ragged_block_scaled_bmm_uniform_kernel",
    "swap": "_ragged_block_scaled_bmm_swap_ab_kernel",
}
GROUP_ROWS = {"own": 8, "uniform": 8, "swap": 4}  # of tiles that neighbouring blocks share


@dataclass(frozen=True)
class Tiles:
    """A configuration that TileGym's autotuner would try."""

    tile_m: int
    num_ctas: int
    occupancy: int
    form: str  # a key of KERNELS

    @property
    def id(self) -> str:
        return f"{self.form}_{self.tile_m}x{BLOCK}_c{self.num_ctas}_o{self.occupancy}"


# Tiles of more rows spill registers and go last, and so does `swap` with 64 rows on sm_90a.
TILES = {
    "sm_90a": (Tiles(32, 1, 2, "swap"), Tiles(128, 1, 1, "uniform"), Tiles(128, 1, 1, "own"), Tiles(64, 1, 1, "swap")),
    "sm_100a": (Tiles(64, 1, 2, "own"), Tiles(256, 2, 1, "own"), Tiles(128, 1, 1, "uniform"), Tiles(128, 1, 1, "own")),
}


def supports(workload: Workload) -> str | None:
    """All whose rows are whole multiples of 16 bytes."""
    return refused_rows(("k", workload.k, 8, "A and B"), ("n", workload.n, 16, "C"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per configuration, which serves every size."""
    dtype = workload.dtype
    return tuple(Variant(f"{dtype}_{t.id}", {"dtype": dtype, **asdict(t)}) for t in TILES[target])


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build, scalar

    p = variant.params
    module = upstream.module("ragged_block_scaled_bmm", "tilegym.suites.flashinfer.cutile.gemm")
    wanted = {"BLOCK_M": p["tile_m"], "BLOCK_N": BLOCK, "swap_ab": p["form"] == "swap"}
    wanted |= {"num_ctas": p["num_ctas"], "occupancy": p["occupancy"]}
    generator = "_ragged_block_scaled_bmm_autotune_configs"
    kernel = upstream.configured(module, KERNELS[p["form"]], generator, target, wanted)
    arrays = [array("fp8", 2), array("fp8", 3), array("fp32", 2, major=0), array("fp32", 3, aligned=False)]
    arrays += [array("bf16", 2), array("int32", 1, aligned=False)]
    number = scalar("int32")
    numbers = [number, number, array("int32", 1, aligned=False), number]  # groups, most rows, the same on the GPU, N
    constants = [1, p["tile_m"], BLOCK, BLOCK, GROUP_ROWS[p["form"]]]
    return build([DeviceFunction("kernel", SYMBOL, kernel, [*arrays, *numbers, *constants])], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind TileGym's `ragged_block_scaled_bmm`, scales of A as a view (rows, blocks)."""
    import torch

    from cutesnake.stages.load.cutile import multiprocessors

    w, p = workload, build.params
    largest = max(w.group_rows)
    tiles = -(-largest // p["tile_m"]) * -(-w.n // BLOCK) * w.groups
    blocks = min(multiprocessors() // p["num_ctas"], tiles) * p["occupancy"]
    on_gpu = torch.tensor([largest], dtype=torch.int32, device=outputs.c.device)  # `own` does not read it
    arrays = (inputs.a, inputs.b, inputs.a_scales.T, inputs.b_scales, outputs.c, inputs.starts)
    values = (*arrays, w.groups, largest, on_gpu, w.n)
    return build.tile_runner(SYMBOL, values, (blocks, 1, 1))
