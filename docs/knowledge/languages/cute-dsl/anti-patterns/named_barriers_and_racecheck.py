"""One hand-over by bar.arrive and bar.sync, and the same by an mbarrier."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    warp, lane = cute.arch.make_warp_uniform(cute.arch.warp_idx()), thread % 32
    memory = cutlass.memory.SmemAllocator()
    named, by_mbarrier = (memory.allocate_tensor(cutlass.Float32, cute.make_layout(32), 16) for _ in range(2))
    ready = memory.allocate_array(cutlass.Int64, 1)
    if thread == 0:
        cute.arch.mbarrier_init(ready, 32)
    cute.arch.sync_threads()
    if warp == 0:
        named[lane] = x[lane]
        cute.arch.barrier_arrive(barrier_id=1, number_of_threads=64)  # racecheck reports a hazard
        by_mbarrier[lane] = x[lane]
        cute.arch.mbarrier_arrive(ready)  # racecheck reports none
    else:
        cute.arch.barrier(barrier_id=1, number_of_threads=64)
        y[lane] = named[31 - lane]
        cute.arch.mbarrier_wait(ready, 0)
        y[lane] += by_mbarrier[31 - lane]


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    kernel(x, y).launch(grid=(1, 1, 1), block=(64, 1, 1))


def test_both_hand_overs_are_right():
    x, y = torch.randn(32), torch.zeros(32)
    host(from_dlpack(x), from_dlpack(y))
    assert torch.equal(y, 2 * x.flip(0))
