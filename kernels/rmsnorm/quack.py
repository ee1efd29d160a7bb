"""quack's RMSNorm (github.com/Dao-AILab/quack), CuTe DSL for Hopper and later, where its package is installed.

The package compiles a kernel for the number of columns and the types at the first call, which `bind` makes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cutesnake.model.contract import INSTALLED, Build, Runner, Variant
from kernels.rmsnorm.operator import Inputs, Outputs, Workload
from kernels.upstream.installed import VARIANTS, copying_runner, import_package, nothing_built

DSL = "cute_jit"
SOURCE = INSTALLED
NEEDS = {"quack": "quack-kernels"}
TARGETS = dict.fromkeys(("sm_90a", "sm_100a", "sm_103a", "sm_120a"), ("clusters",))


def supports(workload: Workload) -> str | None:
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return VARIANTS


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    return nothing_built("quack")


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    rmsnorm = import_package("quack").rmsnorm
    return copying_runner(inputs.x, lambda: [rmsnorm(inputs.x, inputs.weight, eps=inputs.eps)], outputs.y, warm=True)
