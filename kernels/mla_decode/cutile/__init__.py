"""`mla_decode` in cuTile: paged cache, dynamic batch and kv length, split-KV, combine kernel.

The kernel is this project's. A build holds eight device functions, or thirteen. `kernel` computes splits of requests
(float32 partial results) and `whole` requests in one split (no partial results), each in a wide and a narrow tiling;
`first` and `rest` are the same two for batches that have both, the second launched while the first still runs, in the
wide tiling alone. `undivided`, `undivided_first` and `undivided_rest` are used in place of the wide tiling where the
build has them: blocks of few rows over the whole latent width, with scaled 16-bit partial results. `combine` and
`combine_many` are the weighted mean of partial results, for few and for many splits, and have namesakes for scaled
ones. Which of them run is decided by the kv lengths when a workload is bound: see `plan.py` and `schedule.py`.
"""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.mla_decode.operator import Inputs, Outputs, Workload
from kernels.targets import TENSOR_CORES

DSL = "cutile"
SOURCE = "ours"
TARGETS = TENSOR_CORES | {"sm_120a": ("TMA",)}
# Device functions of a build: the name of its files and its symbol.
SYMBOLS = {
    "kernel": "mla_decode_split",
    "kernel_narrow": "mla_decode_split_narrow",
    "whole": "mla_decode_whole",
    "whole_narrow": "mla_decode_whole_narrow",
    "undivided": "mla_decode_whole_undivided",
    "undivided_first": "mla_decode_split_undivided",
    "undivided_rest": "mla_decode_rest_undivided",
    "first": "mla_decode_split_first",
    "rest": "mla_decode_whole_rest",
    "combine": "mla_decode_combine",
    "combine_many": "mla_decode_combine_many",
    "combine_scaled": "mla_decode_combine_scaled",
    "combine_many_scaled": "mla_decode_combine_many_scaled",
}
TILING = ("rows", "keys", "parts", "warps")
# A tiling: query rows x keys per tile, blocks that share the latent width, warps that compute (0: the compiler's
# choice). A candidate is a wide tiling, a narrow one, and the latency hint of the loads; the default comes first.
# docs/decisions/mla_cutile.md has the times of each.
BLACKWELL = (
    ((64, 64, 2, 8), (64, 64, 4, 0), 2),
    ((128, 64, 2, 8), (64, 64, 2, 0), 2),
    ((128, 64, 2, 0), (64, 64, 2, 0), 2),
)
CANDIDATES = {
    "sm_90a": (
        ((128, 64, 2, 8), (64, 64, 4, 4), 1),
        ((128, 64, 2, 8), (64, 64, 2, 4), 1),
        ((64, 64, 1, 8), (64, 64, 4, 4), 2),
    ),
    "sm_100a": BLACKWELL,  # in the order of predicted times
    "sm_103a": BLACKWELL,
    "sm_120a": (((16, 32, 2, 0), (16, 32, 4, 0), 2), ((32, 32, 2, 8), (16, 32, 4, 0), 2)),
}
# Where it is faster than the wide tiling: that of `undivided` and its two companions, the slices along the latent width
# in which they load a KV tile, and their latency hint.
UNDIVIDED = {"sm_90a": ((64, 64, 1, 8), 4, 3)}
# Pieces x rows x latent columns that a block of `combine` and of `combine_many` takes at a time.
COMBINE_TILES = {"combine": (4, 4, 256), "combine_many": (16, 1, 512)}

MOST_ITEMS = 65_535  # the grid's second extent; a request is one item or several


