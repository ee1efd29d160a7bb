"""`async_copies` in CuTe DSL, by TMA with a descriptor that each CTA makes."""

from functools import partial

from cutesnake.model.contract import Build, Runner
from kernels.async_copies.cute import adapter
from kernels.async_copies.cute.adapter import TARGETS, supports, variants
from kernels.async_copies.operator import Inputs, Outputs, Workload

DSL = "cute"
SOURCE = "ours"
DESCRIPTOR_BYTES = 128
compile = partial(adapter.compile, "CopyByDescriptor")


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """One launch, a CTA per tile, with room for a descriptor each."""
    import torch

    grid = adapter.grid(workload)
    room = torch.empty(grid[0] * grid[1], DESCRIPTOR_BYTES // 8, dtype=torch.int64, device=inputs.x.device)
    return build.runner((inputs.x, outputs.y, room), grid)
