"""The L2 policy of a TMA load is an argument of the launch."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack

BOX = (32, 64)
KEEP, EVICT_FIRST = 0x14F0000000000000, 0x12F0000000000000


@cute.kernel
def kernel(load: cute.CopyAtom, source: cute.Tensor, policy: cutlass.Int64, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    memory = cutlass.memory.SmemAllocator()
    tile = memory.allocate_tensor(cutlass.Float32, cute.make_layout(BOX, stride=(64, 1)), 128)
    barrier = memory.allocate_array(cutlass.Int64, 1)
    if thread == 0:
        cute.arch.mbarrier_init(barrier, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(barrier, 32 * 64 * 4)
    cute.arch.sync_warp()
    to, of = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), cute.group_modes(source, 0, 2)
    )
    cute.copy(load, of, to, tma_bar_ptr=barrier, cache_policy=policy)
    cute.arch.mbarrier_wait(barrier, 0)
    y[thread] = tile[thread, 63]


@cute.jit
def host(x: cute.Tensor, policy: cutlass.Int64, y: cute.Tensor):
    box = cute.make_layout(BOX, stride=(64, 1))
    load, source = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), x, box, BOX)
    kernel(load, source, policy, y).launch(grid=(1, 1, 1), block=(32, 1, 1))


def test_the_policy_changes_no_value():
    x, y = torch.randn(BOX), torch.zeros(32)
    for policy in (KEEP, EVICT_FIRST):
        host(from_dlpack(x, assumed_align=16), cutlass.Int64(policy), from_dlpack(y.zero_()))
        assert torch.equal(y, x[:, 63])
