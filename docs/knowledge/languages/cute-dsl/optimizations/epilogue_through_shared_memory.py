"""Registers to shared memory, a fence, then one TMA store."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack

BOX = (32, 32)


@cute.kernel
def kernel(x: cute.Tensor, store: cute.CopyAtom, target: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    memory = cutlass.memory.SmemAllocator()
    tile = memory.allocate_tensor(cutlass.Float32, cute.make_layout(BOX, stride=(32, 1)), 128)
    for i in cutlass.range_constexpr(8):
        tile[thread // 4, thread % 4 * 8 + i] = 2 * x[thread // 4, thread % 4 * 8 + i]
    box = cute.local_tile(target, BOX, (0, 0))
    cute.arch.fence_view_async_shared()  # generic stores before the TMA store, which is of the async proxy
    cute.arch.sync_threads()
    if cute.arch.make_warp_uniform(cute.arch.warp_idx()) == 0:
        of, to = cpasync.tma_partition(
            store, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), cute.group_modes(box, 0, 2)
        )
        cute.copy(store, of, to)
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0, read=True)  # shared memory may be used again


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    box = cute.make_layout(BOX, stride=(32, 1))
    store, target = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), y, box, BOX)
    kernel(x, store, target).launch(grid=(1, 1, 1), block=(128, 1, 1))


def test_nothing_outside_of_the_tensor_is_written():
    x, whole = torch.randn(BOX), torch.zeros(32, 32)
    host(from_dlpack(x), from_dlpack(whole[:20], assumed_align=16))  # 20 of the 32 rows of a box
    assert torch.equal(whole[:20], 2 * x[:20]) and not whole[20:].any()
