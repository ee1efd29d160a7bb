"""Two warpgroups pass a turn to each other by named barriers."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel(y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    group = cute.arch.make_warp_uniform(thread // 128)
    turn = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(128), 16)
    if group == 1:
        cute.arch.barrier_arrive(barrier_id=1, number_of_threads=256)  # group 0 begins
    for tile in cutlass.range(4):
        cute.arch.barrier(barrier_id=1 + group, number_of_threads=256)
        turn[thread % 128] = cutlass.Float32(2 * tile + group)  # here: MMAs, while the other one computes softmax
        cute.arch.barrier_arrive(barrier_id=2 - group, number_of_threads=256)
    if group == 0:
        cute.arch.barrier(barrier_id=1, number_of_threads=256)
        y[thread] = turn[thread]


@cute.jit
def host(y: cute.Tensor):
    kernel(y).launch(grid=(1, 1, 1), block=(256, 1, 1))


def test_group_1_has_the_last_turn():
    y = torch.zeros(128)
    host(from_dlpack(y))
    assert (y == 7).all()
