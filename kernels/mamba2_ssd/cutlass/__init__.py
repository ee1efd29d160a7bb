"""NVIDIA's CUTLASS example `blackwell/mamba2_ssd/mamba2_ssd.py` in CuTe DSL: unmodified, from the fetched wheel.

It wants the tokens of a feature next to each other, and the running sums of dt a within chunks. Its own runner makes
both beforehand; here every call does, so that a time is that of the operator. Where a model keeps its tensors in the
example's order, the copies fall away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.mamba2_ssd.operator import Inputs, Outputs, Workload
from kernels.programs import compile_program
from kernels.targets import BLACKWELL as TARGETS
from kernels.targets import MULTIPROCESSORS
from kernels.upstream.examples import SOURCE

if TYPE_CHECKING:
    import torch

DSL = "cute"
CHUNK, WIDTH, STATE = 128, 64, 128  # tokens, elements of a head and of a state: all that its epilogue is written for
compile = compile_program("kernels.mamba2_ssd.cutlass.program:program", "mamba2_ssd")


def supports(workload: Workload) -> str | None:
    w = workload
    if (w.head_dim, w.state) != (WIDTH, STATE):
        return f"head_dim x state is {w.head_dim} x {w.state}: NVIDIA's example is laid out for {WIDTH} x {STATE}"
    if w.length % CHUNK:
        return f"length is {w.length}: NVIDIA's example takes whole chunks of {CHUNK} tokens"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """One build serves every batch, length and count of heads."""
    w = workload
    params = {
        "dtype": w.dtype,
        "chunk": CHUNK,
        "head_dim": w.head_dim,
        "state": w.state,
        "most_blocks": MULTIPROCESSORS[target],
    }
    return (Variant(f"{w.dtype}_c{CHUNK}_d{w.head_dim}_n{w.state}", params),)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind copies and a launch whose blocks take head after head of a sequence."""
    import torch

    from cutesnake.stages.load.cute import Call
    from kernels.upstream.installed import on_stream

    w, i, chunk = workload, inputs, build.params["chunk"]
    read = [_chunks_last(tensor, chunk) for tensor in (i.x, i.dt, i.b, i.c)]
    x, dt, b, c = (torch.empty(view.shape, dtype=view.dtype, device=view.device) for view in read)
    sums = torch.empty(dt.shape, dtype=torch.float32, device=dt.device)
    y = torch.empty_like(x)
    arguments = (
        x.permute(2, 4, 3, 1, 0),  # (D, L, C, H, B)
        sums.permute(3, 2, 1, 0),  # (L, C, H, B)
        dt.permute(3, 2, 1, 0),
        b.permute(4, 2, 3, 1, 0),  # (L, N, C, G, B)
        c.permute(4, 2, 3, 1, 0),
        y.permute(4, 2, 3, 1, 0),  # (L, D, C, H, B)
        outputs.final_state.permute(2, 3, 1, 0),  # (D, N, H, B)
        i.d[None],
    )
    call = Call(build.function(), arguments)
    written = _chunks_last(outputs.y, chunk)

    def enqueue(stream: int) -> None:
        with on_stream(x, stream):
            for copy, view in zip((x, dt, b, c), read, strict=True):
                copy.copy_(view)
            torch.mul(dt, i.a[:, None, None], out=sums)
            torch.cumsum(sums, -1, out=sums)
        call(stream)
        with on_stream(x, stream):
            written.copy_(y)

    grid = (min(w.batch * w.heads, build.params["most_blocks"]), 1, 1)
    return Runner(enqueue, (build.launch(build.symbols[0], grid),), with_torch=True)


@not_baked
def _chunks_last(tensor: torch.Tensor, chunk: int) -> torch.Tensor:
    """(batch, length, heads, ...) as a view (batch, heads, ..., chunks, tokens of a chunk)."""
    chunks = tensor.unflatten(1, (-1, chunk))
    return chunks.movedim((1, 2), (-2, -1))
