"""`elementwise_add` in CuTe DSL: one build per dtype serves every matrix size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.matrices import refuse_count
from kernels.targets import EVERY

if TYPE_CHECKING:
    from kernels.elementwise_add.operator import Inputs, Outputs, Workload

DSL = "cute"
SOURCE = "ours"
TARGETS = EVERY
VECTOR_BYTES = 16
SHAPES = ((256, 4), (256, 2), (128, 8), (512, 2))  # threads per CTA, vectors per thread


def supports(workload: Workload) -> str | None:
    """Accept workloads whose elements, including a partial last tile, fit 32-bit coordinates."""
    return refuse_count(workload.rows * workload.columns)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return tuple(
        Variant(
            f"{workload.dtype}_t{threads}_v{vectors}",
            {"dtype": workload.dtype, "threads": threads, "vectors": vectors},
        )
        for threads, vectors in SHAPES
    )


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cute import build_program

    return build_program(
        "kernels.elementwise_add.cute.kernel:program", "elementwise_add", target, folder, **variant.params
    )


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Contiguous matrices are vectors: row ends do not matter to an elementwise operator."""
    from kernels.elementwise_add.operator import DTYPES

    p = build.params
    tile = p["threads"] * p["vectors"] * VECTOR_BYTES // DTYPES[p["dtype"]]
    tensors = tuple(matrix.view(-1) for matrix in (inputs.a, inputs.b, outputs.c))
    tiles = -(-workload.rows * workload.columns // tile)
    return build.runner(tensors, (tiles, 1, 1))
