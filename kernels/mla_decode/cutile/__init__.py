"""`mla_decode` in cuTile, ours: paged cache, any batch and kv length from one build, split-KV with its own combine.

A build holds six device functions: `kernel` and `kernel_narrow` (a share of a request per block, float32 partial
results, in two tilings), `whole` and `whole_narrow` (all of a request, no partial results) and `combine` and
`combine_many` (the weighted mean of partial results, for few and for many shares). Which of them run is decided when a
workload is bound: see `cutile_run.choose_plan`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.contract import Build, Runner, Variant, not_baked

if TYPE_CHECKING:
    from kernels.mla_decode.operator import Inputs, Outputs, Workload

DSL = "cutile"
SOURCE = "ours"
TARGETS = {
    "sm_90a": ("TMA", "wgmma"),
    "sm_100a": ("tcgen05", "tensor memory"),
    "sm_103a": ("tcgen05", "tensor memory"),
    "sm_120a": ("TMA",),
}
# Device functions of a build: the name of its files and its symbol.
SYMBOLS = {
    "kernel": "mla_decode_split",
    "kernel_narrow": "mla_decode_split_narrow",
    "whole": "mla_decode_whole",
    "whole_narrow": "mla_decode_whole_narrow",
    "combine": "mla_decode_combine",
    "combine_many": "mla_decode_combine_many",
}
# A tiling: query rows x keys per tile, blocks that share the latent width, warps that compute (0: the compiler's
# choice). A candidate is a wide tiling, a narrow one, and the latency hint of the loads; the default comes first.
# README.md says what each was worth.
CANDIDATES = {
    "sm_90a": (
        ((128, 64, 2, 8), (64, 64, 4, 4), 1),
        ((128, 64, 2, 8), (64, 64, 2, 4), 1),
        ((64, 64, 1, 8), (64, 64, 4, 4), 2),
    ),
    "sm_100a": (((128, 64, 2, 0), (64, 64, 2, 0), 2), ((64, 64, 2, 0), (64, 64, 4, 0), 2)),
    "sm_103a": (((128, 64, 2, 0), (64, 64, 2, 0), 2), ((64, 64, 2, 0), (64, 64, 4, 0), 2)),
    "sm_120a": (((16, 32, 2, 0), (16, 32, 4, 0), 2), ((32, 32, 2, 8), (16, 32, 4, 0), 2)),
}
# Shares x rows x latent columns that a block of `combine` and of `combine_many` takes at a time.
COMBINE_TILES = {"combine": (4, 4, 256), "combine_many": (16, 1, 512)}


@not_baked
def supports(workload: Workload) -> str | None:
    """Every dtype, batch, kv length, page order, number of heads and query tokens."""
    for name in ("latent", "rope"):
        value = getattr(workload, name)
        if value < 16 or value & (value - 1):
            return f"{name} is {value}: a cuTile tile has extents that are powers of two, here from 16 up"
    if workload.rope > workload.latent:
        return f"rope {workload.rope} is wider than latent {workload.latent}: it must start at a multiple of its width"
    return None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """One build per dtype and candidate, for every batch and kv length."""
    found = []
    for wide, narrow, latency in CANDIDATES[target]:
        name = "_".join([workload.dtype, *("x".join(map(str, tiling)) for tiling in (wide, narrow)), f"t{latency}"])
        if (workload.latent, workload.rope) != (512, 64):
            name += f"_l{workload.latent}_r{workload.rope}"
        params = {"dtype": workload.dtype, "latent": workload.latent, "rope": workload.rope, "latency": latency}
        for prefix, tiling in (("wide", wide), ("narrow", narrow)):
            keys = (f"{prefix}_{key}" for key in ("rows", "keys", "parts", "warps"))
            params |= dict(zip(keys, tiling, strict=True))
        found.append(Variant(name, params))
    return tuple(found)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.build.cutile import DeviceFunction, array, build, scalar
    from kernels.mla_decode.cutile import kernel as device

    p = variant.params
    pages, lengths = array("int32", 2, aligned=False), array("int32", 1, aligned=False)
    query = [array(p["dtype"], 3), array(p["dtype"], 3), pages, lengths]
    out = [array(p["dtype"], 3), array("fp32", 2, aligned=False)]
    partial = [array("fp32", 4), array("fp32", 3, aligned=False)]
    numbers = [scalar("fp32"), scalar("int32"), scalar("int32")]

    def attention(stem: str, kernel: Any, results: list[Any], prefix: str) -> DeviceFunction:
        tiling = [p[f"{prefix}_rows"], p[f"{prefix}_keys"], p["latent"], p["rope"], p[f"{prefix}_parts"], p["latency"]]
        hinted = kernel.replace_hints(num_worker_warps=p[f"{prefix}_warps"] or None)
        return DeviceFunction(stem, SYMBOLS[stem], hinted, query + results + numbers + tiling)

    functions = [
        attention("kernel", device.split, partial, "wide"),
        attention("kernel_narrow", device.split, partial, "narrow"),
        attention("whole", device.whole, out, "wide"),
        attention("whole_narrow", device.whole, out, "narrow"),
    ]
    for stem, (shares, rows, columns) in COMBINE_TILES.items():
        tile = [shares, rows, min(columns, p["latent"])]
        functions.append(DeviceFunction(stem, SYMBOLS[stem], device.combine, partial + out + tile))
    return build(functions, target, folder)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One launch if no request is split, two otherwise: see `run`."""
    from kernels.mla_decode.cutile import run

    return run.bind(build, workload, inputs, outputs)
