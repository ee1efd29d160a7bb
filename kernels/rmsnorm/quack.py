"""quack's RMSNorm (github.com/Dao-AILab/quack), CuTe DSL for Hopper and later, where its package is installed.

The package compiles a kernel for the number of columns and the types at the first call, which `bind` makes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cutesnake.model.contract import INSTALLED, Build, Runner, Variant, not_baked
from kernels.rmsnorm.operator import Inputs, Outputs, Workload
from kernels.upstream.installed import VARIANTS, import_package, nothing_built, on_stream

DSL = "cute_jit"
SOURCE = INSTALLED
NEEDS = {"quack": "quack-kernels"}
TARGETS = dict.fromkeys(("sm_90a", "sm_100a", "sm_103a", "sm_120a"), ("clusters",))


@not_baked
def supports(workload: Workload) -> str | None:
    return None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return VARIANTS


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    return nothing_built("quack")


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind; `finish` copies and spoils the output, which the package allocates.

    So a call that writes nothing shows.
    """
    rmsnorm = import_package("quack").rmsnorm
    result = [rmsnorm(inputs.x, inputs.weight, eps=inputs.eps)]
    result[0].fill_(float("nan"))

    def enqueue(stream: int) -> None:
        with on_stream(inputs.x, stream):
            result[0] = rmsnorm(inputs.x, inputs.weight, eps=inputs.eps)

    def finish() -> None:
        outputs.y.copy_(result[0])
        result[0].fill_(float("nan"))

    return Runner(enqueue, finish=finish)
