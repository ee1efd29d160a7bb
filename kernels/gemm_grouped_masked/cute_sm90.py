"""`gemm_grouped_masked` for Hopper in CuTe DSL: CTAs take tiles with rows in use."""

from functools import partial

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_grouped_masked.operator import DTYPES, Inputs, Outputs, Workload, clear_unused
from kernels.hopper_gemm import adapter
from kernels.hopper_gemm.adapter import TARGETS, compile
from kernels.upstream.gemm import refused_rows

DSL = "cute"
SOURCE = "ours"


def supports(workload: Workload) -> str | None:
    """All whose rows are whole multiples of 16 bytes, which TMA asks for."""
    return refused_rows(("k", workload.k, 8 * DTYPES[workload.dtype], "A and B"), ("n", workload.n, 16, "C"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per type and tile, which serves every size."""
    dtype = workload.dtype
    choices = {"dtype": dtype, "output": "bf16", "scaled": dtype == "fp8", "groups": "masked"}
    tilings = adapter.SCALED_TILINGS if workload.m > 128 else adapter.SCALED_TILINGS[1:]
    return adapter.variants(dtype, tilings, **choices)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    i = inputs
    scales = (i.a_scales, i.b_scales) if workload.dtype == "fp8" else (None, None)
    finish = partial(clear_unused, inputs, outputs)
    return adapter.bind(build, (i.a, i.b, outputs.c), scales=scales, groups=i.rows, finish=finish)
