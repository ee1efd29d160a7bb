"""Registers move from the loading warpgroup to the computing one."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(128), 16)
    if warp < 4:  # setmaxnreg is for whole warpgroups
        cute.arch.setmaxregister_decrease(40)
        buffer[thread] = x[thread]
        cute.arch.barrier_arrive(barrier_id=1, number_of_threads=256)
    else:
        cute.arch.setmaxregister_increase(232)
        cute.arch.barrier(barrier_id=1, number_of_threads=256)
        y[thread - 128] = 2 * buffer[thread - 128]


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    kernel(x, y).launch(grid=(1, 1, 1), block=(256, 1, 1))


def test_results_are_right():
    x, y = torch.randn(128), torch.zeros(128)
    host(from_dlpack(x), from_dlpack(y))
    assert torch.equal(y, 2 * x)
