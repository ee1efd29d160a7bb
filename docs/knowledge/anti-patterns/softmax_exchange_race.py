"""Warps exchange their maxima through two buffers, so one barrier a tile is enough."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    warp = thread // 32
    exchange = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout((2, 2)), 16)
    for tile in cutlass.range(8):
        own = cute.arch.warp_reduction_max(x[tile, thread])
        exchange[warp, tile % 2] = own
        cute.arch.sync_threads()
        y[tile, thread] = cute.arch.fmax(own, exchange[1 - warp, tile % 2])


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    kernel(x, y).launch(grid=(1, 1, 1), block=(64, 1, 1))


def test_both_warps_have_the_maximum_of_each_tile():
    x, y = torch.randn(8, 64), torch.zeros(8, 64)
    host(from_dlpack(x), from_dlpack(y))
    assert torch.equal(y, x.max(1, keepdim=True).values.expand(8, 64))
