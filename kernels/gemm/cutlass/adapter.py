"""What the adapters of NVIDIA's dense GEMM examples share: variants, compilation, grids and arguments."""

from dataclasses import dataclass
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.gemm.operator import DTYPES, OUTPUT, Inputs, Outputs, Workload
from kernels.upstream import examples
from kernels.upstream import gemm as upstream
from kernels.upstream.gemm import Tiling


@dataclass(frozen=True)
class Example(examples.Example):
    """A class of NVIDIA's examples, as a kernel.

    `scheduler` says how tiles of C are given out: `tiles` (a cluster for each), `static` (clusters that stay and take
    every so-manyth) or `dynamic` (clusters that ask the hardware for the next).
    """

    PROGRAM = "kernels.gemm.cutlass.program:program"
    scheduler: str

    @property
    def chosen(self) -> tuple[Any, ...]:
        return (self.scheduler,)

    @not_baked
    def bind(self, build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
        """Bind the tensors without copies, as views with the batch last."""
        w = workload
        tensors = (
            upstream.operand(inputs.a, first_major=w.a_major == "m"),
            upstream.operand(inputs.b, first_major=w.b_major == "n"),
            upstream.operand(outputs.c),
        )
        return build.runner(tensors, self._grid(build, w))

    @not_baked
    def _grid(self, build: Build, w: Workload) -> tuple[int, int, int]:
        p = build.params
        cta_tile = (p["tile_m"] // (2 if p["pair"] else 1), p["tile_n"])
        cluster = (p["cluster_m"], p["cluster_n"])
        if self.scheduler == "static":
            return upstream.persistent_grid(w.m, w.n, w.batch, cta_tile, cluster, p["most_clusters"])
        return upstream.tile_grid(w.m, w.n, w.batch, cta_tile, cluster)


TILINGS = {
    "sm_90a": (
        Tiling(128, 256, (2, 1)),
        Tiling(128, 256, (1, 1)),
        Tiling(128, 128, (2, 1)),
        Tiling(64, 128, (1, 1)),
        Tiling(128, 64, (1, 1)),
        Tiling(64, 64, (1, 1)),
    ),
    "sm_100a": (
        Tiling(256, 256, (2, 1), pair=True),
        Tiling(256, 128, (2, 1), pair=True),
        Tiling(128, 256, (1, 1)),
        Tiling(128, 128, (1, 1)),
    ),
}
TILINGS["sm_103a"] = TILINGS["sm_100a"]


@not_baked
def supports(workload: Workload) -> str | None:
    """All whose contiguous dimensions are whole multiples of 16 bytes, which TMA asks for."""
    w = workload
    contiguous = {"A": (w.a_major, w.dtype), "B": (w.b_major, w.dtype), "C": ("n", OUTPUT[w.dtype])}
    rows = [(major, getattr(w, major), 8 * DTYPES[dtype], name) for name, (major, dtype) in contiguous.items()]
    return upstream.refused_rows(*rows)


@not_baked
def supports_sm90(workload: Workload) -> str | None:
    """Hopper's tensor cores take 8-bit operands with K contiguous only."""
    if workload.dtype == "fp8" and (workload.a_major, workload.b_major) != ("k", "k"):
        return "wgmma takes 8-bit operands with K contiguous only"
    return supports(workload)


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per element type, layout and tiling, which serves every size."""
    tilings = TILINGS[target]
    if target == "sm_90a" and workload.m <= 128:  # large tiles would leave most multiprocessors without one
        first = Tiling(64, 128, (1, 1))
        tilings = (first, *(t for t in tilings if t != first))
    return tuple(variant(workload, tiling, target) for tiling in tilings)


@not_baked
def variant(workload: Workload, tiling: Tiling, target: str) -> Variant:
    w = workload
    layout = ("_am" if w.a_major == "m" else "") + ("_bn" if w.b_major == "n" else "")
    params: dict[str, Any] = {"dtype": w.dtype, "output": OUTPUT[w.dtype], "sums": "fp32"}
    params |= {"a_major": w.a_major, "b_major": w.b_major}
    params |= {"tile_m": tiling.m, "tile_n": tiling.n, "pair": tiling.pair, "tma_store": True}
    params |= upstream.cluster_params(target, tiling.cluster)
    return Variant(f"{w.dtype}{layout}_{tiling.id}", params)
