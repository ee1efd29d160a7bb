"""`gemm_mixed_grouped` for Hopper in CuTe DSL: CTAs count through the tiles of all groups."""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_mixed import cute_sm90 as gemm_mixed
from kernels.gemm_mixed_grouped.operator import Inputs, Outputs, Workload
from kernels.hopper_gemm import adapter
from kernels.hopper_gemm.adapter import TARGETS, compile

DSL = "cute"
SOURCE = "ours"


def supports(workload: Workload) -> str | None:
    return gemm_mixed.supports(workload.plain)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per type of weights and tile, which serves every size."""
    tilings = adapter.MIXED_TILINGS
    if workload.m <= 64:  # the fastest on an H200 first
        first = 4 if workload.dtype == "int8" else 3
        tilings = (tilings[first], *tilings[:first][::-1], *tilings[first + 1 :])
    return adapter.variants(workload.dtype, tilings, dtype=workload.dtype, mixed=True, groups="starts")


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    i = inputs
    scales = (None, i.b_scales if workload.plain.scaled else None)
    return adapter.bind(build, (i.a[None], gemm_mixed.pairs(i.b), outputs.c[None]), scales=scales, groups=i.starts)
