"""Baseline of `tutorial_gemm` in plain PyTorch, which calls cuBLAS."""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm import torch_matmul
from kernels.tutorial_gemm.operator import Inputs, Outputs, Workload

DSL = "torch"
SOURCE = "ours"
TARGETS: dict[str, tuple[str, ...]] = dict.fromkeys(("sm_100a", "sm_103a"), ())  # where the tutorial runs
compile = torch_matmul.compile


def supports(workload: Workload) -> str | None:
    return torch_matmul.supports(workload.plain)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return torch_matmul.variants(workload.plain, target)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    return torch_matmul.bind(build, workload.plain, inputs.plain, outputs.plain)
