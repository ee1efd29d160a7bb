"""`gemm_grouped_contiguous` for Hopper in CuTe DSL: rows multiply their group's B."""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_grouped_contiguous.operator import Inputs, Outputs, Workload
from kernels.hopper_gemm import adapter
from kernels.hopper_gemm.adapter import TARGETS, compile
from kernels.upstream.gemm import refused_rows

DSL = "cute"
SOURCE = "ours"


def supports(workload: Workload) -> str | None:
    """All whose rows are whole multiples of 16 bytes, which TMA asks for."""
    return refused_rows(("k", workload.k, 8, "A and B"), ("n", workload.n, 16, "C"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per tile; no tile has rows of two groups."""
    choices = {"dtype": workload.dtype, "output": "bf16", "scaled": True, "groups": "contiguous"}
    return adapter.variants(workload.dtype, adapter.SCALED_TILINGS, **choices)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    i = inputs
    operands, scales = (i.a[None], i.b, outputs.c[None]), (i.a_scales[None], i.b_scales)
    return adapter.bind(build, operands, scales=scales, groups=i.group_of_row)
