"""NVIDIA's CuTe DSL example `blackwell/rmsnorm.py`, made for SM90 and later.

A row of up to 16,384 elements of 16 bits (32,768 of fp32) is reduced by one CTA; a longer one by a cluster of 2, 4 or
8, whose CTAs send each other their sums through distributed shared memory. The number of columns is a constant of the
build; the rows are known at launch.
"""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.programs import compile_program
from kernels.rmsnorm.cutlass_rmsnorm.shape import LARGEST_CLUSTER, VECTOR_BYTES, Shape
from kernels.rmsnorm.operator import DTYPES, Inputs, Outputs, Workload
from kernels.upstream.examples import SOURCE

DSL = "cute"
TARGETS = dict.fromkeys(("sm_90a", "sm_100a", "sm_103a"), ("clusters",))
compile = compile_program("kernels.rmsnorm.cutlass_rmsnorm.program:program", "rmsnorm")


def supports(workload: Workload) -> str | None:
    """Accept rows whose 16-byte vectors divide evenly among up to 8 CTAs."""
    size = DTYPES[workload.dtype]
    shape = Shape.of(workload.columns, size)
    if shape.cluster > LARGEST_CLUSTER:
        return "NVIDIA's example takes a cluster of 16 CTAs for such a row, more than a launch may have unasked"
    part = shape.cluster * VECTOR_BYTES
    if workload.columns * size % part:
        # A cluster's CTAs would leave the last columns out: the example rounds a CTA's share down.
        return f"NVIDIA's example takes rows of a multiple of {part} bytes at this length"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return (Variant(f"{workload.dtype}_n{workload.columns}", {"dtype": workload.dtype, "columns": workload.columns}),)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind a cluster for each group of rows that it takes, without copies."""
    shape = Shape.of(workload.columns, inputs.x.element_size())
    grid = (-(-workload.rows // shape.rows), shape.cluster, 1)
    arguments = (inputs.x, inputs.weight, outputs.y, inputs.eps)
    return build.runner(arguments, grid)
