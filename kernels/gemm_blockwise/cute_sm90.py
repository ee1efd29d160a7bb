"""`gemm_blockwise` for Hopper in CuTe DSL: a stage's sums are scaled in registers."""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_blockwise.operator import Inputs, Outputs, Workload
from kernels.hopper_gemm import adapter
from kernels.hopper_gemm.adapter import TARGETS, compile
from kernels.upstream.gemm import refused_rows

DSL = "cute"
SOURCE = "ours"


def supports(workload: Workload) -> str | None:
    """All whose rows are whole multiples of 16 bytes, which TMA asks for."""
    return refused_rows(("k", workload.k, 8, "A and B"), ("n", workload.n, 16, "C"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per tile, which serves every size; small tiles first for few rows."""
    tilings = adapter.SCALED_TILINGS if workload.m > 128 else adapter.FEW_ROWS
    return adapter.variants(workload.dtype, tilings, dtype=workload.dtype, output="bf16", scaled=True)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    i = inputs
    scales = (i.a_scales[None], i.b_scales[None])
    return adapter.bind(build, (i.a[None], i.b[None], outputs.c[None]), scales=scales)
