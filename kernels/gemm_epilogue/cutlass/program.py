"""Program of NVIDIA's GEMM for SM100, unmodified, with an epilogue of this project."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from kernels.upstream.examples import module
from kernels.upstream.gemm import fake


def program(**params: Any) -> tuple[Any, tuple]:
    """Return D = activation(alpha A B^T + beta C) on the example, and fake arguments.

    mA is (M, K, L), mB (N, K, L), mC and mD (M, N, L), the second mode contiguous; sizes are dynamic.
    """
    p = params

    def activated_sum(efc_config, C, D, alpha, beta):
        """Compute the epilogue in the example's terms: load, then store tiles of named tensors."""
        result = efc_config.accum() * alpha + C.load() * beta
        D.store(getattr(efc_config, p["activation"])(result))

    example = module("blackwell.epilogue.common_dense_gemm_efc").DenseGemmEFC(
        cutlass.Float32,
        cutlass.Float32,
        p["pair"],
        (p["tile_m"], p["tile_n"]),
        (p["cluster_m"], p["cluster_n"]),
        activated_sum,
    )

    @cute.jit
    def gemm(mA, mB, mC, mD, alpha, beta, stream):
        example.efc.compile((mC, mD, alpha, beta))
        packed = example.efc.jit.pack_arguments(mC, mD, alpha, beta)
        example(mA, mB, p["most_clusters"], stream, packed)

    numbers = (cutlass.Float32(1.0), cutlass.Float32(1.0))
    return gemm, (*(fake(p["dtype"]) for _ in "ABCD"), *numbers, make_fake_stream())
