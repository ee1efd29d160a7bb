"""`gemm_mixed` for Hopper in CuTe DSL: wgmma takes weights from registers, as bf16."""

from typing import Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.gemm_mixed.operator import BITS, Inputs, Outputs, Workload
from kernels.hopper_gemm import adapter
from kernels.hopper_gemm.adapter import TARGETS, compile
from kernels.upstream.gemm import refused_rows

DSL = "cute"
SOURCE = "ours"


def supports(workload: Workload) -> str | None:
    """Whole multiples of 16 bytes, which TMA asks for, and no fp8."""
    w = workload
    if w.dtype == "fp8":
        return "dtype is fp8: this kernel takes int8 and int4"
    return refused_rows(("k", w.k, BITS[w.dtype], "B"), ("k", w.k, 16, "A"), ("n", w.n, 16, "C"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per type of weights and tile, which serves every size."""
    large, wide, square, *few = adapter.MIXED_TILINGS
    tilings = (large, wide, square, *few) if workload.m > 64 else (square, wide, *few)  # the fastest on an H200 first
    return adapter.variants(workload.dtype, tilings, dtype=workload.dtype, mixed=True)


@not_baked
def pairs(b: Any) -> Any:
    """View pairs of int8 codes as int16; int4 codes are pairs already."""
    import torch

    return b.view(torch.int16) if b.dtype == torch.int8 else b


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    scales = (None, inputs.b_scales[None] if workload.scaled else None)
    return adapter.bind(build, (inputs.a[None], pairs(inputs.b)[None], outputs.c[None]), scales=scales)
