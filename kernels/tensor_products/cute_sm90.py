"""`tensor_products` for Hopper in CuTe DSL: wgmma, with sums in float32."""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.hopper_gemm import adapter
from kernels.hopper_gemm.adapter import TARGETS, compile
from kernels.tensor_products.operator import BITS, Inputs, Outputs, Workload
from kernels.upstream.gemm import refused_rows

DSL = "cute"
SOURCE = "ours"


def supports(workload: Workload) -> str | None:
    """Of fp16 and fp8, all whose rows are whole multiples of 16 bytes."""
    w = workload
    if w.dtype not in ("fp16", "fp8"):
        return f"dtype is {w.dtype}: this kernel takes fp16 and fp8"
    return refused_rows(("k", w.k, BITS[w.dtype], "A and B"), ("n", w.n, 32, "D"))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per kind of product and tile, which serves every size."""
    large, square, *small = adapter.TILINGS  # the fastest on an H200 first
    tilings = (square, large, *small) if workload.m > 1024 else (*adapter.FEW_ROWS, large)
    if workload.m <= 512:
        tilings = adapter.TILINGS[::-1]
    return adapter.variants(workload.dtype, tilings, dtype=workload.dtype, output="fp32")


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    return adapter.bind(build, (inputs.a[None], inputs.b[None], outputs.d[None]))
