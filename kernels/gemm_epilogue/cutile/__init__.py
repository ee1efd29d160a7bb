"""`gemm_epilogue` in cuTile: a block computes a tile of D with its epilogue."""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_epilogue.operator import Inputs, Outputs, Workload
from kernels.targets import TENSOR_CORES as TARGETS
from kernels.upstream.gemm import refused_rows

DSL = "cutile"
SOURCE = "ours"
SYMBOL = "gemm_epilogue"
TILES = ((128, 128, 64), (128, 256, 64), (64, 128, 64))  # M x N x K
# For Hopper: M x N x K, blocks per multiprocessor, worker warps (0: the compiler chooses). Tiles of 256 rows or columns
# spill with fewer than eight.
HOPPER_TILES = (
    (128, 256, 64, 1, 8),
    (256, 128, 64, 1, 8),
    (128, 128, 64, 1, 0),
    (128, 128, 64, 1, 8),
    (128, 128, 64, 2, 0),
    (64, 128, 64, 1, 0),
    (64, 64, 64, 2, 0),
)


def supports(workload: Workload) -> str | None:
    """All whose rows are whole multiples of 16 bytes, which the builds promise."""
    return refused_rows(("k", workload.k, 16, "A and B"), ("n", workload.n, 16, "C and D"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    w = workload
    result = []
    hopper = HOPPER_TILES if w.m > 128 else HOPPER_TILES[::-1]  # the fastest on an H200 first
    for m, n, k, *hints in hopper if target == "sm_90a" else TILES:
        params: dict[str, Any] = {"dtype": w.dtype, "activation": w.activation, "tile_m": m, "tile_n": n, "tile_k": k}
        params |= dict(zip(("occupancy", "warps"), hints, strict=False))
        name = f"{w.dtype}_{w.activation}_{m}x{n}x{k}" + ("_o{}_w{}".format(*hints) if hints else "")
        result.append(Variant(name, params))
    return tuple(result)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build, scalar
    from kernels.gemm_epilogue.cutile.kernel import gemm_epilogue

    p = variant.params
    activation = ("identity", "relu", "silu").index(p["activation"])
    constants = [p["tile_m"], p["tile_n"], p["tile_k"], activation]
    parameters = [*[array(p["dtype"], 2)] * 4, scalar("fp32"), scalar("fp32"), *constants]
    hints = {"occupancy": p.get("occupancy"), "num_worker_warps": p.get("warps") or None}
    kernel = gemm_epilogue.replace_hints(**hints) if "warps" in p else gemm_epilogue
    return build([DeviceFunction("kernel", SYMBOL, kernel, parameters)], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One block per tile of D."""
    p = build.params
    blocks = -(-workload.m // p["tile_m"]) * -(-workload.n // p["tile_n"])
    values = (inputs.a, inputs.b, inputs.c, outputs.d, inputs.alpha, inputs.beta)
    return build.tile_runner(SYMBOL, values, (blocks, 1, 1))
