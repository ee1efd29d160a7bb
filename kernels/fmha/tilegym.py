"""TileGym's `attention` (cuTile), its inference form: a block per head's tile of queries."""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.fmha.operator import Inputs, Outputs, Workload
from kernels.upstream import tilegym as upstream
from kernels.upstream.tilegym import SOURCE, TARGETS

DSL = "cutile"
SYMBOL = "tilegym_fmha"
# Queries, keys, CTAs and blocks per multiprocessor, as its `_fmha_autotune_configs` lists them for both targets. On
# Hopper all of them spill. CTAs are paired on Blackwell only.
TILINGS = {
    "sm_90a": ((128, 128, 1, 2), (256, 128, 1, 1), (256, 128, 1, 2)),
    # ptxsim predicts 128 rows to be a fifth faster on a B200. Builds of 256 rows and one CTA spill 8 bytes.
    "sm_100a": ((128, 128, 1, 2), (256, 128, 2, 2), (256, 128, 1, 1), (256, 128, 1, 2)),
}
# This project's additions for Hopper: queries, keys, blocks per multiprocessor, worker warps (0: the compiler chooses).
# Eight warps hold a tile of 128 x 128 without a spill, the four that the compiler chooses do not.
ADDED = ((64, 128, 2, 0), (128, 128, 1, 8), (256, 128, 1, 8), (128, 64, 1, 8), (128, 64, 2, 0))


def supports(workload: Workload) -> str | None:
    w = workload
    if w.dtype == "fp8":
        return "TileGym's attention is written for 16-bit types"
    if w.head_dim & (w.head_dim - 1):
        return f"head_dim is {w.head_dim}: TileGym's attention takes powers of two"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return builds whose head counts, and whether keys fill whole tiles, are compile-time constants."""
    w = workload
    result = []
    tilings: list[tuple[int, int, int, int, int | None]] = [(*tiling, None) for tiling in TILINGS[target]]
    if target == "sm_90a":
        tilings = [(m, n, 1, blocks, warps) for m, n, blocks, warps in ADDED] + tilings
    for tile_m, tile_n, ctas, occupancy, warps in tilings:
        even = w.length % tile_n == 0
        params: dict[str, Any] = {"dtype": w.dtype, "heads": w.heads, "group": w.group, "head_dim": w.head_dim}
        params |= {"causal": w.causal, "even": even, "tile_m": tile_m, "tile_n": tile_n}
        params |= {"ctas": ctas, "occupancy": occupancy} | ({} if warps is None else {"warps": warps})
        name = [w.dtype, f"h{w.heads}g{w.group}d{w.head_dim}", f"{tile_m}x{tile_n}c{ctas}o{occupancy}"]
        name += [] if warps is None else [f"w{warps}"]
        name += ["causal"] * w.causal + ["ragged"] * (not even)
        result.append(Variant("_".join(name), params))
    return tuple(result)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build, scalar

    p = variant.params
    module = upstream.module("attention")
    wanted = {"TILE_M": p["tile_m"], "TILE_N": p["tile_n"], "num_ctas": p["ctas"], "occupancy": p["occupancy"]}
    generator = "_fmha_autotune_configs"
    if "warps" in p:
        kernel = upstream.hinted(module._fmha_kernel, p)
    else:
        kernel = upstream.configured(module, "_fmha_kernel", generator, target, wanted, p["head_dim"])
    tensors = [array(p["dtype"], 4)] * 4  # Q, K, V, Out
    numbers = [scalar("fp32"), scalar("int32")]  # scale, position of the first query
    constants = [p["head_dim"], p["heads"], p["tile_m"], p["tile_n"], p["group"], p["causal"], p["even"]]
    return build([DeviceFunction("kernel", SYMBOL, kernel, [*tensors, *numbers, *constants])], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind TileGym's `_cutile_autotune_fmha`, whose heads come before tokens: views, no copies."""
    w = workload
    tensors = [tensor.transpose(1, 2) for tensor in (inputs.q, inputs.k, inputs.v, outputs.out)]
    grid = (-(-w.length // build.params["tile_m"]), w.batch * w.heads, 1)
    values = [*tensors, inputs.softmax_scale, 0]
    return build.tile_runner(SYMBOL, values, grid)
