"""NVIDIA's CUTLASS example `blackwell/fmha_bwd.py` in CuTe DSL: unmodified, from the fetched wheel."""

from typing import Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.fmha_backward.operator import Inputs, Outputs, Workload
from kernels.programs import compile_program
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
WIDTHS = (64, 128)
TILE = (128, 128)  # queries x keys, the example's default
SUM_ROWS, CONVERT_ROWS = 16, 8  # queries of a block of the first and the last kernel
compile = compile_program("kernels.fmha_backward.cutlass.program:program", "fmha_backward")


def supports(workload: Workload) -> str | None:
    if workload.head_dim not in WIDTHS:
        return f"NVIDIA's example takes heads of {' and '.join(map(str, WIDTHS))}"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return builds, the mask compiled in as NVIDIA's runner chooses it."""
    w, (tile_m, tile_n), ragged = workload, TILE, workload.lengths == "ragged"
    mask = "causal" if w.causal else "residual" if ragged or w.length % tile_m else "none"
    params: dict[str, Any] = {"dtype": w.dtype, "head_dim": w.head_dim, "tile_m": tile_m, "tile_n": tile_n}
    params |= {"mask": mask, "window": w.window, "ragged": ragged}
    name = f"{w.dtype}_d{w.head_dim}_{mask}" + f"_w{w.window}" * bool(w.window) + "_ragged" * ragged
    return (Variant(name, params),)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Three launches, and before them the workspace is cleared, in which dQ is summed."""
    import torch

    from cutesnake.stages.load.cute import Call
    from kernels.upstream.installed import on_stream

    w, p = workload, build.params
    rows = w.batch * w.heads * (-(-w.length // 8) * 8)  # as the example's `_get_workspace_size` rounds
    workspace = torch.empty(4 * rows * (2 + w.head_dim), dtype=torch.uint8, device=inputs.q.device)
    read = (inputs.q, inputs.k, inputs.v, inputs.out, inputs.lse, inputs.dout)
    table = (inputs.starts, w.length) if p["ragged"] else ()
    arguments = (*read, outputs.dq, outputs.dk, outputs.dv, *table, workspace, inputs.softmax_scale)
    call = Call(build.function(), arguments)

    def enqueue(stream: int) -> None:
        with on_stream(workspace, stream):
            workspace.zero_()
        call(stream)

    grids = (
        (-(-w.length // SUM_ROWS), w.heads, w.batch),
        (-(-w.length // p["tile_n"]), w.kv_heads, w.batch),
        (w.heads, w.batch, -(-w.length // CONVERT_ROWS)),
    )
    launches = tuple(build.launch(symbol, grid) for symbol, grid in zip(_in_order(build), grids, strict=True))
    return Runner(enqueue, launches, with_torch=True)


@not_baked
def _in_order(build: Build) -> list[str]:
    """Return the symbols in launch order."""
    return [next(s for s in build.symbols if f"_{part}_" in s) for part in ("sum_OdO", "bwd", "convert")]
