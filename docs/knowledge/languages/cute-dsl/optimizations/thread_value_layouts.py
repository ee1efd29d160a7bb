"""A thread-value layout of 4 x 32 threads with 4 x 4 values each."""

import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    threads = cute.make_layout((4, 32), stride=(32, 1))
    values = cute.make_layout((4, 4), stride=(4, 1))
    tiler, tv = cute.make_layout_tv(threads, values)  # (16, 128) and ((32,4),(4,4)):((64,4),(16,1))
    gX, gY = (cute.local_tile(tensor, tiler, (0, 0)) for tensor in (x, y))
    mine = cute.composition(gX, tv)[(thread, None)]
    cute.composition(gY, tv)[(thread, None)].store(2 * mine.load())


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    kernel(x, y).launch(grid=(1, 1, 1), block=(128, 1, 1))


def test_every_element_is_copied():
    x, y = torch.randn(16, 128), torch.zeros(16, 128)
    host(from_dlpack(x), from_dlpack(y))
    assert torch.equal(y, 2 * x)
