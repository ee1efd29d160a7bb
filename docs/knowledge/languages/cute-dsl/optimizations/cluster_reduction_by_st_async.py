"""Each CTA sends its maximum to all others; every store signals a barrier there."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

CTAS = 4


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    lane, _, _ = cute.arch.thread_idx()
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    memory = cutlass.memory.SmemAllocator()
    parts = memory.allocate_tensor(cutlass.Int32, cute.make_layout(CTAS), 16)
    barrier = memory.allocate_array(cutlass.Int64, 1)
    if lane == 0:
        cute.arch.mbarrier_init(barrier, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(barrier, CTAS * 4)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    own = cute.arch.warp_redux_sync(x[rank * 32 + lane], "max")
    if lane < CTAS:
        cute.arch.store_async_dsmem(parts.iterator + rank, own, barrier, lane)
    cute.arch.mbarrier_wait(barrier, 0)
    largest = parts[0]
    for i in cutlass.range_constexpr(1, CTAS):
        largest = cutlass.max(largest, parts[i])
    if lane == 0:
        y[rank] = largest


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    kernel(x, y).launch(grid=(4, 1, 1), block=(32, 1, 1), cluster=(4, 1, 1))


def test_every_cta_has_the_maximum_of_the_row():
    x, y = torch.randperm(32 * CTAS).int(), torch.zeros(CTAS, dtype=torch.int32)
    host(from_dlpack(x), from_dlpack(y))
    assert (y == 32 * CTAS - 1).all()
