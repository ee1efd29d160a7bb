"""NVIDIA's CuTe DSL GEMM with configurable epilogue for SM100, unmodified from the fetched wheel.

It is the class under the examples `custom_epilogue_dense_gemm` and `activation_custom_epilogue_dense_gemm`, which
configure it as `program` does here, with other sums.
"""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_epilogue.operator import Inputs, Outputs, Workload
from kernels.programs import compile_program
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream import gemm as upstream
from kernels.upstream.examples import SOURCE

DSL = "cute"
TILES = ((256, 128, 2), (256, 256, 2), (128, 128, 1))  # elements of D that the CTAs of a cluster compute, CTAs
compile = compile_program("kernels.gemm_epilogue.cutlass.program:program", "gemm_epilogue")


def supports(workload: Workload) -> str | None:
    """All whose rows are whole multiples of 16 bytes, which TMA asks for."""
    return upstream.refused_rows(("k", workload.k, 16, "A and B"), ("n", workload.n, 16, "C and D"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per element type, activation and tile, which serves every size."""
    w = workload
    return tuple(
        Variant(
            f"{w.dtype}_{w.activation}_{m}x{n}",
            {
                "dtype": w.dtype,
                "activation": w.activation,
                "tile_m": m,
                "tile_n": n,
                "pair": ctas == 2,
                **upstream.cluster_params(target, (ctas, 1)),
            },
        )
        for m, n, ctas in TILES
    )


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind the matrices without copies, as views with a batch of one last."""
    w, p = workload, build.params
    matrices = tuple(upstream.operand(x[None]) for x in (inputs.a, inputs.b, inputs.c, outputs.d))
    cta_tile, cluster = (p["tile_m"] // (2 if p["pair"] else 1), p["tile_n"]), (p["cluster_m"], p["cluster_n"])
    grid = upstream.persistent_grid(w.m, w.n, 1, cta_tile, cluster, p["most_clusters"])
    return build.runner((*matrices, inputs.alpha, inputs.beta), grid)
