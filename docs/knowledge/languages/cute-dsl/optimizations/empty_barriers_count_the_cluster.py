"""A ring that both CTAs fill by multicast: its empty barriers count warps of both."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass import pipeline
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack

BOX, STAGES, TILES, CTAS = (8, 32), 2, 6, 2
WARPS = 4  # consumer warps per CTA


@cute.kernel
def kernel(load: cute.CopyAtom, source: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    memory = cutlass.memory.SmemAllocator()
    ring = memory.allocate_tensor(cutlass.Float32, cute.make_layout((8, 32, STAGES), stride=(32, 1, 256)), 128)
    consumers = pipeline.CooperativeGroup(pipeline.Agent.Thread, WARPS * CTAS)  # arrivals at an empty barrier
    producer, consumer = pipeline.PipelineTmaAsync.create(
        num_stages=STAGES,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=consumers,
        tx_count=8 * 32 * 4,
        barrier_storage=memory.allocate_array(cutlass.Int64, 2 * STAGES),
        cta_layout_vmnk=cute.make_layout((1, 1, CTAS, 1)),
    ).make_participants()
    tiles = cute.local_tile(source, BOX, (None, 0))
    to, of = cpasync.tma_partition(
        load, rank, cute.make_layout(CTAS), cute.group_modes(ring, 0, 2), cute.group_modes(tiles, 0, 2)
    )
    if warp == WARPS:
        for tile in cutlass.range(TILES):
            empty = producer.acquire_and_advance()
            mask = cutlass.Int16((1 << CTAS) - 1)
            cute.copy(load, of[None, tile], to[None, empty.index], tma_bar_ptr=empty.barrier, mcast_mask=mask)
        producer.tail()
    else:
        total = cutlass.Float32(0)
        for _ in cutlass.range(TILES):
            full = consumer.wait_and_advance()
            total += ring[warp, thread % 32, full.index]
            cute.arch.fence_proxy("async.shared", space="cta")  # TMA writes next what was read here
            full.release()
        y[rank, thread] = total
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()


@cute.jit
def host(x: cute.Tensor, y: cute.Tensor):
    op, box = cpasync.CopyBulkTensorTileG2SMulticastOp(), cute.make_layout(BOX, stride=(32, 1))
    load, source = cpasync.make_tiled_tma_atom(op, x, box, BOX, num_multicast=CTAS)
    kernel(load, source, y).launch(grid=(CTAS, 1, 1), block=(32 * WARPS + 32, 1, 1), cluster=(CTAS, 1, 1))


def test_both_ctas_add_all_tiles():
    x, y = torch.randn(8 * TILES, 32), torch.zeros(CTAS, 32 * WARPS)
    host(from_dlpack(x, assumed_align=16), from_dlpack(y))
    wanted = x.view(TILES, 8, 32)[:, :WARPS].sum(0).flatten()
    assert torch.allclose(y, wanted.expand(CTAS, -1), atol=1e-5)
