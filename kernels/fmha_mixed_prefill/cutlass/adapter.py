"""What the adapters of NVIDIA's examples for heads of 256 and 512 share."""

import math
from dataclasses import dataclass

from cutesnake.model.contract import Build, Runner, Variant, not_baked
from kernels.fmha_mixed_prefill.operator import Inputs, Outputs, Workload
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream import examples

QUERIES, KEYS = 128, 128  # of a CTA's tile; two CTAs take neighbouring tiles of queries
LOG2_E = 1.0 / math.log(2.0)


@dataclass(frozen=True)
class Example(examples.Example):
    """A class of NVIDIA's examples, for heads of `width` elements, as a kernel."""

    PROGRAM = "kernels.fmha_mixed_prefill.cutlass.program:program"
    FUNCTION = "fmha_mixed_prefill"
    width: int

    @not_baked
    def supports(self, workload: Workload) -> str | None:
        w = workload
        if w.dtype != "int8":
            return f"dtype is {w.dtype}: NVIDIA's example takes int8 keys and values"
        if w.head_dim != self.width:
            return f"head_dim is {w.head_dim}: this example of NVIDIA's is for {self.width}"
        if w.length % 8:
            return f"length is {w.length}: TMA loads scales of 8 tokens at a time"
        return None

    @not_baked
    def variants(self, workload: Workload, target: str) -> tuple[Variant, ...]:
        """Return builds, the mask compiled in as NVIDIA's runner chooses it."""
        w = workload
        mask = "causal" if w.causal else "residual" if w.length % KEYS else "none"
        return (Variant(f"int8_d{self.width}_{mask}", {"width": self.width, "mask": mask}),)

    @not_baked
    def bind(self, build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
        """One launch: a pair of CTAs per two tiles of queries of a head."""
        w, i = workload, inputs
        tensors = (i.q, i.k, i.v, i.k_scale, i.v_scale, outputs.out)
        tiles = -(-w.length // (2 * QUERIES)) * 2
        return build.runner((*tensors, i.softmax_scale * LOG2_E), (tiles, w.heads, w.batch))
