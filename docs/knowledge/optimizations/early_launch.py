"""The second kernel starts early, and waits before it reads."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def first(x: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    cute.arch.griddepcontrol_launch_dependents()
    x[thread] = 1.0


@cute.kernel
def second(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    own = cutlass.Float32(thread)  # independent of the first kernel
    cute.arch.griddepcontrol_wait()
    y[thread] = x[thread] + own


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    first(x).launch(grid=(1, 1, 1), block=(128, 1, 1))
    second(x, y).launch(grid=(1, 1, 1), block=(128, 1, 1), use_pdl=True)


def test_the_second_kernel_sees_the_results_of_the_first():
    x, y = torch.zeros(128), torch.zeros(128)
    host(from_dlpack(x), from_dlpack(y))
    assert torch.equal(y, torch.arange(128.0) + 1)
