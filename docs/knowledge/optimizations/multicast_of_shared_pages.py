"""Each CTA of a cluster loads half of a tile and sends it to both."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack

BOX = (32, 64)


@cute.kernel
def kernel(load: cute.CopyAtom, source: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    memory = cutlass.memory.SmemAllocator()
    tile = memory.allocate_tensor(cutlass.Float32, cute.make_layout(BOX, stride=(64, 1)), 128)
    barrier = memory.allocate_array(cutlass.Int64, 1)
    if thread == 0:
        cute.arch.mbarrier_init(barrier, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(barrier, 32 * 64 * 4)  # the bytes of both halves
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()  # the peer's barrier is initialised
    halves = cute.make_layout(2)
    to, of = cpasync.tma_partition(load, rank, halves, cute.group_modes(tile, 0, 2), cute.group_modes(source, 0, 2))
    cute.copy(load, of, to, tma_bar_ptr=barrier, mcast_mask=cutlass.Int16(0b11))
    cute.arch.mbarrier_wait(barrier, 0)
    y[rank, thread] = tile[thread, 63]
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()  # no CTA exits while its peer still writes to it


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    op, box = cpasync.CopyBulkTensorTileG2SMulticastOp(), cute.make_layout(BOX, stride=(64, 1))
    load, source = cpasync.make_tiled_tma_atom(op, x, box, BOX, num_multicast=2)
    kernel(load, source, y).launch(grid=(2, 1, 1), block=(32, 1, 1), cluster=(2, 1, 1))


def test_both_ctas_have_both_halves():
    x, y = torch.randn(BOX), torch.zeros(2, 32)
    host(from_dlpack(x, assumed_align=16), from_dlpack(y))
    assert torch.equal(y, x[:, 63].expand(2, 32))
