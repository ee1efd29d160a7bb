"""NVIDIA's example `contiguous_grouped_gemm`, unmodified: a tile's group is its first row's."""

from cutesnake.model.contract import Build, Runner
from kernels.gemm_blockwise.cutlass import adapter
from kernels.gemm_blockwise.cutlass.adapter import TARGETS
from kernels.gemm_grouped_contiguous.operator import Inputs, Outputs, Workload
from kernels.upstream.examples import SOURCE

DSL = "cute"
# A cluster has no more than 128 rows of C, so that none has rows of two groups.
TILINGS = (adapter.Tiling(128, (1, 1)), adapter.Tiling(128, (1, 2)), adapter.Tiling(128, (2, 1), pair=True))
EXAMPLE = adapter.Example(
    "blackwell.blockwise_gemm.contiguous_grouped_gemm", "BlockwiseContiguousGroupedGemmKernel", TILINGS, indexed=True
)
supports, variants, compile = EXAMPLE.supports, EXAMPLE.variants, EXAMPLE.compile


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind views with the batch last; A and C have a batch of one."""
    i = inputs
    operands = adapter.operands(i.a[None], i.b, outputs.c[None], i.a_scales[None], i.b_scales)
    return build.runner((*operands, i.group_of_row), adapter.grid(build, workload.rows, workload.n, 1))
