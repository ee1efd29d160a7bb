"""NVIDIA's CUTLASS example `hopper/fmha.py` in CuTe DSL: unmodified, from the fetched wheel.

Not its persistent form, whose grid is the number of multiprocessors of the GPU that it is compiled on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.fmha.cutlass import adapter
from kernels.upstream.examples import SOURCE

if TYPE_CHECKING:
    from kernels.fmha.operator import Inputs, Outputs, Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
TARGETS = {"sm_90a": ("TMA", "wgmma")}
WIDTHS = (64, 128)
TILE = (64, 128)  # queries x keys of one product, the example's default; a CTA has two warpgroups of one each
QUERIES = 2 * TILE[0]  # of a CTA


@not_baked
def supports(workload: Workload) -> str | None:
    if workload.dtype == "fp8":
        return "NVIDIA's Hopper example takes fp8 values transposed only, head width before tokens"
    if workload.head_dim not in WIDTHS:
        return f"NVIDIA's Hopper example is built here for heads of {' and '.join(map(str, WIDTHS))}"
    return None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return (adapter.variant(workload, *TILE),)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    return adapter.compile("hopper.fmha", "HopperFusedMultiHeadAttentionForward", variant, target, folder)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind a CTA per 128 queries of a head.

    The example always writes the log-sum-exp; it goes to separate memory.
    """
    import torch

    from cutesnake.stages.load.cute import Call

    w, scale = workload, inputs.softmax_scale
    lse = torch.empty(w.batch, w.heads, w.length, dtype=torch.float32, device=inputs.q.device)
    values = (inputs.q, inputs.k, inputs.v, outputs.out, lse, scale * adapter.LOG2_E, scale)
    grid = (-(-w.length // QUERIES), w.heads, w.batch)
    return Runner(Call(build.function(), values), (build.launch(build.symbols[0], grid),))
