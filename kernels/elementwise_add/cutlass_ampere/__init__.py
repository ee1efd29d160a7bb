"""NVIDIA's CuTe DSL example `ampere/elementwise_add.py`: (4, 32) threads of (4, vector) values, as in `cute_tv`.

Every element is copied by itself, behind a predicate. A host function of this project
launches the example's kernel, since its own takes no stream.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.matrices import refuse_coordinates, tiles
from kernels.targets import EVERY
from kernels.upstream.examples import SOURCE as EXAMPLES

if TYPE_CHECKING:
    from kernels.elementwise_add.operator import Inputs, Outputs, Workload

DSL = "cute"
SOURCE = EXAMPLES
TARGETS = EVERY


def supports(workload: Workload) -> str | None:
    return refuse_coordinates(workload)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """One build per dtype for every shape."""
    return (Variant(workload.dtype, {"dtype": workload.dtype}),)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cute import build_program

    return build_program(
        "kernels.elementwise_add.cutlass_ampere.program:program", "elementwise_add", target, folder, **variant.params
    )


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One CTA per tile of 16 rows by 32 vectors."""
    from kernels.elementwise_add.operator import DTYPES

    grid = (tiles(workload, DTYPES[workload.dtype]), 1, 1)
    tensors = (inputs.a, inputs.b, outputs.c)
    return build.runner(tensors, grid)
