"""`gemm_blockscaled` in cuTile by `ct.mma_scaled`: a block per tile, any size."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_blockscaled.operator import BITS, BLOCK, Inputs, Outputs, Workload
from kernels.targets import BLACKWELL as TARGETS

DSL = "cutile"
SOURCE = "ours"
SYMBOL = "gemm_blockscaled"
ROW_BYTES = 128  # of a tile of codes: what a swizzled row of shared memory holds
ALIGNED = 16  # bytes: what TMA asks of every row
SCALE_TILE_BYTES = 512  # 128 rows by 4 scales


@dataclass(frozen=True)
class Tiling:
    """Elements of C per block, which `ctas` CTAs compute."""

    m: int
    n: int
    ctas: int = 1


TILINGS = (Tiling(128, 128), Tiling(128, 256), Tiling(256, 256, ctas=2))


def supports(workload: Workload) -> str | None:
    """All whose rows start at multiples of 16 bytes."""
    w = workload
    for name, size in {"A and B": w.row_bytes, "C": 2 * w.n}.items():
        if size % ALIGNED:
            return f"rows of {name} have {size} bytes: TMA takes multiples of {ALIGNED}"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return tuple(
        Variant(
            f"{workload.dtype}_{tiling.m}x{tiling.n}" + f"_ctas{tiling.ctas}" * (tiling.ctas > 1),
            {"dtype": workload.dtype, "tile_m": tiling.m, "tile_n": tiling.n, "ctas": tiling.ctas},
        )
        for tiling in TILINGS
    )


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build
    from kernels.gemm_blockscaled.cutile.kernel import product

    p = variant.params
    per_byte = 8 // BITS[p["dtype"]]
    arrays = [*[array("uint8", 2)] * 2, *[array("uint8", 3)] * 2, array("fp16", 2)]
    constants = [p["tile_m"], p["tile_n"], ROW_BYTES * per_byte, per_byte, BLOCK[p["dtype"]]]
    kernel = product.replace_hints(num_ctas=p["ctas"]) if p["ctas"] > 1 else product
    return build([DeviceFunction("kernel", SYMBOL, kernel, [*arrays, *constants])], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind one block per tile of C; a tile of scales is 512 bytes."""
    w, p = workload, build.params
    scales = [x.view(*x.shape[:2], SCALE_TILE_BYTES) for x in (inputs.a_scales, inputs.b_scales)]
    grid = (-(-w.m // p["tile_m"]), -(-w.n // p["tile_n"]), 1)
    values = (inputs.a, inputs.b, *scales, outputs.c)
    return build.tile_runner(SYMBOL, values, grid)
