"""`elementwise_add` in CuTe DSL: one build per dtype serves every matrix size."""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.elementwise_add.operator import DTYPES, Inputs, Outputs, Workload
from kernels.matrices import refuse_count
from kernels.programs import compile_program
from kernels.targets import EVERY as TARGETS

DSL = "cute"
SOURCE = "ours"
VECTOR_BYTES = 16
SHAPES = ((256, 4), (256, 2), (128, 8), (512, 2))  # threads per CTA, vectors per thread
compile = compile_program("kernels.elementwise_add.cute.kernel:program", "elementwise_add")


def supports(workload: Workload) -> str | None:
    """Accept workloads whose elements, including a partial last tile, fit 32-bit coordinates."""
    return refuse_count(workload.rows * workload.columns)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return tuple(
        Variant(
            f"{workload.dtype}_t{threads}_v{vectors}", {"dtype": workload.dtype, "threads": threads, "vectors": vectors}
        )
        for threads, vectors in SHAPES
    )


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Contiguous matrices are vectors: row ends do not matter to an elementwise operator."""
    p = build.params
    tile = p["threads"] * p["vectors"] * VECTOR_BYTES // DTYPES[p["dtype"]]
    tensors = tuple(matrix.view(-1) for matrix in (inputs.a, inputs.b, outputs.c))
    tiles = -(-workload.rows * workload.columns // tile)
    return build.runner(tensors, (tiles, 1, 1))
