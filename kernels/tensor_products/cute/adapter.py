"""What `cute_pair` and `cute_single` share: a tile, then a stage, without overlap."""

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.programs import compile_program
from kernels.tensor_products.cute.tile import COLUMNS, ROWS, STAGE_BYTES
from kernels.tensor_products.operator import BITS, Inputs, Outputs, Workload

TARGETS = {target: ("tcgen05", "tensor memory") for target in ("sm_100a", "sm_103a")}
compile = compile_program("kernels.tensor_products.cute.kernel:program", "tensor_products")


@not_baked
def supports(workload: Workload) -> str | None:
    """Whole tiles only: the kernel has no code for others."""
    w = workload
    for name, tile in (("m", 2 * ROWS), ("n", COLUMNS), ("k", STAGE_BYTES * 8 // BITS[w.dtype])):
        if getattr(w, name) % tile:
            return f"{name} is {getattr(w, name)}: this kernel takes multiples of {tile}"
    return None


@not_baked
def variants(ctas: int, workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per kind of product, for `ctas` that make one together."""
    return (Variant(f"{workload.dtype}_cta{ctas}", {"dtype": workload.dtype, "ctas": ctas}),)


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One launch, a CTA or a pair per tile."""
    grid = (workload.m // ROWS, workload.n // COLUMNS, 1)
    return build.runner((inputs.a, inputs.b, outputs.d), grid)
