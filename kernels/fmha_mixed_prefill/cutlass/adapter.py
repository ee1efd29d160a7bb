"""Shared code of the adapters of NVIDIA's two examples.

One is for heads of 256 elements and one for 512.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked

if TYPE_CHECKING:
    from kernels.fmha_mixed_prefill.operator import Inputs, Outputs, Workload

TARGETS = {target: ("tcgen05", "tensor memory") for target in ("sm_100a", "sm_103a")}
FUNCTION = "fmha_mixed_prefill"
QUERIES, KEYS = 128, 128  # of a CTA's tile; two CTAs take neighbouring tiles of queries
LOG2_E = 1.0 / math.log(2.0)


@not_baked
def supports(workload: Workload, width: int) -> str | None:
    w = workload
    if w.dtype != "int8":
        return f"dtype is {w.dtype}: NVIDIA's example takes int8 keys and values"
    if w.head_dim != width:
        return f"head_dim is {w.head_dim}: this example of NVIDIA's is for {width}"
    if w.length % 8:
        return f"length is {w.length}: TMA loads scales of 8 tokens at a time"
    return None


@not_baked
def variants(workload: Workload, width: int) -> tuple[Variant, ...]:
    """Return builds, the mask compiled in as NVIDIA's runner chooses it."""
    w = workload
    mask = "causal" if w.causal else "residual" if w.length % KEYS else "none"
    return (Variant(f"int8_d{width}_{mask}", {"width": width, "mask": mask}),)


def compile(path: str, name: str, variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    """Build the class `name` of the example `path`."""
    from cutesnake.stages.compile import cute as cute_build

    def program() -> tuple[Any, tuple[Any, ...]]:
        from kernels.fmha_mixed_prefill.cutlass import program as cutlass_program

        return cutlass_program.program(path, name, **variant.params)

    return cute_build.build(program, FUNCTION, target, folder)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One launch: a pair of CTAs per two tiles of queries of a head."""
    from cutesnake.stages.load.cute import Call

    w, i = workload, inputs
    tensors = (i.q, i.k, i.v, i.k_scale, i.v_scale, outputs.out)
    call = Call(build.function(), (*tensors, i.softmax_scale * LOG2_E))
    tiles = -(-w.length // (2 * QUERIES)) * 2
    return Runner(call, (build.launch(build.symbols[0], (tiles, w.heads, w.batch)),))
