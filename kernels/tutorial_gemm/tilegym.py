"""TileGym's plain `matmul` (cuTile), for comparison with the tutorial's steps: the adapter of `gemm`."""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.gemm import tilegym
from kernels.tutorial_gemm.operator import Inputs, Outputs, Workload

DSL = "cutile"
SOURCE = tilegym.SOURCE
TARGETS = {"sm_100a": tilegym.TARGETS["sm_100a"]}  # where the tutorial runs; on sm_90a it is a kernel of `gemm`
compile = tilegym.compile


def supports(workload: Workload) -> str | None:
    return tilegym.supports(workload.plain)


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return tilegym.variants(workload.plain, target)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    return tilegym.bind(build, workload.plain, inputs.plain, outputs.plain)
