"""A value that the mask hides from the softmax still reaches the product."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

TOKENS = 20  # of the 32 rows of a tile


@cute.kernel
def kernel(p: cute.Tensor, v: cute.Tensor, y: cute.Tensor):
    lane, _, _ = cute.arch.thread_idx()
    value = cutlass.Float32(0)
    if lane < TOKENS:  # not only P, but V too
        value = v[lane]
    total = cute.arch.warp_reduction_sum(p[lane] * value)
    if lane == 0:
        y[0] = total


@cute.jit
def host(p: cute.Tensor, v: cute.Tensor, y: cute.Tensor):
    kernel(p, v, y).launch(grid=(1, 1, 1), block=(32, 1, 1))


def test_nan_past_the_end_does_not_reach_the_result():
    p, v, y = torch.rand(32), torch.randn(32), torch.zeros(1)
    p[TOKENS:], v[TOKENS:] = 0, torch.nan
    assert (p @ v).isnan()  # zero times NaN
    host(*map(from_dlpack, (p, v, y)))
    assert torch.allclose(y, p[:TOKENS] @ v[:TOKENS], atol=1e-5)
