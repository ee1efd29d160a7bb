"""NVIDIA's CuTe DSL example `masked_grouped_gemm`, unmodified from the fetched wheel.

A separate warp skips the tiles that have no row in use. It looks up how many rows the group of the tile past the last
one has, before it asks whether there is such a tile: the operator's `rows` is longer than there are groups for its
sake.
"""

from functools import partial

from cutesnake.model.contract import Build, Runner
from kernels.gemm_blockwise.cutlass import adapter
from kernels.gemm_blockwise.cutlass.adapter import TARGETS
from kernels.gemm_grouped_masked.operator import Inputs, Outputs, Workload, clear_unused
from kernels.upstream.examples import SOURCE

DSL = "cute"
TILINGS = (adapter.Tiling(128, (1, 1)), adapter.Tiling(128, (1, 2)), adapter.Tiling(256, (2, 1), pair=True))
EXAMPLE = adapter.Example(
    "blackwell.blockwise_gemm.masked_grouped_gemm", "BlockwiseMaskedGroupedGemmKernel", TILINGS, indexed=True
)
supports, variants, compile = EXAMPLE.supports, EXAMPLE.variants, EXAMPLE.compile


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind the tensors without copies, as views with the groups last."""
    w, i = workload, inputs
    values = (*adapter.operands(i.a, i.b, outputs.c, i.a_scales, i.b_scales), i.rows)
    grid = adapter.grid(build, w.m, w.n, w.groups)
    return build.runner(values, grid, partial(clear_unused, inputs, outputs))
