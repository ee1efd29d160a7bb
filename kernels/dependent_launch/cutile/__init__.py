"""`dependent_launch` in cuTile: the second kernel may start while the first one ends."""

from pathlib import Path
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant
from kernels.dependent_launch.operator import DTYPES, Inputs, Outputs, Workload
from kernels.matrices import refuse_extents
from kernels.targets import EVERY as TARGETS

DSL = "cutile"
SOURCE = "ours"
TILE = (4, 1024)  # rows x columns


def supports(workload: Workload) -> str | None:
    return refuse_extents(workload)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return builds with and without early launch; `aligned` rows start at multiples of 16 bytes."""
    aligned = workload.columns * DTYPES[workload.dtype] % 16 == 0
    return tuple(
        Variant(
            f"{workload.dtype}_{name}" + ("" if aligned else "_unaligned"),
            {"dtype": workload.dtype, "early": early, "aligned": aligned},
        )
        for name, early in (("early", True), ("plain", False))
    )


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.stages.compile.cutile import DeviceFunction, array, build
    from kernels.dependent_launch.cutile.kernel import first, second

    p = variant.params
    parameters = [*[array(p["dtype"], 2, aligned=p["aligned"])] * 3, *TILE, p["early"]]
    functions = [
        DeviceFunction("kernel", "first", first, parameters),
        DeviceFunction("second", "second", second, parameters),
    ]
    return build(functions, target, folder)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One block per tile in both launches; only the second may be early."""
    from cutesnake.stages.load.cutile import TileLaunch, sequence

    grid = (-(-workload.rows // TILE[0]), -(-workload.columns // TILE[1]), 1)
    first = build.cubin_function("kernel", "first")
    second = build.cubin_function("second", "second")
    return sequence(
        TileLaunch(first, "first", grid, (inputs.u, inputs.v, outputs.w)),
        TileLaunch(second, "second", grid, (outputs.w, inputs.x, outputs.y), overlap=build.params["early"]),
    )
