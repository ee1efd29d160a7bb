"""NVIDIA's example `blackwell/programmatic_dependent_launch.py`, unmodified: its two launches in one function."""

from typing import Any

import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.elementwise_add.cute.kernel import ELEMENTS
from kernels.upstream.examples import module


def program(dtype: str, early: bool) -> tuple[Any, tuple]:
    """Return both additions and fake row-major (M, N) arguments, for every shape.

    `early` lets the second kernel start while the first one ends.
    """
    add = module("blackwell.programmatic_dependent_launch").elementwise_add

    @cute.jit
    def two_additions(mU, mV, mW, mX, mY, stream):
        add(mU, mV, mW, stream, False, True)  # the last argument says which kernel
        add(mW, mX, mY, stream, early, False)

    shape = (cute.sym_int32(), cute.sym_int32())
    tensors = [make_fake_compact_tensor(ELEMENTS[dtype], shape, stride_order=(1, 0), assumed_align=16) for _ in "uvwxy"]
    return two_additions, (*tensors, make_fake_stream())
