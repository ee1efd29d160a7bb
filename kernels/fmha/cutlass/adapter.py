"""What the adapters of NVIDIA's CUTLASS attention examples share: `cutlass_sm90` and `cutlass_sm100`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Variant, not_baked

if TYPE_CHECKING:
    from kernels.fmha.operator import Workload

FUNCTION = "fmha"
LOG2_E = 1.0 / math.log(2.0)


@not_baked
def variant(workload: Workload, tile_m: int, tile_n: int) -> Variant:
    """Return the build for a workload, its mask as NVIDIA's runner chooses it."""
    w = workload
    mask = "causal" if w.causal else "residual" if w.length % tile_n else "none"
    params = {"dtype": w.dtype, "head_dim": w.head_dim, "tile_m": tile_m, "tile_n": tile_n, "mask": mask}
    return Variant(f"{w.dtype}_d{w.head_dim}_{tile_m}x{tile_n}_{mask}", params)


def compile(path: str, name: str, variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    """Build the class `name` of the example `path`."""
    from cutesnake.stages.compile import cute as cute_build

    def program() -> tuple[Any, tuple[Any, ...]]:
        from kernels.fmha.cutlass import program as cutlass_program

        return cutlass_program.program(path, name, **variant.params)

    return cute_build.build(program, FUNCTION, target, folder)
