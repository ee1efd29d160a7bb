"""RMSNorm in plain PyTorch: the baseline a user has without any kernel of their own, `torch.nn.functional.rms_norm`.

It has no argument for the output: what it returns is copied to the outputs by `finish`, outside of the timed calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.contract import Build, Runner, Variant, not_baked
from kernels.upstream.installed import on_stream

if TYPE_CHECKING:
    import torch

    from kernels.rmsnorm.operator import Inputs, Outputs, Workload

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
    from torch.nn.functional import rms_norm

    result: list[torch.Tensor] = []

    def enqueue(stream: int) -> None:
        with on_stream(inputs.x, stream):
            result[:] = [rms_norm(inputs.x, (workload.columns,), inputs.weight, inputs.eps)]

    def finish() -> None:
        outputs.y.copy_(result[0])
        result[0].fill_(float("nan"))  # a later call that writes nothing shows

    return Runner(enqueue, finish=finish)
