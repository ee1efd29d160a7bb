"""What the adapters of the Hopper products share: variants, builds and launches."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked, nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TARGETS = {"sm_90a": ("TMA", "wgmma")}
FUNCTION = "hopper_gemm"


@dataclass(frozen=True)
class Tiling:
    """Rows and columns of D per tile, and CTAs per SM."""

    tile_m: int
    tile_n: int
    occupancy: int = 1

    @property
    def id(self) -> str:
        return f"{self.tile_m}x{self.tile_n}_o{self.occupancy}"


LARGE, SMALL = Tiling(128, 256), Tiling(64, 128, 2)
TILINGS = (LARGE, Tiling(128, 128), SMALL, Tiling(64, 64, 2), Tiling(64, 32, 2))
SCALED_TILINGS = (Tiling(128, 128), SMALL, Tiling(64, 64, 2), Tiling(64, 32, 2))
# For few rows, the fastest of `gemm_blockwise` on an H200 first.
FEW_ROWS = (Tiling(64, 64, 2), SMALL, Tiling(64, 32, 2), Tiling(128, 128))
MIXED_TILINGS: tuple[Tiling, ...] = (
    Tiling(128, 128),
    Tiling(64, 128),
    Tiling(64, 64, 2),
    Tiling(16, 64, 2),
    Tiling(16, 128),
)


@not_baked
def variants(name: str, tilings: Iterable[Tiling], **choices: Any) -> tuple[Variant, ...]:
    """Return a build per tiling, each for every size."""
    return tuple(Variant(f"{name}_{tiling.id}", {**choices, **asdict(tiling)}) for tiling in tilings)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile import cute as cute_build

    def program() -> tuple[Any, tuple[Any, ...]]:
        from kernels.hopper_gemm.grouped import HopperGrouped
        from kernels.hopper_gemm.kernel import HopperGemm
        from kernels.hopper_gemm.mixed import HopperMixed

        choices = dict(variant.params)
        tile = choices.pop("tile_m"), choices.pop("tile_n")
        kind = HopperMixed if choices.pop("mixed", False) else HopperGrouped if "count" in choices else HopperGemm
        kernel = kind(tile=tile, **choices)
        return kernel, kernel.arguments()

    return cute_build.build(program, FUNCTION, target, folder)


@not_baked
def bind(
    build: Build,
    operands: tuple[Any, Any, Any],  # A [batch, m, k], B [groups, n, k], D [batch, m, n]
    epilogue: tuple[Any, Any, Any] = (None, None, None),  # C [m, n], alpha, beta
    scales: tuple[Any, Any] = (None, None),  # of A [batch, blocks along k, m], of B [groups, along n, along k]
    groups: Any = None,  # int32: the group of each row, or rows in use
    finish: Callable[[], None] = nothing,
) -> Runner:
    """Bind as many CTAs as the GPU holds, or as there are tiles."""
    from cutesnake.stages.load.cute import multiprocessors

    p, d = build.params, operands[2]
    batch, m, n = d.shape
    tiles = batch * -(-m // p["tile_m"]) * -(-n // p["tile_n"])
    ctas = min(tiles, p["occupancy"] * multiprocessors(d.device))
    return build.runner((*operands, *epilogue, *scales, groups, tiles, ctas), (ctas, 1, 1), finish)
