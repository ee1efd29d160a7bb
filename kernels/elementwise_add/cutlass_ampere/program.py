"""The kernel of NVIDIA's example `ampere/elementwise_add.py`, unmodified, launched on a stream."""

from typing import Any

import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.elementwise_add.cute.kernel import ELEMENTS, VECTOR_BITS
from kernels.upstream.examples import module


def program(dtype: str) -> tuple[Any, tuple]:
    """Return the operator on NVIDIA's kernel and fake row-major (M, N) arguments, for every shape."""
    kernel = module("ampere.elementwise_add").elementwise_add_kernel

    @cute.jit
    def add(mA, mB, mC, stream):
        """Launch the example's kernel, which takes tensors divided in tiles."""
        threads = cute.make_ordered_layout((4, 32), order=(1, 0))
        values = cute.make_ordered_layout((4, VECTOR_BITS // mC.element_type.width), order=(1, 0))
        tiler, _ = cute.make_layout_tv(threads, values)
        gA, gB, gC = (cute.zipped_divide(mX, tiler) for mX in (mA, mB, mC))
        cC = cute.zipped_divide(cute.make_identity_tensor(mC.shape), tiler)
        kernel(gA, gB, gC, cC, mC.shape, threads, values).launch(
            grid=[cute.size(gC, mode=[1]), 1, 1], block=[cute.size(threads), 1, 1], stream=stream
        )

    shape = (cute.sym_int32(), cute.sym_int32())
    tensors = [make_fake_compact_tensor(ELEMENTS[dtype], shape, stride_order=(1, 0), assumed_align=16) for _ in "abc"]
    return add, (*tensors, make_fake_stream())
