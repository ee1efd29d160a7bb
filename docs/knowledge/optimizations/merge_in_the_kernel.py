"""Of two CTAs, the one that ends last adds the parts and stores the result."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel(x: cute.Tensor, parts: cute.Tensor, ticket: cute.Tensor, y: cute.Tensor):
    lane, _, _ = cute.arch.thread_idx()
    split, _, _ = cute.arch.block_idx()
    own = x[split, lane]
    parts[split, lane] = own
    cute.arch.fence_acq_rel_gpu()
    cute.arch.sync_warp()
    drawn = cutlass.Int32(0)
    if lane == 0:
        drawn = cute.arch.atomic_add(ticket.iterator, cutlass.Int32(1), sem="acq_rel", scope="gpu")
    if cute.arch.shuffle_sync(drawn, offset=0) == 1:  # the second: waits for nobody
        cute.arch.fence_acq_rel_gpu()
        y[lane] = own + parts[1 - split, lane]


@cute.jit
def host(x: cute.Tensor, parts: cute.Tensor, ticket: cute.Tensor, y: cute.Tensor):
    kernel(x, parts, ticket, y).launch(grid=(2, 1, 1), block=(32, 1, 1))


def test_one_cta_stores_the_sum():
    x, parts, y = torch.randn(2, 32), torch.zeros(2, 32), torch.zeros(32)
    host(*map(from_dlpack, (x, parts, torch.zeros(1, dtype=torch.int32), y)))
    assert torch.equal(y, x[0] + x[1])
