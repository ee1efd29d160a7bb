"""`elementwise_add` in CuTe DSL over a two-dimensional thread-value layout.

The layout has (4, 32) threads of (4, vector) values. A CTA of 128 threads adds a tile of 16 rows by 32 vectors of 16
bytes, 16 x 128 elements of fp32, in which each thread has one vector in each of four rows. Unlike `cute`, which sees a
matrix as one long vector, it keeps the matrix's shape: the layout can be dynamic, known at launch, or static, known to
the compiler, at the price of a build for each shape.
"""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.elementwise_add.operator import DTYPES, Inputs, Outputs, Workload
from kernels.matrices import VECTOR_BYTES, refuse_coordinates, tiles
from kernels.programs import compile_program
from kernels.targets import EVERY as TARGETS

DSL = "cute"
SOURCE = "ours"
compile = compile_program("kernels.elementwise_add.cute_tv.kernel:program", "elementwise_add")


def supports(workload: Workload) -> str | None:
    return refuse_coordinates(workload)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return the builds, dynamic layout first; vectors read `aligned` rows (multiples of 16 bytes)."""
    w = workload
    aligned = w.columns * DTYPES[w.dtype] % VECTOR_BYTES == 0
    dynamic = {"dtype": w.dtype, "aligned": aligned, "rows": 0, "columns": 0}
    static = {**dynamic, "rows": w.rows, "columns": w.columns}
    end = "" if aligned else "_unaligned"
    return (Variant(f"{w.dtype}_dynamic{end}", dynamic), Variant(f"{w.dtype}_static_{w.rows}x{w.columns}", static))


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind one CTA per tile; ValueError for another shape than a static build's."""
    p = build.params
    shape = (workload.rows, workload.columns)
    if p["rows"] and shape != (p["rows"], p["columns"]):
        raise ValueError(f"this build is for {p['rows']} x {p['columns']} elements, not {shape[0]} x {shape[1]}")
    grid = (tiles(workload, DTYPES[p["dtype"]]), 1, 1)
    tensors = (inputs.a, inputs.b, outputs.c)
    return build.runner(tensors, grid)
