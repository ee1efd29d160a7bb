"""`gemm_epilogue` for Hopper in CuTe DSL: the epilogue precedes a tile's store."""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm_epilogue.operator import Inputs, Outputs, Workload
from kernels.hopper_gemm import adapter
from kernels.hopper_gemm.adapter import TARGETS, compile
from kernels.upstream.gemm import refused_rows

DSL = "cute"
SOURCE = "ours"


def supports(workload: Workload) -> str | None:
    """All whose rows are whole multiples of 16 bytes, which TMA asks for."""
    return refused_rows(("k", workload.k, 16, "A and B"), ("n", workload.n, 16, "C and D"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per element type, activation and tile; small tiles first for few rows."""
    w = workload
    tilings = adapter.TILINGS if w.m > 128 else (*adapter.FEW_ROWS, adapter.LARGE)
    name = f"{w.dtype}_{w.activation}"
    return adapter.variants(name, tilings, dtype=w.dtype, output=w.dtype, activation=w.activation)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    i = inputs
    return adapter.bind(build, (i.a[None], i.b[None], outputs.d[None]), epilogue=(i.c, i.alpha, i.beta))
