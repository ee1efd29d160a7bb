"""NVIDIA's CuTe DSL example `blackwell/programmatic_dependent_launch.py`, for Hopper and later.

Both additions have (4, 32) threads of (4, vector) values that are copied one by one behind predicates; the example
repeats its loads ten times, so that its kernels are long enough to overlap. Only the second launch is early here, not
both as in the example's own driver: the first kernel does not wait for what the stream did before.
"""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.dependent_launch.operator import DTYPES, Inputs, Outputs, Workload
from kernels.matrices import refuse_coordinates, tiles
from kernels.programs import compile_program
from kernels.targets import EVERY as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
compile = compile_program("kernels.dependent_launch.cutlass_pdl.program:program", "dependent_launch")


def supports(workload: Workload) -> str | None:
    return refuse_coordinates(workload)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """With the early launch, and without; either serves every shape."""
    return tuple(
        Variant(f"{workload.dtype}_{name}", {"dtype": workload.dtype, "early": early})
        for name, early in (("early", True), ("plain", False))
    )


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind two launches by one call, a CTA per 16 rows by 32 vectors."""
    from cutesnake.stages.load.cute import Call

    grid = (tiles(workload, DTYPES[workload.dtype]), 1, 1)
    tensors = (inputs.u, inputs.v, outputs.w, inputs.x, outputs.y)
    return Runner(Call(build.function(), tensors), tuple(build.launch(symbol, grid) for symbol in build.symbols))
