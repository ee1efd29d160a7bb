"""Shared code of `cute_pair` and `cute_single`.

They take a tile at a time and a stage at a time; nothing overlaps.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.tensor_products.cute.tile import COLUMNS, ROWS, STAGE_BYTES

if TYPE_CHECKING:
    from kernels.tensor_products.operator import Inputs, Outputs, Workload

TARGETS = {target: ("tcgen05", "tensor memory") for target in ("sm_100a", "sm_103a")}
FUNCTION = "tensor_products"


@not_baked
def supports(workload: Workload) -> str | None:
    """Whole tiles only: the kernel has no code for others."""
    from kernels.tensor_products.operator import BITS

    w = workload
    for name, tile in (("m", 2 * ROWS), ("n", COLUMNS), ("k", STAGE_BYTES * 8 // BITS[w.dtype])):
        if getattr(w, name) % tile:
            return f"{name} is {getattr(w, name)}: this kernel takes multiples of {tile}"
    return None


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile import cute as cute_build

    def program() -> tuple[Any, tuple[Any, ...]]:
        from kernels.tensor_products.cute.kernel import program

        return program(**variant.params)

    return cute_build.build(program, FUNCTION, target, folder)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One launch, a CTA or a pair per tile."""
    grid = (workload.m // ROWS, workload.n // COLUMNS, 1)
    return build.runner((inputs.a, inputs.b, outputs.d), grid)
