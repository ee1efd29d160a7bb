"""Baseline of `gemm` in plain PyTorch, which calls cuBLAS."""

from cutesnake.model.contract import Build, Runner
from kernels.gemm.operator import Inputs, Outputs, Workload, factors
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, variants

DSL = "torch"


def supports(workload: Workload) -> str | None:
    """Everything in 16 bits; of fp8 what `torch._scaled_mm` takes."""
    w = workload
    if w.dtype == "fp8" and (w.batch > 1 or (w.a_major, w.b_major) != ("k", "k")):
        return "PyTorch multiplies fp8 matrices without a batch and with K contiguous only"
    if w.dtype == "fp8" and (w.n % 16 or w.k % 16):
        return "PyTorch multiplies fp8 matrices whose N and K are multiples of 16 only"
    return None


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    import torch

    a, b = factors(inputs, workload)
    one = torch.ones((), device=a.device) if workload.dtype == "fp8" else None

    def call() -> None:
        if one is not None:
            c = outputs.c
            torch._scaled_mm(a[0], b[0], scale_a=one, scale_b=one, out_dtype=c.dtype, out=c[0])
        elif workload.batch == 1:
            torch.mm(a[0], b[0], out=outputs.c[0])
        else:
            torch.bmm(a, b, out=outputs.c)

    return runner(a, call)
