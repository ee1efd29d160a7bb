"""TileGym's `mamba2` (cuTile), forward: kernels for sums of decays, states and outputs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.mamba2_ssd.operator import Inputs, Outputs, Workload
from kernels.upstream import tilegym as upstream
from kernels.upstream.tilegym import SOURCE, TARGETS

DSL = "cutile"
SYMBOLS = ("tilegym_chunk_cumsum", "tilegym_fwd_pass_state", "tilegym_compute_out")
STEMS = ("cumsum", "states", "kernel")
HEADS_PER_BLOCK, SUM_BLOCKS = 4, 4  # of the sums: heads of a block, blocks per multiprocessor, TileGym's first choice
STATE_BLOCKS = 2  # blocks per multiprocessor of the states
LATENCY, STORE_LATENCY, PAIR_LATENCY, OUT_LATENCY = 4, 2, 2, 3  # hints to the compiler: TileGym's first choice
WIDEST = 64  # elements of a head in a block


@dataclass(frozen=True)
class Tiling:
    """Tokens of a chunk, state elements per block (states) and per step (outputs)."""

    chunk: int
    state: int
    out: int


# Chunks of 64 tokens are TileGym's default, whose outputs a different kernel computes than for longer chunks.
TILINGS = (Tiling(64, 64, 64), Tiling(128, 64, 64))


def supports(workload: Workload) -> str | None:
    w = workload
    if w.length % TILINGS[0].chunk:
        return f"length is {w.length}: TileGym takes whole chunks of {TILINGS[0].chunk} tokens"
    if w.heads % HEADS_PER_BLOCK:
        return f"heads is {w.heads}: TileGym sums decays of {HEADS_PER_BLOCK} heads at a time"
    if w.state % TILINGS[0].state or w.head_dim % min(WIDEST, w.head_dim):
        return f"head_dim x state is {w.head_dim} x {w.state}: TileGym's tiles hold {WIDEST} x {TILINGS[0].state}"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return builds: state extent and heads of a group are constants of TileGym's kernels."""
    w = workload
    result = []
    for tiling in TILINGS:
        if w.length % tiling.chunk:
            continue
        params: dict[str, Any] = {"dtype": w.dtype, "chunk": tiling.chunk, "share": w.share, "state": w.state}
        params |= {"head_tile": min(WIDEST, w.head_dim), "state_tile": tiling.state, "out_tile": tiling.out}
        result.append(Variant(f"{w.dtype}_c{tiling.chunk}_n{w.state}_share{w.share}", params))
    return tuple(result)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build

    p = variant.params
    module = upstream.module("mamba2")
    narrow = p["chunk"] == 64  # as TileGym's `_compute_out` chooses
    kernels = (
        module.chunk_cumsum_kernel.replace_hints(occupancy=SUM_BLOCKS),
        module.fwd_pass_state_kernel.replace_hints(num_ctas=1, occupancy=STATE_BLOCKS),
        (module.compute_out_swap_kernel if narrow else module.compute_out_kernel).replace_hints(occupancy=1),
    )

    def io(ndim: int) -> Any:
        return array(p["dtype"], ndim)

    def wide(ndim: int, aligned: bool = True) -> Any:
        return array("fp32", ndim, aligned)

    # Heads lie last in dt and the sums over them: their extent need not be a multiple of 16 bytes.
    steps = array(p["dtype"], 3, aligned=False)
    tiles = [p["chunk"], p["state_tile"], p["head_tile"], p["share"]]
    swap, heads_first, dual = False, True, False
    arguments: list[list[Any]] = [
        [wide(1, False), steps, wide(3, False), wide(3), io(3), p["chunk"], HEADS_PER_BLOCK],
        [io(4), io(4), io(3), wide(3), wide(4), io(5), io(5), wide(4), *tiles],
        [io(4), io(4), io(4), array(p["dtype"], 1, aligned=False), io(3), wide(3), io(5), io(4)],
    ]
    arguments[1] += [LATENCY, STORE_LATENCY, PAIR_LATENCY, swap, heads_first, dual]
    arguments[2] += [p["chunk"], p["out_tile"], p["head_tile"], p["share"], p["state"]]
    arguments[2] += [OUT_LATENCY] * (2 if narrow else 1) + [True]
    functions = [DeviceFunction(*each) for each in zip(STEMS, SYMBOLS, kernels, arguments, strict=True)]
    return build(functions[::-1], target, folder)  # the main one first


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind TileGym's `mamba2_chunk_forward`; its float32 last state is copied."""
    import torch

    from cutesnake.stages.load.cutile import TileLaunch, multiprocessors, sequence
    from kernels.upstream.installed import on_stream

    w, p, i = workload, build.params, inputs
    if w.length % p["chunk"]:
        raise ValueError(f"this build is for whole chunks of {p['chunk']} tokens, not for {w.length}")
    chunks = w.length // p["chunk"]

    def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(*shape, dtype=dtype, device=i.x.device)

    sums_last, sums = empty(w.batch, w.length, w.heads), empty(w.batch, w.heads, w.length)
    dt = empty(w.batch, w.heads, w.length, dtype=i.dt.dtype)
    before = torch.zeros(w.batch, w.heads, w.head_dim, w.state, device=i.x.device)
    after = torch.empty_like(before)
    states = empty(w.batch, w.heads, chunks, w.head_dim, w.state, dtype=i.x.dtype)
    values = (
        (i.a, i.dt, sums_last, sums, dt),
        (i.x, i.b, dt, sums, before, states, states, after),
        (i.x, i.b, i.c, i.d, dt, sums, states, outputs.y),
    )
    grids = (
        (chunks, w.heads // HEADS_PER_BLOCK, w.batch),
        (w.head_dim // p["head_tile"], w.state // p["state_tile"], w.batch * w.heads),
        (multiprocessors(), 1, 1),
    )
    runner = sequence(
        *(
            TileLaunch(build.cubin_function(stem, symbol), symbol, grid, arguments)
            for stem, symbol, grid, arguments in zip(STEMS, SYMBOLS, grids, values, strict=True)
        )
    )

    def enqueue(stream: int) -> None:
        runner(stream)
        with on_stream(after, stream):
            outputs.final_state.copy_(after)

    return Runner(enqueue, runner.launches, with_torch=True)
