"""`gemm_mixed` in cuTile: a block per tile of C, weights converted tile by tile."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.gemm_mixed.operator import BITS, Inputs, Outputs, Workload
from kernels.targets import TENSOR_CORES as TARGETS
from kernels.upstream.gemm import refused_rows

DSL = "cutile"
SOURCE = "ours"
SYMBOL = "gemm_mixed"
TILE_K = 128  # a block of B's scales
CODES = {"int8": "int8", "int4": "int8", "fp8": "fp8"}  # element type of the array of codes; of int4, bytes of two


@dataclass(frozen=True)
class Tiles:
    """Rows and columns of C per block."""

    tile_m: int
    tile_n: int


TILES = (Tiles(64, 128), Tiles(128, 128), Tiles(64, 64))


def supports(workload: Workload) -> str | None:
    return refused(workload.n, workload.k, BITS[workload.dtype])


@not_baked
def refused(n: int, k: int, bits: int) -> str | None:
    """Rows must be whole multiples of 16 bytes, which the builds promise."""
    return refused_rows(("k", k, bits, "B"), ("n", n, 16, "C"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per type of weights and tile, which serves every size."""
    dtype = workload.dtype
    return tuple(Variant(f"{dtype}_{t.tile_m}x{t.tile_n}", {"dtype": dtype, **asdict(t)}) for t in TILES)


def constraints(dtype: str) -> list[Any]:
    """Of A, of the codes and the scales of B, and of C."""
    from cutesnake.stages.compile.cutile import array

    scales = array("bf16", 3, aligned=dtype == "int4")  # [1, 1, 1] where there are none
    return [array("bf16", 2), array(CODES[dtype], 3), scales, array("bf16", 2)]


def constants(params: Any) -> list[int]:
    """Return the constants of both mixed kernels."""
    p = params
    return [p["tile_m"], p["tile_n"], p.get("tile_k", TILE_K), BITS[p["dtype"]], int(p["dtype"] == "int4")]


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, build
    from kernels.gemm_mixed.cutile.kernel import gemm_mixed

    parameters = [*constraints(variant.params["dtype"]), *constants(variant.params)]
    return build([DeviceFunction("kernel", SYMBOL, gemm_mixed, parameters)], target, folder)


@not_baked
def codes(b: Any) -> Any:
    """View bytes of two int4 as signed, so that shifts keep the sign."""
    import torch

    return b.view(torch.int8) if b.dtype == torch.uint8 else b


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One block per tile of C."""
    w, p = workload, build.params
    blocks = -(-w.m // p["tile_m"]) * -(-w.n // p["tile_n"])
    values = (inputs.a, codes(inputs.b)[None], inputs.b_scales[None], outputs.c)
    return build.tile_runner(SYMBOL, values, (blocks, 1, 1))
