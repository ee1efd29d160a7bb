"""NVIDIA's CUTLASS example of Mamba-2's state space duality for Blackwell, called unmodified."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.upstream.examples import module
from kernels.upstream.gemm import element


def program(dtype: str, chunk: int, head_dim: int, state: int, most_blocks: int) -> tuple[Any, tuple[Any, ...]]:
    """Return the operator on the example and fake arguments.

    d is one number per head. mX is (D, L, C, H, B), mSums and mDt (L, C, H, B), mB and mC (L, N, C, G, B), mY (L, D, C,
    H, B), mState (D, N, H, B), mD (1, H): tokens of a chunk, chunks, features and so on. The tokens of a chunk are the
    fastest mode, and the batch is the slowest. Batch, chunks, heads and groups are dynamic.
    """
    example = module("blackwell.mamba2_ssd.mamba2_ssd")
    kernel = example.SSDKernel(element(dtype), cutlass.Float32, cutlass.Float32, chunk, head_dim, state, True, False)

    @cute.jit
    def duality(mX, mSums, mDt, mB, mC, mY, mState, mD, stream):
        kernel(mX, mSums, mDt, mB, mC, mY, mState, mD, most_blocks, stream)

    def fake(element: type[cutlass.Numeric], shape: tuple[Any, ...], order: tuple[int, ...]) -> Any:
        """`order` has each mode's place from the fastest, 0."""
        return make_fake_compact_tensor(element, shape, stride_order=order, assumed_align=16)

    batch, chunks, heads, groups = (cute.sym_int32() for _ in range(4))
    io = element(dtype)
    x = fake(io, (head_dim, chunk, chunks, heads, batch), (2, 0, 1, 3, 4))
    sums, dt = (fake(kind, (chunk, chunks, heads, batch), (0, 1, 2, 3)) for kind in (cutlass.Float32, io))
    b, c = (fake(io, (chunk, state, chunks, groups, batch), (0, 2, 1, 3, 4)) for _ in "bc")
    y = fake(io, (chunk, head_dim, chunks, heads, batch), (0, 2, 1, 3, 4))
    final = fake(io, (head_dim, state, heads, batch), (1, 0, 2, 3))
    d = fake(io, (1, heads), (0, 1))
    return duality, (x, sums, dt, b, c, y, final, d, make_fake_stream())
