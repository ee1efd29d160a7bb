"""NVIDIA's example `blackwell/programmatic_dependent_launch.py`, unmodified: its two launches in one function."""

from typing import Any

import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.elementwise_add.cute.kernel import ELEMENTS
from kernels.upstream.examples import module


class TwoAdditions:
    """The operator on NVIDIA's example.

    `early` lets the second kernel start while the first one ends.
    """

    def __init__(self, add: Any, early: bool) -> None:
        self.add = add
        self.early = early

    @cute.jit
    def __call__(
        self,
        mU: cute.Tensor,
        mV: cute.Tensor,
        mW: cute.Tensor,
        mX: cute.Tensor,
        mY: cute.Tensor,
        stream: CUstream,
    ) -> None:
        """Launch both kernels on row-major (M, N) tensors; M and N are dynamic.

        The example's last argument says which kernel.
        """
        self.add(mU, mV, mW, stream, False, True)
        self.add(mW, mX, mY, stream, self.early, False)


def program(dtype: str, early: bool) -> tuple[TwoAdditions, tuple]:
    """Return the host function and fake arguments for a build that serves every shape."""
    shape = (cute.sym_int32(), cute.sym_int32())
    tensors = [make_fake_compact_tensor(ELEMENTS[dtype], shape, stride_order=(1, 0), assumed_align=16) for _ in "uvwxy"]
    example = module("blackwell.programmatic_dependent_launch")
    return TwoAdditions(example.elementwise_add, early), (*tensors, make_fake_stream())
