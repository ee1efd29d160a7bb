"""One warp multiplies tile after tile into two accumulators, four warps empty them."""

import cutlass
import cutlass.cute as cute
import cutlass.utils.blackwell_helpers as sm100
import torch
from cutlass import pipeline
from cutlass.cute.nvgpu import cpasync, tcgen05
from cutlass.cute.runtime import from_dlpack

TILE, TILES = (128, 64, 64), 6  # M, N, K of a tile
COLUMNS = 64  # of an accumulator; the two take 128 columns of tensor memory


@cute.kernel
def kernel(
    mma: cute.TiledMma,
    load_a: cute.CopyAtom,
    mA: cute.Tensor,
    load_b: cute.CopyAtom,
    mB: cute.Tensor,
    mC: cute.Tensor,
    layout_a: cute.ComposedLayout,
    layout_b: cute.ComposedLayout,
):
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    memory = cutlass.memory.SmemAllocator()
    sA = memory.allocate_tensor(cutlass.Float16, layout_a.outer, 1024, layout_a.inner)
    sB = memory.allocate_tensor(cutlass.Float16, layout_b.outer, 1024, layout_b.inner)
    loaded = memory.allocate_array(cutlass.Int64, 1)
    barriers = memory.allocate_array(cutlass.Int64, 2 * 2)
    address = memory.allocate_array(cutlass.Int32, 1)
    producer, consumer = pipeline.PipelineUmmaAsync.create(
        num_stages=2,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 128),
        barrier_storage=barriers,
    ).make_participants()
    if warp == 0:
        cute.arch.alloc_tmem(128, address)
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(loaded, 1)
            cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    columns = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, address)
    if warp == 4:
        slice_mma = mma.get_slice(0)
        gA = slice_mma.partition_A(cute.local_tile(mA, TILE, (0, None, 0), proj=(1, None, 1)))
        gB = slice_mma.partition_B(cute.local_tile(mB, TILE, (None, None, 0), proj=(None, 1, 1)))
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(loaded, (128 * 64 + TILES * 64 * 64) * 2)
        to, of = cpasync.tma_partition(
            load_a, 0, cute.make_layout(1), cute.group_modes(sA, 0, 3), cute.group_modes(gA, 0, 3)
        )
        cute.copy(load_a, of, to[None, 0], tma_bar_ptr=loaded)
        to, of = cpasync.tma_partition(
            load_b, 0, cute.make_layout(1), cute.group_modes(sB, 0, 3), cute.group_modes(gB, 0, 3)
        )
        for n in cutlass.range_constexpr(TILES):
            cute.copy(load_b, of[None, n], to[None, n], tma_bar_ptr=loaded)
        rA, rB = mma.make_fragment_A(sA), mma.make_fragment_B(sB)
        accumulators = cute.make_tensor(
            columns, mma.make_fragment_C(cute.append(mma.partition_shape_C(TILE[:2]), 2)).layout
        )
        cute.arch.mbarrier_wait(loaded, 0)
        for n in cutlass.range(TILES):
            empty = producer.acquire_and_advance()
            for k in cutlass.range_constexpr(4):
                mma.set(tcgen05.Field.ACCUMULATE, k > 0)
                accumulator = accumulators[None, None, None, empty.index]
                cute.gemm(mma, accumulator, rA[None, None, k, 0], rB[None, None, k, n], accumulator)
            empty.commit()
        producer.tail()
    if warp < 4:
        for n in cutlass.range(TILES):
            full = consumer.wait_and_advance()
            tile = cute.make_tensor(columns + COLUMNS * full.index, cute.make_layout((128, 64), stride=(65536, 1)))
            copy = tcgen05.make_tmem_copy(
                cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(64)), cutlass.Float32), tile
            ).get_slice(thread)
            row = cute.make_rmem_tensor(copy.partition_D(cute.make_identity_tensor((128, 64))).shape, cutlass.Float32)
            cute.copy(copy, copy.partition_S(tile), row)
            cute.arch.fence_view_async_tmem_load()
            full.release()
            for i in cutlass.range(64, unroll_full=True):
                mC[thread, 64 * n + i] = row[i]
        cute.arch.barrier(barrier_id=1, number_of_threads=128)
        if warp == 0:
            cute.arch.relinquish_tmem_alloc_permit()
            cute.arch.dealloc_tmem(columns, 128)


@cute.jit
def host(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    major = cute.nvgpu.OperandMajorMode.K
    mma = cute.make_tiled_mma(
        tcgen05.MmaF16BF16Op(
            cutlass.Float16,
            cutlass.Float32,
            (128, 64, 16),
            tcgen05.CtaGroup.ONE,
            tcgen05.OperandSource.SMEM,
            major,
            major,
        )
    )
    layout_a = sm100.make_smem_layout_a(mma, TILE, cutlass.Float16, 1)
    layout_b = sm100.make_smem_layout_b(mma, TILE, cutlass.Float16, TILES)
    op = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    load_a, mA = cute.nvgpu.make_tiled_tma_atom_A(op, a, cute.select(layout_a, mode=[0, 1, 2]), TILE, mma)
    load_b, mB = cute.nvgpu.make_tiled_tma_atom_B(op, b, cute.select(layout_b, mode=[0, 1, 2]), TILE, mma)
    kernel(mma, load_a, mA, load_b, mB, c, layout_a, layout_b).launch(grid=(1, 1, 1), block=(160, 1, 1))


def test_the_product_is_right():
    a, b = (torch.randint(-4, 5, (rows, 64)).half() for rows in (128, 64 * TILES))
    c = torch.zeros(128, 64 * TILES)
    host(*(from_dlpack(x, assumed_align=16) for x in (a, b, c)))
    assert torch.equal(c, a.float() @ b.float().T)
