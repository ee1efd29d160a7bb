"""Adapter of TileGym's `gemm_alpha_beta` (cuTile): C = alpha A B^T + beta C.

Its blocks stay for several tiles. It works in place, and it has no activation. Every call therefore copies C into D
first, and PyTorch applies the activation to D afterwards, in place: two more passes over D than the kernels that do all
of it at once.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_epilogue.operator import Inputs, Outputs, Workload, activate
from kernels.upstream import tilegym as upstream
from kernels.upstream.gemm import refused_rows
from kernels.upstream.tilegym import SOURCE, TARGETS

DSL = "cutile"
SYMBOL = "tilegym_gemm_alpha_beta"
TILE_K = 64
GROUP_ROWS = 8  # of tiles that neighbouring blocks share, in all of TileGym's configurations


@dataclass(frozen=True)
class Tiles:
    """A configuration that TileGym's autotuner would try."""

    tile_m: int
    tile_n: int
    num_ctas: int
    occupancy: int
    halves: bool  # whether a tile is added to C and stored in two halves of its columns

    @property
    def id(self) -> str:
        return f"{self.tile_m}x{self.tile_n}x{TILE_K}_c{self.num_ctas}_o{self.occupancy}" + "_halves" * self.halves


TILES = {  # what TileGym takes where tuning is switched off, then the largest tile that it would try
    "sm_90a": (Tiles(128, 128, 1, 1, False), Tiles(256, 128, 1, 1, False)),
    "sm_100a": (Tiles(256, 128, 2, 2, True), Tiles(256, 256, 2, 1, False)),
}


def supports(workload: Workload) -> str | None:
    """All whose rows are whole multiples of 16 bytes, which the builds promise."""
    return refused_rows(("k", workload.k, 16, "A and B"), ("n", workload.n, 16, "C and D"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per configuration, which serves every size and activation."""
    dtype = workload.dtype
    return tuple(Variant(f"{dtype}_{t.id}", {"dtype": dtype, **asdict(t)}) for t in TILES[target])


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build, scalar

    p = variant.params
    module = upstream.module("gemm_alpha_beta", "tilegym.suites.flashinfer.cutile.gemm")
    wanted = {"BLOCK_M": p["tile_m"], "BLOCK_N": p["tile_n"], "BLOCK_K": TILE_K, "GROUP_SIZE_M": GROUP_ROWS}
    wanted |= {"EPILOGUE_SUBTILE": int(p["halves"]), "num_ctas": p["num_ctas"], "occupancy": p["occupancy"]}
    generator = "_gemm_alpha_beta_autotune_configs"
    kernel = upstream.configured(module, "_gemm_alpha_beta_kernel", generator, target, wanted)
    constants = [0, 1, p["tile_m"], p["tile_n"], TILE_K, GROUP_ROWS, int(p["halves"])]  # A as it is, B transposed
    parameters = [*[array(p["dtype"], 2)] * 3, scalar("fp32"), scalar("fp32"), *constants]
    return build([DeviceFunction("kernel", SYMBOL, kernel, parameters)], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind the grid and arguments of TileGym's `gemm_alpha_beta`, D as its C."""
    from cutesnake.stages.load.cutile import multiprocessors
    from kernels.upstream.installed import on_stream

    w, p, d = workload, build.params, outputs.d
    tiles = -(-w.m // p["tile_m"]) * -(-w.n // p["tile_n"])
    blocks = min(multiprocessors() // p["num_ctas"], tiles) * p["occupancy"]
    values = (inputs.a, inputs.b, d, inputs.alpha, inputs.beta)
    runner = build.tile_runner(SYMBOL, values, (blocks, 1, 1))

    def enqueue(stream: int) -> None:
        with on_stream(d, stream):
            d.copy_(inputs.c)
        runner(stream)
        with on_stream(d, stream):
            activate(d, w.activation, inplace=True)

    return Runner(enqueue, runner.launches, with_torch=True)
