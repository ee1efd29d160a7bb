"""Adapter of TileGym's `w8a8_block_fp8_matmul` (cuTile): a block per tile of C.

It scales a product per 128 of K. Its sizes are constants of the build. Of its two forms the one that loads by TMA is
taken.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.gemm_blockwise.operator import Inputs, Outputs, Workload
from kernels.upstream import tilegym as upstream
from kernels.upstream.gemm import refused_rows
from kernels.upstream.tilegym import SOURCE, TARGETS

DSL = "cutile"
SYMBOL = "tilegym_blockwise"
BLOCK = 128  # elements that share a scale: tiles of any other width or depth are refused
GROUP_ROWS = 16  # of tiles that neighbouring blocks share, in all of TileGym's configurations
BF16 = 2  # TileGym's number for the type of C


@dataclass(frozen=True)
class Tiles:
    """A configuration that TileGym's autotuner would try."""

    tile_m: int
    occupancy: int
    swap: bool  # whether B A^T is computed and transposed

    @property
    def id(self) -> str:
        return f"{self.tile_m}x{BLOCK}_o{self.occupancy}" + "_swap" * self.swap


# Of what TileGym's autotuner tries. On sm_90a 128 rows spill registers, and go last there.
TILES = {
    "sm_90a": (Tiles(64, 2, False), Tiles(64, 1, True), Tiles(16, 2, True), Tiles(128, 1, False)),
    "sm_100a": (Tiles(128, 1, False), Tiles(64, 1, True), Tiles(64, 2, False), Tiles(16, 2, True)),
}
FEW_TILES = 74  # of 128 rows: half of a B200's SMs. Up to then 64 rows are predicted to be faster; they do not spill.


def supports(workload: Workload) -> str | None:
    """K by whole blocks, since what TileGym loads past the end of K is undetermined."""
    w = workload
    if w.k % BLOCK:
        return f"k is {w.k}: TileGym's kernel takes multiples of {BLOCK} where it loads by TMA"
    return refused_rows(("n", w.n, 16, "C"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per size and configuration; tiles higher than C come last."""
    w = workload
    sizes = {"dtype": w.dtype, "m": w.m, "n": w.n, "k": w.k}
    few = target == "sm_100a" and -(-w.m // BLOCK) * -(-w.n // BLOCK) <= FEW_TILES
    tiles = sorted(TILES[target], key=lambda t: (t.tile_m > w.m, few and t.tile_m == BLOCK))
    return tuple(Variant(f"{w.id}_{t.id}", {**sizes, **asdict(t)}) for t in tiles)


@not_baked
def group_key(variant: Variant) -> str:
    """Return all sizes, but of equivalent row counts only the rows in the last tile."""
    others = {name: value for name, value in variant.params.items() if name != "m"}
    rows = {"rows_left": variant.params["m"] % variant.params["tile_m"]}
    return ", ".join(f"{name} {value}" for name, value in (others | rows).items())


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build

    p = variant.params
    m, n, k = p["m"], p["n"], p["k"]
    module = upstream.module("fp8_quantization_matmul")
    wanted = {"BLOCK_SIZE_M": p["tile_m"], "swap_ab": p["swap"], "use_tma": True}
    wanted |= {"num_ctas": 1, "occupancy": p["occupancy"]}
    name, generator = "_w8a8_block_fp8_matmul_kernel", "_w8a8_autotune_configs"
    kernel = upstream.configured(module, name, generator, target, wanted, BLOCK, BLOCK)
    arrays = [array("fp8", 2), array("fp8", 2), array("bf16", 2)]
    arrays += [array("fp32", 2, aligned=False, major=0), array("fp32", 2, aligned=False)]
    strides = [k, 1, 1, k, n, 1, 1, m, 1, k // BLOCK]  # of A, of B and of C, then of the scales: (M, K), (K, N)
    constants = [m, n, k, BLOCK, BLOCK, *strides, p["tile_m"], BLOCK, BLOCK, GROUP_ROWS, BF16, int(p["swap"]), 1]
    return build([DeviceFunction("kernel", SYMBOL, kernel, [*arrays, *constants])], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind TileGym's `w8a8_block_fp8_matmul`, scales of A as a view (M, blocks)."""
    w, p = workload, build.params
    if (w.m, w.n, w.k) != (p["m"], p["n"], p["k"]):
        raise ValueError(f"this build is for m {p['m']}, n {p['n']}, k {p['k']}, not for {w.id}")
    tiles = -(-w.m // p["tile_m"]) * -(-w.n // BLOCK)
    values = (inputs.a, inputs.b, outputs.c, inputs.a_scales.T, inputs.b_scales)
    return build.tile_runner(SYMBOL, values, (tiles, 1, 1))
