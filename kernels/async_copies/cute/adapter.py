"""Shared code of `cute_l2` and `cute_descriptor`: a CTA per tile of 32 x 64 elements."""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Variant, not_baked
from kernels.async_copies.cute.tile import COLUMNS, ROWS
from kernels.async_copies.operator import Workload

TARGETS = {target: ("TMA",) for target in ("sm_90a", "sm_100a", "sm_103a")}
FUNCTION = "async_copies"


@not_baked
def supports(workload: Workload) -> str | None:
    """Whole tiles only: the kernels have no code for others."""
    for name, tile in (("rows", ROWS), ("columns", COLUMNS)):
        if getattr(workload, name) % tile:
            return f"{name} is {getattr(workload, name)}: this kernel takes multiples of {tile}"
    return None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """One build serves every size."""
    return (Variant(workload.dtype, {"dtype": workload.dtype}),)


def compile(name: str, variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    """Build the kernel `name` of kernel.py."""
    from cutesnake.stages.compile.cute import build_program

    return build_program("kernels.async_copies.cute.kernel:program", FUNCTION, target, folder, name)


@not_baked
def grid(workload: Workload) -> tuple[int, int, int]:
    return workload.rows // ROWS, workload.columns // COLUMNS, 1
