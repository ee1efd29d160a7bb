"""A ring of two stages between a loading warp and an adding warp."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass import pipeline
from cutlass.cute.runtime import from_dlpack

STAGES, TILES = 2, 8


@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    memory = cutlass.memory.SmemAllocator()
    ring = memory.allocate_tensor(cutlass.Float32, cute.make_layout((32, STAGES)), 16)
    lanes = pipeline.CooperativeGroup(pipeline.Agent.Thread, 32)
    producer, consumer = pipeline.PipelineAsync.create(
        num_stages=STAGES,
        producer_group=lanes,
        consumer_group=lanes,
        barrier_storage=memory.allocate_array(cutlass.Int64, 2 * STAGES),
    ).make_participants()
    if warp == 0:
        for tile in cutlass.range(TILES):
            empty = producer.acquire_and_advance()
            ring[thread, empty.index] = x[tile, thread]
            empty.commit()
        producer.tail()
    else:
        total = cutlass.Float32(0)
        for _ in cutlass.range(TILES):
            full = consumer.wait_and_advance()
            total += ring[thread - 32, full.index]
            full.release()
        y[thread - 32] = total


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    kernel(x, y).launch(grid=(1, 1, 1), block=(64, 1, 1))


def test_every_tile_is_added_once():
    x, y = torch.randn(TILES, 32), torch.zeros(32)
    host(from_dlpack(x), from_dlpack(y))
    assert torch.allclose(y, x.sum(0), atol=1e-5)
