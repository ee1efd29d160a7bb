"""Two calls of PyTorch, `torch.add` twice: the baseline a user has without any kernel of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.contract import Build, Runner, Variant, not_baked
from kernels.upstream.installed import on_stream

if TYPE_CHECKING:
    from kernels.dependent_launch.operator import Inputs, Outputs, Workload

DSL = "torch"
SOURCE = "ours"
TARGETS: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"), ()
)


@not_baked
def supports(workload: Workload) -> str | None:
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
    """Which kernels PyTorch chooses is its own: the runner names no launches."""
    import torch

    def enqueue(stream: int) -> None:
        with on_stream(inputs.u, stream):
            torch.add(inputs.u, inputs.v, out=outputs.w)
            torch.add(outputs.w, inputs.x, out=outputs.y)

    return Runner(enqueue)
