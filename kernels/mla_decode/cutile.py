"""`mla_decode` in cuTile, ours: paged cache, any batch and kv length from one build, split-KV with its own combine.

A build holds four device functions: `kernel` (a share of a request per block, float32 partial results), `combine` and
`combine_many` (their weighted mean, for few and for many shares) and `whole` (a request per block, no partial results).
Which of them run is decided when a workload is bound: see `cutile_run.choose_splits`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cutesnake.contract import Executable, Variant

from kernels.mla_decode.operator import Workload

DSL = "cutile"
SOURCE = "ours"
TARGETS = {
    "sm_90a": "TMA and wgmma",
    "sm_100a": "tcgen05 and tensor memory",
    "sm_103a": "tcgen05 and tensor memory",
    "sm_120a": "TMA",
}
# Device functions of a build: the name of its files and its symbol.
SYMBOLS = {
    "kernel": "mla_decode_split",
    "combine": "mla_decode_combine",
    "combine_many": "mla_decode_combine_many",
    "whole": "mla_decode_whole",
}
# Candidate tilings per target, the default first: query rows x keys per tile, blocks that share the latent width, warps
# that compute (0: the compiler's choice), latency hint of the loads. See README.md for what each was worth.
TILINGS = {
    "sm_90a": ((128, 64, 2, 8, 1), (128, 64, 2, 8, 3), (64, 64, 1, 8, 2)),
    "sm_100a": ((128, 64, 2, 0, 2), (64, 64, 1, 0, 2)),
    "sm_103a": ((128, 64, 2, 0, 2), (64, 64, 1, 0, 2)),
    "sm_120a": ((16, 32, 1, 0, 2), (32, 32, 2, 0, 2)),
}
COMBINE_ROWS, COMBINE_SPLITS, COMBINE_COLUMNS = 16, 16, 256  # tiles of `combine` and `combine_many`


def supports(workload: Workload) -> str | None:
    """Every dtype, batch, kv length, page order, number of heads and query tokens."""
    for name in ("latent", "rope"):
        value = getattr(workload, name)
        if value < 16 or value & (value - 1):
            return f"{name} is {value}: a cuTile tile has extents that are powers of two, here from 16 up"
    if workload.rope > workload.latent:
        return f"rope {workload.rope} is wider than latent {workload.latent}: it must start at a multiple of its width"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """One build per dtype and tiling, for every batch and kv length."""
    found = []
    for rows, keys, parts, warps, latency in TILINGS[target]:
        name = f"{workload.dtype}_{rows}x{keys}_p{parts}_w{warps}_t{latency}"
        if (workload.latent, workload.rope) != (512, 64):
            name += f"_l{workload.latent}_r{workload.rope}"
        params = {"dtype": workload.dtype, "tile_h": rows, "tile_n": keys, "parts": parts, "warps": warps}
        params |= {"latency": latency, "latent": workload.latent, "rope": workload.rope}
        found.append(Variant(name, params))
    return tuple(found)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.cutile_build import DeviceFunction, array, build, scalar

    from kernels.mla_decode import cutile_kernel as device

    p = variant.params
    hints = {"num_worker_warps": p["warps"] or None}
    query = [
        array(p["dtype"], 3),
        array(p["dtype"], 3),
        array("int32", 2, aligned=False),
        array("int32", 1, aligned=False),
    ]
    out = [array(p["dtype"], 3), array("fp32", 2, aligned=False)]
    partial = [array("fp32", 4), array("fp32", 3, aligned=False)]
    numbers = [scalar("fp32"), scalar("int32"), scalar("int32")]
    tiling = [p["tile_h"], p["tile_n"], p["latent"], p["rope"], p["parts"], p["latency"]]
    attention = query + partial + numbers + tiling, query + out + numbers + tiling
    columns = min(COMBINE_COLUMNS, p["latent"])
    few, many = ([*partial, *out, tile, columns] for tile in (COMBINE_ROWS, COMBINE_SPLITS))
    functions = [
        DeviceFunction("kernel", SYMBOLS["kernel"], device.split.replace_hints(**hints), attention[0]),
        DeviceFunction("combine", SYMBOLS["combine"], device.combine_few, few),
        DeviceFunction("combine_many", SYMBOLS["combine_many"], device.combine_many, many),
        DeviceFunction("whole", SYMBOLS["whole"], device.whole.replace_hints(**hints), attention[1]),
    ]
    return build(functions, target, folder)


def load(folder: Path) -> Executable:
    from cutesnake import record
    from cutesnake.cutile_load import Cubin

    from kernels.mla_decode.cutile_run import Loaded

    params = record.read("compile", folder / "build.json")["variant"]["params"]
    functions = {stem: Cubin(folder / f"{stem}.cubin").function(symbol) for stem, symbol in SYMBOLS.items()}
    return Loaded(functions, SYMBOLS, params, (COMBINE_ROWS, COMBINE_COLUMNS))
