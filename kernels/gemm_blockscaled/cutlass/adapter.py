"""What the adapters of NVIDIA's block-scaled GEMM examples share: variants, compilation, grids and arguments."""

from dataclasses import dataclass
from typing import Any

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.gemm_blockscaled.operator import Inputs, Outputs, Workload
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream import examples
from kernels.upstream.gemm import Tiling, cluster_params

ALIGNED = 32  # elements: what the examples assume of M, N and K
TUTORIAL_K = 256  # elements of K in a tile of the tutorials


@dataclass(frozen=True)
class Example(examples.Example):
    """A class of NVIDIA's examples, called as `takes` says (see program.py)."""

    PROGRAM = "kernels.gemm_blockscaled.cutlass.program:program"
    takes: str

    @property
    def chosen(self) -> tuple[Any, ...]:
        return (self.takes,)

    @not_baked
    def bind(self, build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
        """Bind the tensors without copies; the largest magnitude in C has separate memory."""
        import torch

        amax = None
        if self.takes == "amax":  # only ever raised, so that it stands for all calls of this binding
            amax = torch.full((1, 1, 1), -torch.inf, device=outputs.c.device)
        scales = (inputs.a_scales.view(-1), inputs.b_scales.view(-1))
        values = (inputs.a, inputs.b, *scales, outputs.c, amax)
        return build.runner(values, self.grid(build, workload))

    @not_baked
    def grid(self, build: Build, w: Workload) -> tuple[int, int, int]:
        """Return the CTAs of a launch: a cluster per tile, if they all fit."""
        p = build.params
        pair = 2 if p["tile_m"] == 256 else 1
        along_m = -(-w.m // (p["tile_m"] // pair * p["cluster_m"]))
        along_n = -(-w.n // (p["tile_n"] * p["cluster_n"]))
        if self.takes == "problem":
            return along_m * p["cluster_m"], along_n * p["cluster_n"], 1
        return p["cluster_m"], p["cluster_n"], min(along_m * along_n, p["most_clusters"])


TILINGS = (  # 256 rows take a pair of CTAs; the first is the default
    Tiling(256, 256, (2, 1)),
    Tiling(256, 128, (2, 1)),
    Tiling(128, 128, (1, 1)),
    Tiling(256, 192, (2, 1)),
    *(Tiling(128, n, (1, 1)) for n in (256, 192, 64)),
)


@not_baked
def supports(workload: Workload) -> str | None:
    for key in ("m", "n", "k"):
        if getattr(workload, key) % ALIGNED:
            return f"{key} is {getattr(workload, key)}: NVIDIA's example takes multiples of {ALIGNED}"
    return None


@not_baked
def supports_whole_tiles(tiling: Tiling, workload: Workload) -> str | None:
    """For the tutorials, which have one format and no code for partial tiles."""
    if workload.dtype != "nvfp4":
        return "NVIDIA's tutorial is written for nvfp4"
    for key, tile in {"m": tiling.m, "n": tiling.n, "k": TUTORIAL_K}.items():
        if getattr(workload, key) % tile:
            return f"{key} is {getattr(workload, key)}: NVIDIA's tutorial takes multiples of its tile, {tile}"
    return None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per format and tiling, which serves every size."""
    return tuple(variant(workload.dtype, tiling) for tiling in TILINGS)


@not_baked
def only_variant(tiling: Tiling, workload: Workload, target: str) -> tuple[Variant, ...]:
    """For the tutorials, whose tiles stand in their sources."""
    return (variant(workload.dtype, tiling),)


@not_baked
def variant(dtype: str, tiling: Tiling) -> Variant:
    params: dict[str, Any] = {"dtype": dtype, "tile_m": tiling.m, "tile_n": tiling.n}
    params |= cluster_params("sm_100a", tiling.cluster)  # an sm_103a GPU has as many multiprocessors
    return Variant(f"{dtype}_{tiling.id}", params)
