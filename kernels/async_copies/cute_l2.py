"""`async_copies` in CuTe DSL, by `cp.async` of 16 bytes that bypasses L1."""

from functools import partial

from cutesnake.model.contract import Build, Runner
from kernels.async_copies.cute import adapter
from kernels.async_copies.cute.adapter import TARGETS, supports, variants
from kernels.async_copies.operator import Inputs, Outputs, Workload

DSL = "cute"
SOURCE = "ours"
compile = partial(adapter.compile, "CopyThroughL2")


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One launch, a CTA per tile."""
    return build.runner((inputs.x, outputs.y), adapter.grid(workload))
