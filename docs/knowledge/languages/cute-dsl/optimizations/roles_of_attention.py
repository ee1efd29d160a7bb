"""Roles by warp, and a pipeline from each role to the next."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass import pipeline
from cutlass.cute.runtime import from_dlpack

STAGES, TILES = 2, 6
LOAD, SOFTMAX, CORRECT = range(3)  # a warp each


def ring(memory):
    lanes = pipeline.CooperativeGroup(pipeline.Agent.Thread, 32)
    barriers = memory.allocate_array(cutlass.Int64, 2 * STAGES)
    made = pipeline.PipelineAsync.create(
        num_stages=STAGES, producer_group=lanes, consumer_group=lanes, barrier_storage=barriers
    )
    return made.make_participants()


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    role, lane = cute.arch.make_warp_uniform(cute.arch.warp_idx()), thread % 32
    memory = cutlass.memory.SmemAllocator()
    scores = memory.allocate_tensor(cutlass.Float32, cute.make_layout((32, STAGES)), 16)
    scales = memory.allocate_tensor(cutlass.Float32, cute.make_layout((32, STAGES)), 16)
    loads, loaded = ring(memory)
    sends, sent = ring(memory)
    if role == LOAD:
        for tile in cutlass.range(TILES):
            empty = loads.acquire_and_advance()
            scores[lane, empty.index] = x[tile, lane]
            empty.commit()
        loads.tail()
    if role == SOFTMAX:
        top = x[0, lane]
        for _ in cutlass.range(TILES):
            full = loaded.wait_and_advance()
            empty = sends.acquire_and_advance()
            larger = cute.arch.fmax(top, scores[lane, full.index])
            scales[lane, empty.index] = cute.math.exp2(top - larger)
            top = larger
            full.release()
            empty.commit()
        sends.tail()
    if role == CORRECT:
        factor = cutlass.Float32(1)
        for _ in cutlass.range(TILES):
            full = sent.wait_and_advance()
            factor *= scales[lane, full.index]
            full.release()
        y[lane] = factor


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    kernel(x, y).launch(grid=(1, 1, 1), block=(96, 1, 1))


def test_the_last_role_has_the_product_of_all_factors():
    x, y = torch.randn(TILES, 32), torch.zeros(32)
    host(from_dlpack(x), from_dlpack(y))
    assert torch.allclose(y, torch.exp2(x[0] - x.max(0).values), atol=1e-5)
