"""What no earlier kernel writes is read before griddepcontrol.wait."""

import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def kernel(table: cute.Tensor, x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    row = table[block]  # the schedule: the host wrote it before any kernel of this call
    cute.arch.griddepcontrol_wait()
    y[block, thread] = x[row, thread]


@cute.jit
def host(table: cute.Tensor, x: cute.Tensor, y: cute.Tensor):
    kernel(table, x, y).launch(grid=(4, 1, 1), block=(32, 1, 1), use_pdl=True)


def test_rows_follow_the_table():
    table, x, y = torch.tensor([3, 1, 0, 2], dtype=torch.int32), torch.randn(4, 32), torch.zeros(4, 32)
    host(*map(from_dlpack, (table, x, y)))
    assert torch.equal(y, x[table.long()])
