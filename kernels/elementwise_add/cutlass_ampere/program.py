"""The kernel of NVIDIA's example `ampere/elementwise_add.py`, unmodified, launched on a stream."""

from typing import Any

import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.elementwise_add.cute.kernel import ELEMENTS, VECTOR_BITS
from kernels.upstream.examples import module


class ElementwiseAdd:
    """The operator on NVIDIA's kernel."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    @cute.jit
    def __call__(self, mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, stream: CUstream) -> None:
        """Launch on row-major mA, mB, mC: (M, N); M and N are dynamic.

        The example's kernel takes tensors divided in tiles.
        """
        threads = cute.make_ordered_layout((4, 32), order=(1, 0))
        values = cute.make_ordered_layout((4, VECTOR_BITS // mC.element_type.width), order=(1, 0))
        tiler, _ = cute.make_layout_tv(threads, values)
        gA, gB, gC = (cute.zipped_divide(mX, tiler) for mX in (mA, mB, mC))
        cC = cute.zipped_divide(cute.make_identity_tensor(mC.shape), tiler)
        self.kernel(gA, gB, gC, cC, mC.shape, threads, values).launch(
            grid=[cute.size(gC, mode=[1]), 1, 1], block=[cute.size(threads), 1, 1], stream=stream
        )


def program(dtype: str) -> tuple[ElementwiseAdd, tuple]:
    """Return the host function and fake arguments for a build that serves every shape."""
    shape = (cute.sym_int32(), cute.sym_int32())
    tensors = [make_fake_compact_tensor(ELEMENTS[dtype], shape, stride_order=(1, 0), assumed_align=16) for _ in "abc"]
    return ElementwiseAdd(module("ampere.elementwise_add").elementwise_add_kernel), (*tensors, make_fake_stream())
