"""Coordinates decide which elements of the last tile are stored."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

TILE = (8, 32)


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    lane, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    gX, gY, cY = (cute.local_tile(t, TILE, (block, 0)) for t in (x, y, cute.make_identity_tensor(y.shape)))
    for row in cutlass.range_constexpr(TILE[0]):
        if cute.elem_less(cY[row, lane], y.shape):
            gY[row, lane] = gX[row, lane]


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    kernel(x, y).launch(grid=(3, 1, 1), block=(32, 1, 1))


def test_the_last_tile_is_cut():
    x, whole = torch.randn(20, 30), torch.zeros(24, 30)
    host(from_dlpack(x), from_dlpack(whole[:20]))
    assert torch.equal(whole[:20], x) and not whole[20:].any()
