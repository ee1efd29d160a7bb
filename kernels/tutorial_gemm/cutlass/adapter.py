"""A step of NVIDIA's tutorial as a kernel: what it takes, compilation, grids and arguments."""

from dataclasses import dataclass, replace
from typing import Any

from cutesnake.model.contract import Build, Launch, Runner, Variant, not_baked
from kernels.programs import Compile, compile_program
from kernels.targets import BLACKWELL as TARGETS
from kernels.tutorial_gemm.operator import Inputs, Outputs, Workload
from kernels.upstream import gemm as upstream

PAIRS = 148 // 2  # of the multiprocessors of a B200 or B300: the tutorial asks the device
DEQUANTIZED_PER_BLOCK = 128 * 64  # elements of B: elements per thread, times threads


@dataclass(frozen=True)
class Step:
    """A step of the tutorial.

    `limits` is how many limits of clusters its host function takes. `cta_tile` is what a CTA computes of C, `cluster`
    the CTAs of a cluster along M and N: where there is a `fallback`, the preferred ones, and `fallback` those that the
    launch is certain of. `stays` says that clusters take several tiles each, given out beforehand. `ab_stages` replaces
    the number of stages of the loads. `dequantizes` says that it makes B out of integers first.
    """

    name: str
    limits: int = 0
    cta_tile: tuple[int, int] = (128, 256)
    cluster: tuple[int, int] = (2, 1)
    fallback: tuple[int, int] | None = None
    stays: bool = False
    ab_stages: int | None = None
    dequantizes: bool = False

    @not_baked
    def supports(self, workload: Workload) -> str | None:
        """Whole tiles only, as the tutorial says of every step."""
        rows = 128 if self.cluster == (1, 1) else 256
        for name, extent, tile in (("m", workload.m, rows), ("n", workload.n, 256)):
            if extent % tile:
                return f"{name} is {extent}: this step of the tutorial takes multiples of {tile}"
        if self.dequantizes and workload.k % 128:
            return f"k is {workload.k}: this step of the tutorial takes multiples of 128"
        return upstream.refused_rows(("k", workload.k, 16, "A and B"))

    @not_baked
    def variants(self, workload: Workload, target: str) -> tuple[Variant, ...]:
        """Return one build for all sizes."""
        return (Variant("fp16", {"most_clusters": PAIRS}),)

    @property
    def compile(self) -> Compile:
        return compile_program(
            "kernels.tutorial_gemm.cutlass.program:program", "gemm", self.name, self.limits, self.ab_stages
        )

    @not_baked
    def bind(self, build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
        """Bind without copies; the last step converts B's integers into separate memory."""
        import torch

        from cutesnake.stages.load.cute import Call

        w = workload
        if self.stays:
            most = build.params["most_clusters"]
            grid = upstream.persistent_grid(w.m, w.n, 1, self.cta_tile, self.cluster, most)
        else:
            grid = upstream.tile_grid(w.m, w.n, 1, self.cta_tile, self.cluster)
        # A launch with a cluster to fall back to names both at run time only.
        launches = [replace(build.launch(build.symbols[-1], grid), cluster=(*(self.fallback or self.cluster), 1))]
        values: tuple[Any, ...] = (inputs.a, inputs.b, outputs.c)
        if self.dequantizes:
            b_dequantized = torch.empty_like(inputs.b)  # a variable of its own, whose name the anatomy shows
            values = (inputs.a, inputs.b_quantized, b_dequantized, outputs.c, inputs.scale)
            launches.insert(0, _dequantization(build, w))
        return Runner(Call(build.function(), values), tuple(launches))


@not_baked
def _dequantization(build: Build, w: Workload) -> Launch:
    return build.launch(build.symbols[0], (-(-w.n * w.k // DEQUANTIZED_PER_BLOCK), 1, 1))
