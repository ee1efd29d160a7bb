"""NVIDIA's example `blockwise_gemm`, unmodified: warps load, scale, multiply, add scaled sums, store."""

from cutesnake.model.contract import Build, Runner
from kernels.gemm_blockwise.cutlass import adapter
from kernels.gemm_blockwise.cutlass.adapter import TARGETS
from kernels.gemm_blockwise.operator import Inputs, Outputs, Workload
from kernels.upstream.examples import SOURCE

DSL = "cute"
TILINGS = (adapter.Tiling(256, (2, 1), pair=True), adapter.Tiling(128, (1, 1)), adapter.Tiling(128, (1, 2)))
EXAMPLE = adapter.Example("blackwell.blockwise_gemm.blockwise_gemm", "BlockwiseGemmKernel", TILINGS)
supports, variants, compile = EXAMPLE.supports, EXAMPLE.variants, EXAMPLE.compile


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind the tensors without copies, as views with a batch of one last."""
    values = (inputs.a, inputs.b, outputs.c, inputs.a_scales, inputs.b_scales)
    operands = adapter.operands(*(x[None] for x in values))
    return build.runner(operands, adapter.grid(build, workload.m, workload.n, 1))
