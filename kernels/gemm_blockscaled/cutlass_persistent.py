"""NVIDIA's example `dense_blockscaled_gemm_persistent`, unmodified: specialised warps stay for several tiles."""

from cutesnake.model.contract import Variant
from kernels.gemm_blockscaled.cutlass import adapter
from kernels.gemm_blockscaled.cutlass.adapter import TARGETS, TILINGS, supports
from kernels.gemm_blockscaled.operator import Workload
from kernels.targets import MULTIPROCESSORS
from kernels.upstream.examples import SOURCE
from kernels.upstream.gemm import Tiling

DSL = "cute"
EXAMPLE = adapter.Example(
    "blackwell.dense_blockscaled_gemm_persistent", "Sm100BlockScaledPersistentDenseGemmKernel", takes="layouts"
)
compile, bind = EXAMPLE.compile, EXAMPLE.bind
FEW_ROWS, WIDE = 256, 2048  # of C: as in a layer that decodes
NARROW = (Tiling(128, 64, (1, 1)), Tiling(128, 128, (1, 1)))


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per format and tiling, which serves every size.

    Few rows begin with the narrowest tiles that a GPU holds at once: it is predicted fastest.
    """
    w, first = workload, TILINGS[0]
    if w.m <= FEW_ROWS and w.n >= WIDE:
        at_once = (t for t in NARROW if -(-w.m // t.m) * -(-w.n // t.n) <= MULTIPROCESSORS[target])
        first = next(at_once, first)
    return tuple(adapter.variant(w.dtype, tiling) for tiling in sorted(TILINGS, key=lambda one: one != first))
