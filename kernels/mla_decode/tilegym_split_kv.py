"""Adapter of TileGym's `mla_decoding_split_kv` with its `splitk_reduce` (cuTile, 16 heads per block, split keys)."""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.mla_decode import tilegym_inputs
from kernels.mla_decode.operator import Inputs, Outputs, Workload
from kernels.mla_decode.tilegym_inputs import supports
from kernels.targets import MULTIPROCESSORS
from kernels.upstream import tilegym as upstream
from kernels.upstream.tilegym import SOURCE, TARGETS

DSL = "cutile"
SYMBOLS = ("tilegym_mla_decoding_split_kv", "tilegym_splitk_reduce")
TILE_H, TILE_N = 16, 128
REDUCE_TILE_D = 128


def split_length(batch: int, kv_length: int, multiprocessors: int) -> int:
    """Keys per split, by the rule of TileGym's `_MlaDecodingSplitKvFunction.forward`."""
    keys = kv_length // max(1, multiprocessors // batch)
    return max(_next_power_of_2(keys), TILE_N)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per number and length of splits, which are constants."""
    w = workload
    length = split_length(w.batch, w.kv_length, MULTIPROCESSORS[target])
    splits = -(-w.kv_length // length)
    even = w.kv_length % TILE_N == 0
    params = {"dtype": w.dtype, "splits": splits, "split_length": length, "even": even}
    params |= {"heads": w.heads, "latent": w.latent, "rope": w.rope}
    heads = "" if w.heads == 128 else f"_h{w.heads}"
    return (Variant(f"{w.dtype}_{splits}x{length}{heads}" + ("" if even else "_ragged"), params),)


@not_baked
def group_key(variant: Variant) -> str:
    """Return the group key of a build.

    Splits, their lengths and heads are compile-time constants; a split of one tile has no loop. The reduction is a
    function of its own, whose shared memory grows with the number of splits.
    """
    p = variant.params
    loop = "a loop" if p["split_length"] > TILE_N else "one tile"
    return f"{p['dtype']}, {loop}{'' if p['even'] else ', the last one not full'}"


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build, scalar

    p = variant.params
    split = upstream.module("mla_decoding_split_kv")._naive_absorb_mla_transpose_kernel
    reduce = upstream.module("splitk_reduce")._splitk_reduce_kernel
    tensor, partial, partial_lse = array(p["dtype"], 3), array(p["dtype"], 4), array("fp32", 3, aligned=False)
    numbers = [scalar("fp32")] + [scalar("int32")] * 3  # scale, batch, heads, kv length
    constants = [p["splits"], p["split_length"], p["latent"], TILE_H, TILE_N, p["rope"], p["even"]]
    pow2 = _next_power_of_2(p["splits"])
    # Its batch and kv length are constants too, but nothing reads them: 0 stands for any.
    sizes = [0, 0, p["heads"], p["latent"], p["splits"], pow2, min(REDUCE_TILE_D, p["latent"]), pow2 >= 16]
    functions = [
        DeviceFunction("kernel", SYMBOLS[0], split, [tensor] * 5 + [partial, partial_lse] + numbers + constants),
        DeviceFunction("reduce", SYMBOLS[1], reduce, [partial, partial_lse, tensor, *sizes]),
    ]
    return build(functions, target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind workspace and TileGym's `forward`; `finish` makes the LSE, which it lacks."""
    import torch

    from cutesnake.stages.load.cutile import TileLaunch, sequence

    w, p = workload, build.params
    if -(-w.kv_length // p["split_length"]) != p["splits"] or (w.kv_length % TILE_N == 0) != p["even"]:
        raise ValueError(
            f"this build is for {p['splits']} splits of {p['split_length']} keys, not for kv length {w.kv_length}"
        )
    q, q_rope, kv, k_rope = tilegym_inputs.views(w, inputs)
    shape, out = (w.batch, w.heads, p["splits"]), outputs.out[:, 0]
    partial = torch.empty(*shape, w.latent, dtype=q.dtype, device=q.device)
    partial_lse = torch.empty(shape, dtype=torch.float32, device=q.device)
    values = [q, q_rope, kv, kv, k_rope, partial, partial_lse]
    values += [inputs.softmax_scale, w.batch, w.heads, w.kv_length]
    grid = (-(-w.heads // TILE_H), w.batch, p["splits"])
    reduce_grid = (w.batch, w.heads, -(-w.latent // REDUCE_TILE_D))
    split, reduce = (build.cubin_function(stem, s) for stem, s in zip(("kernel", "reduce"), SYMBOLS, strict=True))

    def finish() -> None:
        outputs.lse[:, 0] = torch.logsumexp(partial_lse * tilegym_inputs.LN_2, dim=-1)

    return sequence(
        TileLaunch(split, SYMBOLS[0], grid, values),
        TileLaunch(reduce, SYMBOLS[1], reduce_grid, [partial, partial_lse, out]),
        finish=finish,
    )


def _next_power_of_2(number: int) -> int:
    """Return the smallest power of two from `number` up, 0 for 0, as TileGym."""
    return 1 << (number - 1).bit_length() if number > 0 else 0
