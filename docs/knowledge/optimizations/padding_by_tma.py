"""Rows past the end lie outside of the tensor, so TMA makes them zero."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack

BOX, ROWS, LENGTH = (8, 64), 16, 11


@cute.kernel
def kernel(load: cute.CopyAtom, source: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    memory = cutlass.memory.SmemAllocator()
    tile = memory.allocate_tensor(cutlass.Float32, cute.make_layout(BOX, stride=(64, 1)), 128)
    barrier = memory.allocate_array(cutlass.Int64, 1)
    if thread == 0:
        cute.arch.mbarrier_init(barrier, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(barrier, 8 * 64 * 4)  # of the whole box, with its zeros
    cute.arch.sync_warp()
    second = cute.local_tile(source, BOX, (1, 0))
    to, of = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), cute.group_modes(second, 0, 2)
    )
    cute.copy(load, of, to, tma_bar_ptr=barrier)
    cute.arch.mbarrier_wait(barrier, 0)
    for row in cutlass.range_constexpr(8):
        y[row, thread] = tile[row, thread]


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    valid = cute.make_tensor(x.iterator, cute.make_layout((LENGTH, 64), stride=(64, 1)))
    load, source = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), valid, cute.make_layout(BOX, stride=(64, 1)), BOX
    )
    kernel(load, source, y).launch(grid=(1, 1, 1), block=(32, 1, 1))


def test_nan_past_the_end_becomes_zero():
    x, y = torch.randn(ROWS, 64), torch.zeros(8, 32)
    x[LENGTH:] = torch.nan
    host(from_dlpack(x, assumed_align=16), from_dlpack(y))
    assert torch.equal(y[:3], x[8:LENGTH, :32]) and not y[3:].any()
