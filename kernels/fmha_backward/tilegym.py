"""TileGym's `attention` (cuTile), backward: kernels for row sums, dK and dV, dQ."""

import math
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.fmha_backward.operator import Inputs, Outputs, Workload
from kernels.upstream import tilegym as upstream
from kernels.upstream.tilegym import SOURCE, TARGETS

DSL = "cutile"
SYMBOLS = ("tilegym_fmha_bwd_preprocess", "tilegym_fmha_bwd_dkdv", "tilegym_fmha_bwd_dq")
STEMS = ("preprocess", "kernel", "dq")
WIDTH = 128
# Queries x keys of the tiles of dK and dV, then of dQ: of what TileGym's tuner tries for heads of 128 the largest, and
# what it takes where tuning is switched off.
TILINGS = ((64, 64, 64, 64), (16, 32, 32, 16))
# This project's additions for Hopper, where 64 x 64 spills: the same four, blocks per multiprocessor, worker warps (0:
# the compiler's choice).
ADDED = ((64, 128, 128, 128, 1, 8), (128, 64, 128, 128, 1, 8), (64, 64, 128, 64, 1, 8), (64, 64, 64, 128, 1, 0))
SUM_ROWS = 16  # queries of a block of the row sums
PADDING = 64  # queries: TileGym pads the log-sum-exp to its largest tile, by a copy
LOG2_E = 1.0 / math.log(2.0)


def supports(workload: Workload) -> str | None:
    if workload.head_dim != WIDTH:
        return f"head_dim is {workload.head_dim}: the tilings taken over from TileGym are for {WIDTH}"
    if workload.window:
        return f"window is {workload.window}: TileGym's backward pass has none"
    if workload.lengths != "full":
        return f"lengths are {workload.lengths}: TileGym's backward pass takes sequences of one length"
    if workload.length % PADDING:
        return f"length is {workload.length}: TileGym copies the log-sum-exp where it is no multiple of {PADDING}"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return builds whose length and both head counts are compile-time constants."""
    w = workload
    result = []
    for kv_m, kv_n, q_m, q_n, *hints in (*TILINGS, *(ADDED if target == "sm_90a" else ())):
        if w.length % max(kv_m, kv_n, q_m, q_n):
            continue  # the log-sum-exp has no padding
        params: dict[str, Any] = {"dtype": w.dtype, "length": w.length, "heads": w.heads, "kv_heads": w.kv_heads}
        params |= {"causal": w.causal, "kv_m": kv_m, "kv_n": kv_n, "q_m": q_m, "q_n": q_n}
        params |= dict(zip(("occupancy", "warps"), hints, strict=False))
        name = [w.dtype, f"s{w.length}h{w.heads}kv{w.kv_heads}", f"{kv_m}x{kv_n}", f"{q_m}x{q_n}"]
        name += ["o{}w{}".format(*hints)] if hints else []
        result.append(Variant("_".join(name + ["causal"] * w.causal), params))
    return tuple(result)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build, scalar

    p = variant.params
    module = upstream.module("attention")
    for kind, tiles in () if "warps" in p else (("dkdv", "kv"), ("dq", "q")):
        wanted = {"TILE_M": p[f"{tiles}_m"], "TILE_N": p[f"{tiles}_n"]}
        upstream.require_offered(module, f"_fmha_bwd_{kind}_autotune_configs", target, wanted, WIDTH)
    tensor, vector, scale = array(p["dtype"], 4), array("fp32", 1), scalar("fp32")
    heads, kv_heads, length, group = p["heads"], p["kv_heads"], p["length"], p["heads"] // p["kv_heads"]
    arguments = {
        "preprocess": [tensor, tensor, vector, SUM_ROWS, WIDTH, heads, length],
        "kernel": [*[tensor] * 6, vector, vector, scale, WIDTH, heads, kv_heads, length, p["kv_m"], p["kv_n"]],
        "dq": [*[tensor] * 5, vector, vector, scale, WIDTH, heads, length, p["q_m"], p["q_n"]],
    }
    hints = {"occupancy": 2, "warps": 0, **p}  # the default of TileGym's `_kernel_hints`
    kernels = (
        module._fmha_bwd_preprocess_kernel,
        upstream.hinted(module._fmha_bwd_dkdv_kernel, hints),
        upstream.hinted(module._fmha_bwd_dq_kernel, hints),
    )
    functions = [
        DeviceFunction(stem, symbol, kernel, arguments[stem] + [group, p["causal"]] * (stem != "preprocess"))
        for stem, symbol, kernel in zip(STEMS, SYMBOLS, kernels, strict=True)
    ]
    return build(functions, target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind the grids and arguments of TileGym's `_fmha_backward`.

    Heads come before tokens: views, no copies. TileGym keeps the log-sum-exp to base 2: it is converted first, in every
    call.
    """
    import torch

    from cutesnake.stages.load.cutile import TileLaunch, sequence
    from kernels.upstream.installed import on_stream

    w, p, scale = workload, build.params, inputs.softmax_scale
    if w.length != p["length"]:
        raise ValueError(f"this build is for sequences of {p['length']} tokens, not {w.length}")
    q, k, v, out, dout = (x.transpose(1, 2) for x in (inputs.q, inputs.k, inputs.v, inputs.out, inputs.dout))
    dq, dk, dv = (x.transpose(1, 2) for x in (outputs.dq, outputs.dk, outputs.dv))
    lse, delta = (torch.empty(inputs.lse.numel(), device=inputs.lse.device) for _ in range(2))
    values = ((out, dout, delta), (q, k, v, dout, dk, dv, lse, delta, scale), (q, k, v, dout, dq, lse, delta, scale))
    grids = (
        (-(-w.length // SUM_ROWS), w.batch * w.heads, 1),
        (-(-w.length // p["kv_n"]), w.batch * w.kv_heads, 1),
        (-(-w.length // p["q_m"]), w.batch * w.heads, 1),
    )
    runner = sequence(
        *(
            TileLaunch(build.cubin_function(stem, symbol), symbol, grid, arguments)
            for stem, symbol, grid, arguments in zip(STEMS, SYMBOLS, grids, values, strict=True)
        )
    )

    def enqueue(stream: int) -> None:
        with on_stream(lse, stream):
            torch.mul(inputs.lse.view(-1), LOG2_E, out=lse)
        runner(stream)

    return Runner(enqueue, runner.launches, with_torch=True)
