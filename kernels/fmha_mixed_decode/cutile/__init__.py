"""`fmha_mixed_decode` in cuTile, this project's: Flash-Decoding over a cache of int8, e4m3 or int4 codes.

Codes are expanded in registers.
"""

import math
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.fmha_mixed_decode.operator import BITS, Inputs, Outputs, Workload
from kernels.targets import BLACKWELL, MULTIPROCESSORS, TENSOR_CORES

DSL = "cutile"
SOURCE = "ours"
TARGETS = TENSOR_CORES | {"sm_120a": ("TMA",)}
SYMBOLS = {"kernel": "fmha_mixed_decode_split", "combine": "fmha_mixed_decode_combine"}
TILES = (64, 32)  # tokens of a tile
LEAST_HEADS, MOST_HEADS = 16, 64  # of a tile
LOG2_E = 1.0 / math.log(2.0)


def supports(workload: Workload) -> str | None:
    w = workload
    if not 64 <= w.head_dim <= 512 or w.head_dim & (w.head_dim - 1):
        return f"head_dim is {w.head_dim}: this kernel takes powers of two from 64 to 512"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return builds per cache format, head width and group size."""
    w = workload
    heads = min(max(1 << (w.group - 1).bit_length(), LEAST_HEADS), MOST_HEADS)
    known = {"dtype": w.dtype, "bits": BITS[w.dtype], "width": w.head_dim, "heads": heads}
    # Rows of scales are read as they are: only rows of whole 16 bytes may come by TMA.
    known["aligned"] = w.kv_length % 8 == 0
    name = f"{w.dtype}_d{w.head_dim}_h{heads}" + ("" if known["aligned"] else "_unaligned")
    tiles = w.batch * w.kv_heads * -(-w.kv_length // TILES[0])
    # Smaller tiles of bytes are predicted faster there, smaller tiles of int4 slower.
    few = target in BLACKWELL and known["bits"] == 8 and tiles < MULTIPROCESSORS[target]
    return tuple(Variant(f"{name}_n{tokens}", {**known, "tokens": tokens}) for tokens in sorted(TILES, reverse=not few))


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build, scalar
    from kernels.fmha_mixed_decode.cutile import kernel as device

    p = variant.params
    cache = array("int8" if p["bits"] == 4 else p["dtype"], 3)
    scales = array("bf16", 2, aligned=p["aligned"])
    partial = [array("fp32", 4), array("fp32", 3, aligned=False)]
    numbers = [scalar("int32"), scalar("int32"), scalar("fp32")]
    tile = [p["heads"], p["tokens"], p["width"], p["bits"]]
    split = [array("bf16", 3), cache, cache, scales, scales, *partial, *numbers, *tile]
    functions = [
        DeviceFunction("kernel", SYMBOLS["kernel"], device.split, split),
        DeviceFunction(
            "combine", SYMBOLS["combine"], device.combine, [*partial, array("bf16", 3), scalar("int32"), p["width"]]
        ),
    ]
    return build(functions, target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind a launch that splits caches to fill the GPU once, and their merge."""
    import torch

    from cutesnake.stages.load.cutile import TileLaunch, multiprocessors, sequence

    w, p, i = workload, build.params, inputs
    planes, head_tiles, tiles = w.batch * w.kv_heads, -(-w.group // p["heads"]), -(-w.kv_length // p["tokens"])
    splits = max(1, min(multiprocessors() // (planes * head_tiles), tiles))
    tiles_per_split = -(-tiles // splits)
    splits = -(-tiles // tiles_per_split)  # none without a tile
    k, v = (codes.view(planes, w.kv_length, -1) for codes in (i.k, i.v))
    k_scale, v_scale = (scale.view(planes, w.kv_length) for scale in (i.k_scale, i.v_scale))
    partial, lse = (
        torch.empty(planes, splits, w.group, *width, dtype=torch.float32, device=i.q.device)
        for width in ((w.head_dim,), ())
    )
    q, out = (tensor.view(planes, w.group, w.head_dim) for tensor in (i.q, outputs.out))
    numbers = (w.kv_length, tiles_per_split, i.softmax_scale * LOG2_E)
    values = {"kernel": (q, k, v, k_scale, v_scale, partial, lse, *numbers), "combine": (partial, lse, out, splits)}
    grids = {"kernel": (splits, head_tiles, planes), "combine": (w.group, planes, 1)}
    return sequence(
        *(
            TileLaunch(build.cubin_function(stem, symbol), symbol, grids[stem], values[stem])
            for stem, symbol in SYMBOLS.items()
        )
    )
