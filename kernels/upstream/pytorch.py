"""Shared code of the baselines in plain PyTorch.

Nothing is compiled, and they run on every target. A baseline's contract module imports these names and adds its DSL and
`bind`, by `baseline` or `runner`; one that refuses workloads has a `supports` of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant, Workload, not_baked, nothing
from kernels.targets import EVERY as TARGETS
from kernels.upstream.installed import on_stream

if TYPE_CHECKING:
    import torch

SOURCE = "ours"


@not_baked
def supports(workload: Workload) -> str | None:
    """Everything."""
    return None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Nothing is a compile-time constant: one build for everything."""
    return (Variant("eager", {}),)


@not_baked
def runner(compared: torch.Tensor, call: Callable[[], Any], finish: Callable[[], Any] = nothing) -> Runner:
    """Return calls of PyTorch on the requested stream, on the GPU of `compared`.

    Which kernels PyTorch's libraries choose is theirs: the runner names no launches.
    """

    def enqueue(stream: int) -> None:
        with on_stream(compared, stream):
            call()

    return Runner(enqueue, finish=finish)


@not_baked
def baseline(call: Callable[[Any, Any, Any], Any]) -> Callable[[Build, Any, Any, Any], Runner]:
    """Return a `bind` whose runner calls a function of workload, inputs and outputs."""

    def bind(build: Build, workload: Workload, inputs: Any, outputs: Any) -> Runner:
        first, *_ = vars(outputs).values()
        return runner(first, partial(call, workload, inputs, outputs))

    return bind


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    """Nothing to compile: PyTorch brings its kernels."""
    return {"symbols": [], "launch": {}, "function": None, "compilers": {}, "notes": ["PyTorch's own kernels"]}
