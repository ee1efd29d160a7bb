"""TileGym's `mla_decoding` (cuTile): a block per 16 heads and request, without split."""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.mla_decode import tilegym_inputs
from kernels.mla_decode.operator import Inputs, Outputs, Workload
from kernels.mla_decode.tilegym_inputs import supports
from kernels.upstream import tilegym as upstream
from kernels.upstream.tilegym import SOURCE, TARGETS

DSL = "cutile"
SYMBOL = "tilegym_mla_decoding"
MANY_TILES = 8  # from here on the compiler makes one loop of any number of tiles
TILING = {"sm_90a": (16, 64), "sm_100a": (16, 128)}  # heads x keys, as its `_select_tile_config` answers


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per kv length, a constant of TileGym's kernel."""
    w = workload
    tile_h, tile_n = TILING[target]
    params = {"dtype": w.dtype, "kv_length": w.kv_length, "latent": w.latent, "rope": w.rope}
    return (Variant(f"{w.dtype}_s{w.kv_length}", {**params, "tile_h": tile_h, "tile_n": tile_n}),)


@not_baked
def group_key(variant: Variant) -> str:
    """Return the group key of a build.

    Lengths are compile-time constants. Few tiles of keys, or a partial last one, change the loop.
    """
    tiles, rest = divmod(variant.params["kv_length"], variant.params["tile_n"])
    return f"{variant.params['dtype']}, {tiles if tiles < MANY_TILES else 'many'} tiles{', one not full' * bool(rest)}"


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from unittest.mock import patch

    from cutesnake.stages.compile.cutile import DeviceFunction, array, build, scalar

    p = variant.params
    module = upstream.module("mla_decoding")
    with patch.object(module.torch.cuda, "get_device_capability", return_value=upstream.CAPABILITY[target]):
        chosen = module._select_tile_config()
    if chosen != (p["tile_h"], p["tile_n"]):
        raise ValueError(f"TileGym picks the tiling {chosen} for {target}, not {p['tile_h'], p['tile_n']}")
    tensors = [array(p["dtype"], 3)] * 6 + [array("fp32", 2)]  # Q, QPE, K, V, KPE, Out, L
    even = p["kv_length"] % p["tile_n"] == 0
    constants = [p["latent"], p["tile_h"], p["tile_n"], p["rope"], p["kv_length"], even]
    kernel = module._naive_absorb_mla_transpose_kernel
    function = DeviceFunction("kernel", SYMBOL, kernel, [*tensors, scalar("fp32"), *constants])
    return build([function], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind TileGym's `_MlaDecodingFunction.forward`; `finish` makes its LSE natural."""
    if workload.kv_length != build.params["kv_length"]:
        raise ValueError(f"this build is for kv length {build.params['kv_length']}, not {workload.kv_length}")
    q, q_rope, kv, k_rope = tilegym_inputs.views(workload, inputs)
    lse = outputs.lse[:, 0]
    values = [q, q_rope, kv, kv, k_rope, outputs.out[:, 0], lse, inputs.softmax_scale]
    grid = (-(-workload.heads // build.params["tile_h"]), workload.batch, 1)
    return build.tile_runner(SYMBOL, values, grid, lambda: lse.mul_(tilegym_inputs.LN_2))
