"""NVIDIA's example `dense_blockscaled_gemm_persistent_amax` in CuTe DSL, unmodified from the fetched wheel: as
`cutlass_persistent`, and the largest magnitude in C as well, which is no output of this operator."""

from kernels.gemm_blockscaled.cutlass import adapter
from kernels.gemm_blockscaled.cutlass.adapter import TARGETS, supports, variants
from kernels.upstream.examples import SOURCE

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
EXAMPLE = adapter.Example(
    "blackwell.dense_blockscaled_gemm_persistent_amax", "Sm100BlockScaledPersistentDenseGemmKernel", takes="amax"
)
compile, bind = EXAMPLE.compile, EXAMPLE.bind
