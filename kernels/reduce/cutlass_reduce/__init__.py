"""NVIDIA's CuTe DSL example `blackwell/reduce.py` in a kernel of this project.

The example is device code without a kernel. The example reduces what the threads of a row hold in registers: within
each thread, across a warp by shuffles, across a CTA through shared memory, and across a cluster by stores into each
other's shared memory that count down a barrier. Our kernel reads the rows: every thread adds up 16-byte vectors of its
row, `VECTORS` in flight at a time.
"""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.programs import compile_program
from kernels.reduce.operator import DTYPES, Inputs, Outputs, Workload
from kernels.upstream.examples import SOURCE

DSL = "cute"
TARGETS = dict.fromkeys(("sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"), ("clusters",))
THREADS = 128
VECTOR_BYTES = 16
VECTORS = 4  # of each thread, on the way at the same time
# Columns from which a row has that many threads, and that many CTAs; the largest that applies counts.
SHARING = ((1, 32, 1), (4096, 128, 1), (32768, 128, 4), (131072, 128, 8))
compile = compile_program("kernels.reduce.cutlass_reduce.kernel:program", "reduce", threads=THREADS, vectors=VECTORS)


def supports(workload: Workload) -> str | None:
    """Accept extents that 32-bit coordinates can count, a partial last tile in full."""
    if max(workload.rows, workload.columns) >= 2**30:
        return "the kernel counts rows and columns in 32 bits and takes fewer than 2^30 of each"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return the builds, best for the row length first.

    The other ways to share rows follow. `aligned` rows start at multiples of 16 bytes.
    """
    w = workload
    aligned = w.columns * DTYPES[w.dtype] % VECTOR_BYTES == 0
    chosen = max((one for one in SHARING if one[0] <= w.columns), key=lambda one: one[0])
    return tuple(
        Variant(
            f"{w.operation}_{w.dtype}_t{threads}_c{cluster}" + ("" if aligned else "_unaligned"),
            {
                "operation": w.operation,
                "dtype": w.dtype,
                "threads_per_row": threads,
                "cluster": cluster,
                "aligned": aligned,
            },
        )
        for _, threads, cluster in (chosen, *(one for one in SHARING if one != chosen))
    )


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind a cluster for as many rows as a CTA has, without copies."""
    rows = THREADS // build.params["threads_per_row"]
    grid = (-(-workload.rows // rows), build.params["cluster"], 1)
    return build.runner((inputs.x, outputs.y), grid)
