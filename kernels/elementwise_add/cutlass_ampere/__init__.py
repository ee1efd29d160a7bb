"""NVIDIA's CuTe DSL example `ampere/elementwise_add.py`: (4, 32) threads of (4, vector) values, as in `cute_tv`.

Every element is copied by itself, behind a predicate. A host function of this project
launches the example's kernel, since its own takes no stream.
"""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.elementwise_add.operator import DTYPES, Inputs, Outputs, Workload
from kernels.matrices import refuse_coordinates, tiles
from kernels.programs import compile_program
from kernels.targets import EVERY as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
compile = compile_program("kernels.elementwise_add.cutlass_ampere.program:program", "elementwise_add")


def supports(workload: Workload) -> str | None:
    return refuse_coordinates(workload)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """One build per dtype for every shape."""
    return (Variant(workload.dtype, {"dtype": workload.dtype}),)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One CTA per tile of 16 rows by 32 vectors."""
    grid = (tiles(workload, DTYPES[workload.dtype]), 1, 1)
    tensors = (inputs.a, inputs.b, outputs.c)
    return build.runner(tensors, grid)