def supports(workload: Workload) -> str | None:
    """Every dtype, kv length, page order, number of heads and query tokens."""
    if workload.batch > MOST_ITEMS:
        return f"batch is {workload.batch}: the grid of a launch has room for {MOST_ITEMS} requests"
    for name in ("latent", "rope"):
        value = getattr(workload, name)
        if value < 16 or value & (value - 1):
            return f"{name} is {value}: a cuTile tile has extents that are powers of two, here from 16 up"
    if workload.rope > workload.latent:
        return f"rope {workload.rope} is wider than latent {workload.latent}: it must start at a multiple of its width"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """One build per dtype and candidate, for every batch and kv length."""
    result = []
    for wide, narrow, latency in CANDIDATES[target]:
        name = "_".join([workload.dtype, *("x".join(map(str, tiling)) for tiling in (wide, narrow)), f"t{latency}"])
        if (workload.latent, workload.rope) != (512, 64):
            name += f"_l{workload.latent}_r{workload.rope}"
        params = {"dtype": workload.dtype, "latent": workload.latent, "rope": workload.rope, "latency": latency}
        for prefix, tiling in (("wide", wide), ("narrow", narrow)):
            params |= dict(zip((f"{prefix}_{key}" for key in TILING), tiling, strict=True))
        if target in UNDIVIDED and workload.latent == 512 and workload.dtype != "fp8":
            params |= dict(zip((f"undivided_{key}" for key in TILING), UNDIVIDED[target][0], strict=True))
        result.append(Variant(name, params))
    return tuple(result)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build, scalar
    from kernels.mla_decode.cutile import kernel as device

    p = variant.params
    pages, items, merges = (array("int32", 2, aligned=False) for _ in range(3))
    inputs = [array(p["dtype"], 3), array(p["dtype"], 3), pages, items]
    out = [array(p["dtype"], 3), array("fp32", 2, aligned=False)]
    partial = [array("fp32", 3), array("fp32", 2, aligned=False)]
    scaled = [array("fp16", 3), *(array("fp32", 2, aligned=False) for _ in range(2))]
    numbers = [scalar("fp32"), scalar("int32"), scalar("int32")]

    def attention(stem: str, kernel: Any, results: list[Any]) -> DeviceFunction:
        prefix = "narrow" if stem.endswith("narrow") else "wide"
        tiling = [p[f"{prefix}_rows"], p[f"{prefix}_keys"], p["latent"], p["rope"], p[f"{prefix}_parts"], p["latency"]]
        hinted = kernel.replace_hints(num_worker_warps=p[f"{prefix}_warps"] or None)
        return DeviceFunction(stem, SYMBOLS[stem], hinted, inputs + results + numbers + tiling)

    functions = []
    for suffix in ("", "_narrow"):
        functions.append(attention(f"kernel{suffix}", device.split, partial))
        functions.append(attention(f"whole{suffix}", device.whole, out))
    functions.append(attention("first", device.split_first, partial))
    functions.append(attention("rest", device.whole_rest, out))
    if "undivided_rows" in p:
        (rows, keys, _, warps), splits, latency = UNDIVIDED[target]
        tiling = [rows, keys, p["latent"], p["rope"], splits, latency]
        for stem, kernel, results in (
            ("undivided", device.whole_undivided, out),
            ("undivided_first", device.split_undivided, scaled),
            ("undivided_rest", device.rest_undivided, out),
        ):
            hinted = kernel.replace_hints(num_worker_warps=warps)
            functions.append(DeviceFunction(stem, SYMBOLS[stem], hinted, inputs + results + numbers + tiling))
    for stem, (splits, rows, columns) in COMBINE_TILES.items():
        tile = [splits, rows, min(columns, p["latent"])]
        functions.append(DeviceFunction(stem, SYMBOLS[stem], device.combine, [*partial, merges, *out, *tile]))
        if "undivided_rows" in p:
            stem += "_scaled"
            functions.append(DeviceFunction(stem, SYMBOLS[stem], device.combine_scaled, [*scaled, merges, *out, *tile]))
    return build(functions, target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One launch if no request is split, two or three otherwise: see `run`."""
    from kernels.mla_decode.cutile import run

    return run.bind(build, workload, inputs, outputs)
