"""Two CTAs merge their halves of an online softmax through distributed shared memory."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

KEYS = 64  # per CTA


@cute.kernel
def kernel(scores: cute.Tensor, values: cute.Tensor, out: cute.Tensor):
    lane, _, _ = cute.arch.thread_idx()
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    memory = cutlass.memory.SmemAllocator()
    received = memory.allocate_tensor(cutlass.Float32, cute.make_layout(3), 16)
    barrier = memory.allocate_array(cutlass.Int64, 1)
    if lane == 0:
        cute.arch.mbarrier_init(barrier, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.mbarrier_arrive_and_expect_tx(barrier, 3 * 4)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    s0, s1 = scores[rank * KEYS + lane], scores[rank * KEYS + lane + 32]
    top = cute.arch.warp_reduction_max(cute.arch.fmax(s0, s1))
    p0, p1 = cute.math.exp2(s0 - top), cute.math.exp2(s1 - top)
    total = cute.arch.warp_reduction_sum(p0 + p1)
    value = cute.arch.warp_reduction_sum(p0 * values[rank * KEYS + lane] + p1 * values[rank * KEYS + lane + 32])
    if lane == 0:
        for i, part in enumerate((top, total, value)):
            bits = cute.arch.inline_ptx("mov.b32 $0, $1;", write_only_types=[cutlass.Int32], read_only_args=[part])
            cute.arch.store_async_dsmem(received.iterator + i, bits, barrier, rank ^ 1)
    cute.arch.mbarrier_wait(barrier, 0)
    common = cute.arch.fmax(top, received[0])
    own, other = cute.math.exp2(top - common), cute.math.exp2(received[0] - common)
    if lane == 0:
        out[rank] = (own * value + other * received[2]) / (own * total + other * received[1])


@cute.jit
def host(scores: cute.Tensor, values: cute.Tensor, out: cute.Tensor):
    kernel(scores, values, out).launch(grid=(2, 1, 1), block=(32, 1, 1), cluster=(2, 1, 1))


def test_both_ctas_have_the_result_of_all_keys():
    scores, values, out = torch.randn(2 * KEYS), torch.randn(2 * KEYS), torch.zeros(2)
    host(*map(from_dlpack, (scores, values, out)))
    p = torch.exp2(scores - scores.max())
    assert torch.allclose(out, (p @ values / p.sum()).expand(2), atol=1e-5)
