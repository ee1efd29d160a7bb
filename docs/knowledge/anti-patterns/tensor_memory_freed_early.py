"""All warps that use tensor memory meet before one frees it."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.nvgpu import tcgen05
from cutlass.cute.runtime import from_dlpack

COLUMNS = 32


@cute.kernel
def kernel(y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    address = cutlass.memory.SmemAllocator().allocate_array(cutlass.Int32, 1)
    if warp == 0:
        cute.arch.alloc_tmem(COLUMNS, address)
    cute.arch.sync_threads()
    columns = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, address)
    tile = cute.make_tensor(columns, cute.make_layout((128, COLUMNS), stride=(65536, 1)))
    load, store = (
        tcgen05.make_tmem_copy(cute.make_copy_atom(op(tcgen05.Repetition(COLUMNS)), cutlass.Float32), tile)
        for op in (tcgen05.Ld32x32bOp, tcgen05.St32x32bOp)
    )
    load, store = load.get_slice(thread), store.get_slice(thread)
    row = cute.make_rmem_tensor(load.partition_D(cute.make_identity_tensor(tile.shape)).shape, cutlass.Float32)
    row.fill(1.0)
    cute.copy(store, row, store.partition_D(tile))
    cute.arch.fence_view_async_tmem_store()
    cute.copy(load, load.partition_S(tile), row)
    cute.arch.fence_view_async_tmem_load()
    y[thread] = row[0]
    cute.arch.sync_threads()  # without it, ptxsim finds a race with the dealloc
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit()
        cute.arch.dealloc_tmem(columns, COLUMNS)


@cute.jit
def host(y: cute.Tensor):
    kernel(y).launch(grid=(1, 1, 1), block=(128, 1, 1))


def test_every_lane_reads_what_it_stored():
    y = torch.zeros(128)
    host(from_dlpack(y))
    assert y.all()
