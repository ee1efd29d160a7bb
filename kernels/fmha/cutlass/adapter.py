"""What the adapters of NVIDIA's attention kernels share: `cutlass_sm90`, `cutlass_sm100`, `flashinfer_sm100`."""

import math
from dataclasses import dataclass

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.fmha.operator import Inputs, Outputs, Workload
from kernels.upstream import examples

LOG2_E = 1.0 / math.log(2.0)


@dataclass(frozen=True)
class Example(examples.Example):
    """A class of NVIDIA's examples, as a kernel.

    `tile` is queries x keys of one product, of which a CTA has two. `lse` says that it always writes the log-sum-exp,
    `starts` that it takes a table of where sequences begin.
    """

    PROGRAM = "kernels.fmha.cutlass.program:program"
    FUNCTION = "fmha"
    tile: tuple[int, int]
    lse: bool = False
    starts: bool = False

    @not_baked
    def variants(self, workload: Workload, target: str) -> tuple[Variant, ...]:
        """Return the build for a workload, its mask as NVIDIA's runner chooses it."""
        w, (tile_m, tile_n) = workload, self.tile
        mask = "causal" if w.causal else "residual" if self.starts or w.length % tile_n else "none"
        params = {"dtype": w.dtype, "head_dim": w.head_dim, "tile_m": tile_m, "tile_n": tile_n, "mask": mask}
        return (Variant(f"{w.dtype}_d{w.head_dim}_{tile_m}x{tile_n}_{mask}", params),)

    @not_baked
    def bind(self, build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
        """Bind a CTA per two tiles of queries of a head.

        The log-sum-exp goes to separate memory, and so does the table of where sequences begin.
        """
        import torch

        w, scale, device = workload, inputs.softmax_scale, inputs.q.device
        lse = [torch.empty(w.batch, w.heads, w.length, dtype=torch.float32, device=device)] * self.lse
        starts = [torch.arange(w.batch + 1, dtype=torch.int32, device=device) * w.length] * self.starts
        values = (inputs.q, inputs.k, inputs.v, outputs.out, *lse, *starts, scale * LOG2_E, scale)
        grid = (-(-w.length // (2 * self.tile[0])), w.heads, w.batch)
        return build.runner(values, grid)
