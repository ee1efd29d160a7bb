"""Sixteen page numbers in the lanes of a warp, one taken by a shuffle."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel(table: cute.Tensor, cache: cute.Tensor, y: cute.Tensor):
    lane, _, _ = cute.arch.thread_idx()
    pages = table[lane % 16]  # one load, into a register of each lane; nothing waits yet
    total = cutlass.Float32(0)
    for n in cutlass.range(16):
        page = cute.arch.shuffle_sync(pages, offset=n)
        total += cache[page, lane]
    y[lane] = total


@cute.jit
def host(table: cute.Tensor, cache: cute.Tensor, y: cute.Tensor):
    kernel(table, cache, y).launch(grid=(1, 1, 1), block=(32, 1, 1))


def test_every_page_is_read_once():
    table, cache, y = torch.randperm(16).int(), torch.randn(16, 32), torch.zeros(32)
    host(*map(from_dlpack, (table, cache, y)))
    assert torch.allclose(y, cache.sum(0), atol=1e-5)
