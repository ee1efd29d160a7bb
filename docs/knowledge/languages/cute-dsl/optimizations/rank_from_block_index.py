"""The rank in a cluster of two, from the block index."""

import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel(y: cute.Tensor):
    block, _, _ = cute.arch.block_idx()
    rank = block % 2  # not cute.arch.block_idx_in_cluster(), which reads a special register
    if cute.arch.thread_idx()[0] == 0:
        y[block] = rank * 10 + cute.arch.block_idx_in_cluster()  # here only to compare the two


@cute.jit
def host(y: cute.Tensor):
    kernel(y).launch(grid=(4, 1, 1), block=(32, 1, 1), cluster=(2, 1, 1))


def test_both_ranks_are_equal():
    y = torch.full((4,), -1, dtype=torch.int32)
    host(from_dlpack(y))
    assert y.tolist() == [0, 11, 0, 11]
