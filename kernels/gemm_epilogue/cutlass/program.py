"""Program of NVIDIA's GEMM for SM100, unmodified, with an epilogue of this project."""

from collections.abc import Callable
from typing import Any

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_stream

from kernels.upstream.examples import module
from kernels.upstream.gemm import fake


def epilogue(activation: str) -> Callable[..., None]:
    """Compute the example's epilogue in its terms: load, then store tiles of named tensors."""

    def activated_sum(efc_config: Any, C: Any, D: Any, alpha: Any, beta: Any) -> None:
        result = efc_config.accum() * alpha + C.load() * beta
        D.store(getattr(efc_config, activation)(result))

    return activated_sum


class EpilogueGemm:
    """D = activation(alpha A B^T + beta C)."""

    def __init__(self, example: Any, most_clusters: int) -> None:
        self.example = example
        self.most_clusters = most_clusters

    @cute.jit
    def __call__(
        self,
        mA: cute.Tensor,
        mB: cute.Tensor,
        mC: cute.Tensor,
        mD: cute.Tensor,
        alpha: cutlass.Float32,
        beta: cutlass.Float32,
        stream: CUstream,
    ) -> None:
        """Launch on batched matrices.

        mA (M, K, L), mB (N, K, L), mC and mD (M, N, L). The second mode is contiguous.
        """
        self.example.efc.compile((mC, mD, alpha, beta))
        packed = self.example.efc.jit.pack_arguments(mC, mD, alpha, beta)
        self.example(mA, mB, self.most_clusters, stream, packed)


def program(**params: Any) -> tuple[EpilogueGemm, tuple]:
    """Return the host function and fake arguments for a variant; sizes are dynamic."""
    p = params
    example = module("blackwell.epilogue.common_dense_gemm_efc").DenseGemmEFC(
        cutlass.Float32,
        cutlass.Float32,
        p["pair"],
        (p["tile_m"], p["tile_n"]),
        (p["cluster_m"], p["cluster_n"]),
        epilogue(p["activation"]),
    )
    tensors = tuple(fake(p["dtype"]) for _ in range(4))
    numbers = (cutlass.Float32(1.0), cutlass.Float32(1.0))
    return EpilogueGemm(example, p["most_clusters"]), (*tensors, *numbers, make_fake_stream())
