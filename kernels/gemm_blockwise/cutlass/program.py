"""NVIDIA's blockwise GEMM classes for SM100, called unmodified with our operators' tensors."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.upstream.examples import module
from kernels.upstream.gemm import fake

TILE_N = 128


def program(path: str, name: str, indexed: bool, **params: Any) -> tuple[Any, tuple]:
    """Return the class `name` of the example `path` and fake arguments.

    The class is made for a variant; sizes are dynamic. A (M, K, L), B (N, K, L), C (M, N, L), scales of A (M, blocks,
    L) with M contiguous, of B (blocks, blocks, L), and where `indexed` a vector of whole numbers.
    """
    p = params
    cluster = (p["cluster_m"], p["cluster_n"])
    kernel = getattr(module(path), name)(cutlass.Float32, p["pair"], (p["tile_m"], TILE_N), cluster)
    operands = (fake(p["dtype"]), fake(p["dtype"]), fake("bf16"), fake("fp32", first_major=True), fake("fp32"))
    index = (make_fake_compact_tensor(cutlass.Int32, (cute.sym_int32(),), assumed_align=4),) if indexed else ()
    return kernel, (*operands, *index, p["most_clusters"], make_fake_stream())
