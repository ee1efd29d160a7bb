"""`gemm_epilogue` in plain PyTorch: `addmm`, then the activation in place, as a user would write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cutesnake.contract import Build, Runner, Variant, not_baked
from kernels.gemm_epilogue.operator import Inputs, Outputs, Workload

DSL = "torch"
SOURCE = "ours"
TARGETS: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"), ()
)


@not_baked
def supports(workload: Workload) -> str | None:
    """Everything."""
    return None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Nothing is baked in: one build for everything."""
    return (Variant("eager", {}),)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    """Nothing to compile: PyTorch brings its kernels."""
    return {"symbols": [], "launch": {}, "function": None, "compilers": {}, "notes": ["PyTorch's own kernels"]}


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Which kernels PyTorch's libraries choose is theirs: the runner names no launches."""
    import torch

    from kernels.upstream.installed import on_stream

    def enqueue(stream: int) -> None:
        with on_stream(inputs.a, stream):
            torch.addmm(inputs.c, inputs.a, inputs.b.T, beta=inputs.beta, alpha=inputs.alpha, out=outputs.d)
            if workload.activation == "relu":
                torch.relu_(outputs.d)
            elif workload.activation == "silu":
                torch.nn.functional.silu(outputs.d, inplace=True)

    return Runner(enqueue)
