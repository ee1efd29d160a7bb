"""Adapter of TileGym's `rms_norm` (cuTile), all three of its modes.

TileGym picks its mode by the number of rows and of multiprocessors: more than two rows for each go to the persistent
kernel, whose blocks hold whole rows and take tile after tile; fewer go to a block per row that reads the row twice
(`reload`). The third, a block per row that holds it in registers (`cached`), a caller has to ask for. TileGym also
writes 1 / root of each row, which its backward pass reads; it goes to a workspace here.
"""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.matrices import refuse_extents
from kernels.rmsnorm.operator import DTYPES, EPS, Inputs, Outputs, Workload
from kernels.targets import MULTIPROCESSORS
from kernels.upstream import tilegym as upstream

DSL = "cutile"
SOURCE = upstream.SOURCE
TARGETS: dict[str, tuple[str, ...]] = dict.fromkeys(upstream.TARGETS, ())
SYMBOLS = {name: f"tilegym_rms_norm_{name}" for name in ("persistent", "reload", "cached")}
RELOAD_BYTES = 4096  # largest tile of `reload`
LARGEST_TILE = 2**14  # elements of a row that a block holds at once; beyond, registers spill without end


def supports(workload: Workload) -> str | None:
    return refuse_extents(workload)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return TileGym's choice first, then its other modes that can hold a row.

    On a B200 the mode `reload` comes first: it does not spill, and is predicted to be as fast or faster.
    """
    w = workload
    size, padded = DTYPES[w.dtype], 1 << (w.columns - 1).bit_length()
    known = {"dtype": w.dtype, "eps": EPS, "aligned": w.columns * size % 16 == 0}
    tile_m = 16 if padded <= 1024 else 2 if padded >= 16384 else 4
    persistent = {**known, "mode": "persistent", "tile_m": tile_m, "tile_n": padded}
    reload = {**known, "mode": "reload", "columns": w.columns, "tile_n": min(RELOAD_BYTES // size, padded)}
    cached = {**known, "mode": "cached", "columns": w.columns, "tile_n": padded}
    few = w.rows <= 2 * MULTIPROCESSORS[target] or target in ("sm_100a", "sm_103a")
    modes = [reload, persistent, cached] if few else [persistent, reload, cached]
    return tuple(
        Variant(_name(mode), mode)
        for place, mode in enumerate(modes)
        if place == 0 or mode["mode"] == "reload" or padded <= LARGEST_TILE
    )


@not_baked
def _name(p: dict[str, Any]) -> str:
    shape = f"{p['tile_m']}x{p['tile_n']}" if p["mode"] == "persistent" else f"n{p['columns']}"
    return f"{p['dtype']}_{p['mode']}_{shape}" + ("" if p["aligned"] else "_unaligned")


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build

    p = variant.params
    module = upstream.module("rms_norm")
    matrix = array(p["dtype"], 2, aligned=p["aligned"])
    weight = array(p["dtype"], 1, aligned=p["aligned"])
    rstd = array("fp32", 1, aligned=False)
    offset = 0.0  # the weight is used as it is, not as 1 + weight
    if p["mode"] == "persistent":
        kernel = module._rms_norm_kernel_static_persistent
        parameters = [matrix, matrix, weight, rstd, p["tile_m"], p["tile_n"], p["eps"], offset]
    else:
        kernel = module._rms_norm_kernel_gather if p["mode"] == "reload" else module._rms_norm_kernel_multi_wave_cached
        parameters = [matrix, weight, matrix, rstd, p["columns"], p["eps"], offset, p["tile_n"]]
    return build([DeviceFunction("kernel", SYMBOLS[p["mode"]], kernel, parameters)], target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind TileGym's `forward`; ValueError for another eps than the build's."""
    import torch

    from cutesnake.stages.load.cutile import multiprocessors

    p = build.params
    if inputs.eps != p["eps"]:
        raise ValueError(f"eps is a constant of this build, {p['eps']}, not {inputs.eps}")
    rows = workload.rows
    rstd = torch.empty(rows, dtype=torch.float32, device=inputs.x.device)
    if p["mode"] == "persistent":
        blocks = min(multiprocessors(), -(-rows // p["tile_m"]))
        values = [inputs.x, outputs.y, inputs.weight, rstd]
    else:
        blocks, values = rows, [inputs.x, inputs.weight, outputs.y, rstd]
    symbol = SYMBOLS[p["mode"]]
    return build.tile_runner(symbol, values, (blocks, 1, 1))
