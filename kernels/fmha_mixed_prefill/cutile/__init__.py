"""`fmha_mixed_prefill` in cuTile: FlashAttention-2 over int8, e4m3 or int4 keys and values."""

import math
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.fmha_mixed_prefill.operator import BITS, Inputs, Outputs, Workload
from kernels.targets import TENSOR_CORES

DSL = "cutile"
SOURCE = "ours"
TARGETS = TENSOR_CORES | {"sm_120a": ("TMA",)}
SYMBOL = "fmha_mixed_prefill"
# Queries x keys of a tile for heads of up to 256 elements, and for wider ones; warps that compute. The default first.
TILINGS = (((128, 64), (64, 64), 8), ((64, 64), (64, 32), 4))
LOG2_E = 1.0 / math.log(2.0)


def supports(workload: Workload) -> str | None:
    w = workload
    if not 64 <= w.head_dim <= 512 or w.head_dim & (w.head_dim - 1):
        return f"head_dim is {w.head_dim}: this kernel takes powers of two from 64 to 512"
    if w.batch * w.heads > 65_535:
        return f"batch x heads is {w.batch * w.heads}: the grid of a launch has room for 65,535"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per format, head width, group size and mask."""
    w = workload
    known = {"dtype": w.dtype, "bits": BITS[w.dtype], "width": w.head_dim, "group": w.group, "causal": w.causal}
    # Rows of scales are read as they are: only rows of whole 16 bytes may come by TMA.
    known["aligned"] = w.length % 8 == 0
    result = []
    for narrow, wide, warps in TILINGS:
        rows, keys = narrow if w.head_dim <= 256 else wide
        name = [w.dtype, f"d{w.head_dim}g{w.group}", f"{rows}x{keys}w{warps}"]
        name += ["causal"] * w.causal + ["unaligned"] * (not known["aligned"])
        result.append(Variant("_".join(name), {**known, "rows": rows, "keys": keys, "warps": warps}))
    return tuple(result)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build, scalar
    from kernels.fmha_mixed_prefill.cutile.kernel import attention

    p = variant.params
    codes = array("int8" if p["bits"] == 4 else p["dtype"], 3)
    scales = array("bf16", 2, aligned=p["aligned"])
    tensors = [array("bf16", 3), codes, codes, scales, scales, array("bf16", 3)]
    constants = [p["group"], p["causal"], p["rows"], p["keys"], p["width"], p["bits"]]
    kernel = attention.replace_hints(num_worker_warps=p["warps"] if target == "sm_90a" else None)
    parameters = [*tensors, scalar("int32"), scalar("fp32"), *constants]
    return build([DeviceFunction("kernel", SYMBOL, kernel, parameters)], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One launch: a block per tile of queries and head."""
    w, p, i = workload, build.params, inputs
    planes = w.batch * w.kv_heads
    q, out = (tensor.view(w.batch * w.heads, w.length, w.head_dim) for tensor in (i.q, outputs.out))
    k, v = (codes.view(planes, w.length, -1) for codes in (i.k, i.v))
    scales = [scale.view(planes, w.length) for scale in (i.k_scale, i.v_scale)]
    values = (q, k, v, *scales, out, w.length, i.softmax_scale * LOG2_E)
    grid = (-(-w.length // p["rows"]), w.batch * w.heads, 1)
    return build.tile_runner(SYMBOL, values, grid)
