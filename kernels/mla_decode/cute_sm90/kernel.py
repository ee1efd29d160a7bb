"""MLA decode for Hopper in CuTe DSL: device code of the kernel `cute_sm90`.

One CTA owns 64 query rows (heads of one request, query tokens packed behind each other) and walks over a range of
64-key pages. Three warpgroups:

    producer      one warp issues TMA loads of Q and of the pages
    consumer 0    O_L = out[:, :256];  scores and softmax of the even pages of the range
    consumer 1    O_R = out[:, 256:];  scores and softmax of the odd pages of the range

Why two consumers: a 64 x 512 fp32 output is half of an SM's registers, so only one output fits, and one warpgroup's
threads (255 registers at most) can hold only half of it. So each consumer needs the probabilities of both pages, its
own from registers, the other's through shared memory. While one consumer runs its softmax on the CUDA cores, the other
one's matrix products keep the tensor cores busy:

    consumer 0:  softmax(S0)   P0 V0_L ............... P1 V1_L   S0' = Q K0'^T   softmax(S0') ...
    consumer 1:  S1 = Q K1^T   P0 V0_R  softmax(S1) .. P1 V1_R   S1' = Q K1'^T   P0' V0'_R ...

Both halves of page 0 are read, and its stage is filled again, before page 1's: the next scores start early.
(FlashMLA's "seesaw" lets consumer 1 multiply its own page first; it was timed, too: docs/decisions/mla_cute_sm90.md.)

Key and value are one tensor (the value is the latent part of the key), so a page is loaded once, in nine 64 x 64 tiles
with an mbarrier each: a score product starts with the first tile that arrives.

Split KV across a cluster (`split_kv`): with few requests two CTAs take one half each of a request's keys. Each sends
the other, through distributed shared memory, the half of the output columns that the other stores. No partial results
in global memory and no second kernel.

In-kernel merge (`merge_in_kernel`): where a request is then in two splits, the warps that come first leave their
registers in global memory; the same warps of the other split add them to theirs and store. No second kernel either.

Consumers signal each other on mbarriers: compute-sanitizer's racecheck does not follow named barriers on which one
side only arrives.

Budget per CTA (Hopper: 232,448 bytes of shared memory, 65,536 registers):

    sQ            9 tiles of  8,192 bytes    73,728
    sKV       2 x 9 tiles of  8,192 bytes   147,456   P0 and P1 lie in the rope tile of their page: the value has no
                                                      rope, and that tile is dead once the page's scores are done
    statistics  8 x 64 fp32                   2,048
    mbarriers  32 x 8 bytes                     256
    registers 2 x 128 threads x 232 + 128 x 40 = 64,512 = 384 x 168, what the launch allots: of a consumer's 232,
              128 hold O, 32 S, 16 P

In this file: mbarriers, the launch, the kernel's setup, the producer, the consumers' main loop, the epilogue.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as sm90
from cutlass import Float32, Int32, Int64, Uint32, const_expr
from cutlass._mlir.dialects import nvvm
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cutlass_dsl import dsl_user_op, select_
from cutlass.utils import SmemAllocator

from kernels.mla_decode.cute_sm90 import layout
from kernels.mla_decode.cute_sm90.layout import (
    ALL_TILES,
    COLUMNS,
    HALF,
    LEFT_TILES,
    PAGE,
    RIGHT_TILES,
    ROPE_TILE,
    ROWS,
    STAGES,
    TILE,
    TILES,
    Bar,
    Warp,
)
from kernels.mla_decode.cute_sm90.planner import Planner
from kernels.mla_decode.cute_sm90.schedule import prices
from kernels.mla_decode.split_kv.combine import Combine


class Params(NamedTuple):
    """Arguments that host function and kernel share, in the order of the kernel's parameters."""

    mPageTable: cute.Tensor  # [batch, pages_per_request] int32
    mWork: cute.Tensor  # [work tiles, 8] int32: see schedule.py
    mWorkOffsets: cute.Tensor  # [workers + 1] int32
    mO: cute.Tensor  # [batch, rows, 512]
    mLSE: cute.Tensor  # [batch, rows] fp32, natural
    mOPartial: cute.Tensor  # [partials, rows, 512] fp32
    mLSEPartial: cute.Tensor  # [partials, rows] fp32, base 2
    scale_log2: Float32  # softmax scale times log2(e)
    heads: Int32
    hidden_tokens: Int32  # query tokens - 1 if they are causal among themselves, else 0
    row_warps: Int32  # of the combine kernel; 0 if it is not launched
    kv_policy: Int64  # L2 cache policy of page loads: layout.KEEP or EVICT_FIRST
    mMerges: cute.Tensor  # [merged requests, 4] int32: request, first partial, partials, 0
    mMergeCounters: cute.Tensor | None  # [merges, 16, 2] int32, 0; for the in-kernel merge
    mMergeState: cute.Tensor | None  # [merges, 16, 17, 32, 4] fp32; for the in-kernel merge


class Products(NamedTuple):
    """Tiled MMAs of one warpgroup, 64 rows each."""

    qk_first: cute.TiledMma  # S = Q K^T
    qk: cute.TiledMma  # S += Q K^T
    pv: cute.TiledMma  # O += P V, P in registers
    pv_peer: cute.TiledMma  # O += P V, P of the other consumer in shared memory


class SmemLayouts(NamedTuple):
    """Swizzled layouts of shared memory; V's is a transposed view of four of K's tiles."""

    q: cute.ComposedLayout  # (64, 64, 9)
    kv: cute.ComposedLayout  # (64, 64, 18), stage 0 then 1
    v: cute.ComposedLayout  # (256, 64): N, K of the product


class L2Hints(NamedTuple):
    """L2 hints; None where a build has no such hint."""

    mKV: cute.Tensor | None  # [pages, 64, 576], to prefetch from
    q_policy: Int64 | None  # L2 cache policy of Q's loads
    prefetches: Int32 | None  # other than 0: prefetch pages into L2


@dsl_user_op
def prefetch_l2(source, size, *, loc=None, ip=None):
    """Prefetch `size` bytes from pointer `source` into L2, by one thread."""
    nvvm.cp_async_bulk_prefetch(source.llvm_ptr, Int32(size).ir_value(loc=loc, ip=ip), loc=loc, ip=ip)


# -- mbarriers -------------------------------------------------------------------------------------------------------


class Mbarrier:
    """Mbarriers with one phase: the parity that this side waits for next."""

    def __init__(self, base: Any, first: int, count: int, arrivals: int, phase: Int32):
        self.base, self.first, self.count, self.arrivals, self.phase = base, first, count, arrivals, phase

    def __extract_mlir_values__(self) -> list[Any]:
        return [self.phase.ir_value()]

    def __new_from_mlir_values__(self, values: list[Any]) -> Self:
        return self.at(Int32(values[0]))

    def at(self, phase: Int32) -> Self:
        """Return these mbarriers with another phase."""
        other = copy.copy(self)
        other.phase = phase
        return other

    def next(self) -> Self:
        """Return these mbarriers one phase later."""
        return self.at(self.phase ^ 1)

    def pointer(self, number: int = 0) -> Any:
        return self.base + self.first + number

    @dsl_user_op
    def wait(self, number: int = 0, *, loc=None, ip=None) -> None:
        cute.arch.mbarrier_wait(self.pointer(number), self.phase, loc=loc, ip=ip)

    @dsl_user_op
    def arrive(self, number: int = 0, cta: Int32 | None = None, *, loc=None, ip=None) -> None:
        """Arrive here, or at the same mbarrier of another CTA of the cluster."""
        cute.arch.mbarrier_arrive(self.pointer(number), cta, loc=loc, ip=ip)

    @dsl_user_op
    def expect(self, size: int, number: Any = 0, *, loc=None, ip=None) -> None:
        """Arrive, and announce `size` bytes of asynchronous copies."""
        cute.arch.mbarrier_arrive_and_expect_tx(self.pointer(number), size, loc=loc, ip=ip)


class FullEmpty(NamedTuple):
    """Mbarriers of a buffer that TMA fills and consumers empty."""

    full: Mbarrier
    empty: Mbarrier


class Mbarriers:
    """All mbarriers of a CTA in their first phases."""

    def __init__(self, base: Any, multicast: int):
        def bars(first: int, count: int, arrivals: int, phase: int = 0) -> Mbarrier:
            return Mbarrier(base, first, count, arrivals, Int32(phase))

        # Producers wait for phase 1 of `empty` first, which passes: all buffers are empty.
        stages, warps = range(STAGES), layout.WARPGROUP_WARPS
        self.q = FullEmpty(bars(Bar.Q_FULL, 1, 1), bars(Bar.Q_EMPTY, 1, 2 * warps, phase=1))
        self.kv = [
            FullEmpty(
                full=bars(Bar.KV_FULL + TILES * stage, TILES, 1),
                empty=bars(Bar.KV_EMPTY + 2 * stage, 2, warps * multicast, phase=1),  # consumers of all CTAs that read
            )
            for stage in stages
        ]
        self.p_ready = [bars(Bar.P_READY + stage, 1, layout.WARPGROUP_THREADS) for stage in stages]
        self.sums_ready = bars(Bar.SUMS_READY, 1, layout.CONSUMER_THREADS)
        self.q_read = bars(Bar.Q_READ, 1, 2 * warps)
        self.received = [bars(Bar.RECEIVED + 2 * consumer, 2, 1) for consumer in (0, 1)]


def init_mbarriers(mbarriers: Mbarriers) -> None:
    """Initialize all mbarriers by one thread of a warp; the warp fences."""
    full, empty = zip(*mbarriers.kv, strict=True)
    rest = *mbarriers.p_ready, mbarriers.sums_ready, mbarriers.q_read, *mbarriers.received
    with cute.arch.elect_one():
        for bar in (*mbarriers.q, *full, *empty, *rest):
            for number in range(bar.count):
                cute.arch.mbarrier_init(bar.pointer(number), bar.arrivals)
    cute.arch.mbarrier_init_fence()


# -- host: tensor maps and launch ------------------------------------------------------------------------------------


class MlaDecodeSm90:
    """MLA decode: attention kernel, combine kernel and, if `planned`, the planner.

    In a cluster of 2 the CTAs work on neighbouring row blocks of one request, and each loads half of every page tile
    for both: half the traffic between L2 and the SMs. Or, with `split_kv`, on one row block and half of the keys each.
    With `single` CTAs are launched without the attribute of a cluster, and are spread over the GPU in another order.
    With `merge_in_kernel` no request is in more than two splits, and the attention kernel merges those. With `planned`
    a call with `plans` writes the tables that a call without reads; these may end in entries that ask for nothing.
    """

    def __init__(
        self,
        dtype: type[cutlass.Numeric],  # cutlass.BFloat16 or cutlass.Float16
        cluster: int = 1,
        split_kv: bool = False,
        single: bool = False,
        merge_in_kernel: bool = False,
        planned: bool = False,
    ):
        self.dtype = dtype
        self.cluster = cluster
        self.multicast = 1 if split_kv else cluster  # CTAs that share page loads
        self.split_kv = split_kv
        self.single = single
        self.merge_in_kernel = merge_in_kernel
        self.planned = planned
        self.has_q_policy = self.multicast > 1 or single
        self.planner = Planner(prices(split_kv), 2 if split_kv else 1, self.multicast) if planned else None

    @cute.jit
    def __call__(
        self,
        mQ: cute.Tensor,  # [batch, rows, 576]; rows = query tokens x heads
        mKV: cute.Tensor,  # [pages, 64, 576]
        mPageTable: cute.Tensor,  # from here to `row_warps`: see Params
        mO: cute.Tensor,
        mLSE: cute.Tensor,
        mWork: cute.Tensor,
        mWorkOffsets: cute.Tensor,
        mMerges: cute.Tensor,
        mOPartial: cute.Tensor,
        mLSEPartial: cute.Tensor,
        scale_log2: Float32,
        heads: Int32,
        hidden_tokens: Int32,
        row_warps: Int32,
        kv_policy: Int64,
        q_policy: Int64,  # see L2Hints, as `prefetches`
        prefetches: Int32,
        mMergeCounters: cute.Tensor | None,
        mMergeState: cute.Tensor | None,
        mLengths: cute.Tensor | None,  # [batch] int32; this and the next two if `planned`
        lanes: Int32 | None,  # row blocks over row blocks of a worker
        plans: Int32 | None,  # other than 0: write the tables for mLengths; 0: compute
        stream: cuda.CUstream,
    ):
        params = Params(
            *(mPageTable, mWork, mWorkOffsets, mO, mLSE, mOPartial, mLSEPartial),
            *(scale_log2, heads, hidden_tokens, row_warps, kv_policy, mMerges, mMergeCounters, mMergeState),
        )
        hints = L2Hints(
            mKV if const_expr(self.multicast > 1) else None,
            q_policy if const_expr(self.has_q_policy) else None,
            prefetches if const_expr(self.multicast > 1) else None,
        )
        if const_expr(self.planned):
            if plans == 0:  # first: the first kernel of a build counts as its main one
                self.attend(mQ, mKV, params, hints, stream)
            else:
                self.planner(mLengths, mWork, mWorkOffsets, mMerges, lanes, stream)
        else:
            self.attend(mQ, mKV, params, hints, stream)

    @cute.jit
    def attend(self, mQ: cute.Tensor, mKV: cute.Tensor, params: Params, hints: L2Hints, stream: cuda.CUstream):
        atom_k = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, self.dtype)
        atom_mn = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.MN_SW128, self.dtype)
        layouts = SmemLayouts(
            q=cute.tile_to_shape(atom_k, (ROWS, TILE, TILES), order=(0, 1, 2)),
            kv=cute.tile_to_shape(atom_k, (PAGE, TILE, STAGES * TILES), order=(0, 1, 2)),
            v=cute.tile_to_shape(atom_mn, (HALF, PAGE), order=(1, 0)),
        )
        box = cute.slice_(layouts.kv, (None, None, 0))

        q_rows = cute.make_tensor(mQ.iterator, cute.select(mQ.layout, mode=[1, 2, 0]))
        load = cpasync.CopyBulkTensorTileG2SOp()
        load_kv = load if const_expr(self.multicast == 1) else cpasync.CopyBulkTensorTileG2SMulticastOp()
        tma_q, mQ_tma = cpasync.make_tiled_tma_atom(load, q_rows, box, (ROWS, TILE))
        tma_kv, mKV_tma = cpasync.make_tiled_tma_atom(
            load_kv, self.bounded_rows(mKV), box, (PAGE, TILE), num_multicast=self.multicast
        )

        @cute.struct
        class SharedStorage:
            sQ: cute.struct.Align[cute.struct.MemRange[self.dtype, TILES * layout.TILE_ELEMENTS], 1024]
            sKV: cute.struct.Align[cute.struct.MemRange[self.dtype, STAGES * layout.PAGE_ELEMENTS], 1024]
            sMax: cute.struct.MemRange[Float32, 2 * ROWS]
            sScale0: cute.struct.MemRange[Float32, ROWS]
            sScale1: cute.struct.MemRange[Float32, ROWS]
            sSum: cute.struct.MemRange[Float32, 4 * ROWS]
            mbarriers: cute.struct.MemRange[Int64, Bar.COUNT]

        self.storage = SharedStorage
        self.split_kernel(tma_q, mQ_tma, tma_kv, mKV_tma, params, self.products(), layouts, hints).launch(
            grid=[self.cluster * (params.mWorkOffsets.shape[0] - 1), 1, 1],
            block=[layout.THREADS, 1, 1],
            cluster=None if self.single else [self.cluster, 1, 1],
            stream=stream,
            min_blocks_per_mp=1,
            use_pdl=True,
        )
        Combine(self.dtype, self.planned)(
            *(params.mMerges, params.mOPartial, params.mLSEPartial, params.mO, params.mLSE, params.row_warps, stream)
        )

    def bounded_rows(self, mKV: cute.Tensor) -> cute.Tensor:
        """View the cache so that TMA finds rows past a request's end out of bounds.

        Values past a request's end may be NaN: TMA fills rows out of bounds with zeros instead.

        Coordinates (row, column, last): the 64 rows of the cache up to row `last`, all pages counted as one. Those are
        the bounds; a box begins at row `missing` of them, so that its last `missing` rows are out of bounds. Rows of
        two places overlap in memory: `row` and `last` have the same stride. The tensor begins 63 rows before the cache,
        where no page's box reaches. A number that is no page's is out of bounds.

        But a multicast load touches where its tensor begins, whatever box it loads (seen on an H200: an illegal access
        where nothing was mapped there). So that of CTAs which share loads begins with the cache, and has LAST_ROW + 1
        rows up to `last`; a fourth coordinate, always WRAP, takes LAST_ROW rows back, addresses being counted modulo
        2^64.
        """
        width, places = layout.WIDTH, PAGE * mKV.shape[0]
        if const_expr(self.multicast == 1):
            rows = cute.make_layout((PAGE, width, places), stride=(width, 1, width))
            return cute.make_tensor(mKV.iterator - (PAGE - 1) * width, rows)
        round_once = Int64((1 << 64) // (layout.WRAP * self.dtype.width // 8))  # in elements, WRAP times
        sizes = layout.LAST_ROW + 1, width, places, layout.WRAP + 1
        return cute.make_tensor(mKV.iterator, cute.make_layout(sizes, stride=(width, 1, width, round_once - width)))

    def products(self) -> Products:
        k_major, mn_major = warpgroup.OperandMajorMode.K, warpgroup.OperandMajorMode.MN
        shared, registers = warpgroup.OperandSource.SMEM, warpgroup.OperandSource.RMEM

        def tiled_mma(b_major, n, a_source):
            return sm90.make_trivial_tiled_mma(
                self.dtype, self.dtype, k_major, b_major, Float32, (1, 1, 1), (ROWS, n), a_source
            )

        return Products(
            qk_first=tiled_mma(k_major, PAGE, shared),
            qk=tiled_mma(k_major, PAGE, shared),
            pv=tiled_mma(mn_major, HALF, registers),
            pv_peer=tiled_mma(mn_major, HALF, shared),
        )

    # -- device: setup and roles -------------------------------------------------------------------------------------

    @cute.kernel
    def split_kernel(
        self,
        tma_q: cute.CopyAtom,
        mQ_tma: cute.Tensor,  # (rows, 576, batch)
        tma_kv: cute.CopyAtom,
        mKV_tma: cute.Tensor,  # see `bounded_rows`
        params: Params,
        products: Products,
        layouts: SmemLayouts,
        hints: L2Hints,
    ):
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cluster_rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        rank = cluster_rank if const_expr(self.multicast > 1) else 0
        half = cluster_rank if const_expr(self.split_kv) else 0
        worker = cute.arch.block_idx()[0] // self.cluster
        # Prefetched before anything else. Most often every worker has one work tile, the one of its own number: it is
        # loaded before it is known to be the first, since in a cold call each of these loads comes from DRAM. Each lane
        # loads one word: ptxas waits at once for what a whole warp loads, for the sake of uniform registers.
        lane = cute.arch.lane_idx()
        offsets = params.mWorkOffsets[worker + lane % 2]
        prefetched = params.mWork[worker, lane % layout.WORK_COLUMNS]

        storage = SmemAllocator().allocate(self.storage)
        mbarriers = Mbarriers(storage.mbarriers.data_ptr(), self.multicast)
        sQ = storage.sQ.get_tensor(layouts.q.outer, swizzle=layouts.q.inner)
        sKV = storage.sKV.get_tensor(layouts.kv.outer, swizzle=layouts.kv.inner)

        if warp == Warp.LOAD:  # else their first use waits for them
            cpasync.prefetch_descriptor(tma_q)
            cpasync.prefetch_descriptor(tma_kv)
        if warp == Warp.INIT:
            init_mbarriers(mbarriers)
        if const_expr(self.cluster > 1):
            # Relaxed: mbarriers are all that it orders, and those are fenced. Else each thread waits for a fence of the
            # whole device, with the loads above behind it.
            cute.arch.cluster_arrive_relaxed()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()
        first_tile, end_tile = (cute.arch.shuffle_sync(offsets, offset=n) for n in (0, 1))
        # Set once, outside every branch and loop: the field is rebound in the place where it is set.
        products.qk_first.set(warpgroup.Field.ACCUMULATE, False)
        for mma in (products.qk, products.pv, products.pv_peer):
            mma.set(warpgroup.Field.ACCUMULATE, True)

        if params.row_warps == 0:
            # No combine kernel follows: the next kernel's CTAs may come as soon as this grid's go, and wait for the
            # last of them in griddepcontrol_wait. (Combine's would crowd the few idle SMs: they start at the end.)
            cute.arch.griddepcontrol_launch_dependents()
        if const_expr(self.planned):
            self.launch_dependents_early(warp, params.mMerges)
        if warp >= Warp.LOAD:
            cute.arch.setmaxregister_decrease(layout.PRODUCER_REGISTERS)
            if warp == Warp.LOAD:
                producer = Producer(
                    *(tma_q, mQ_tma, tma_kv, mKV_tma, sQ, sKV, mbarriers, params, hints, rank, half),
                    multicast=self.multicast,
                    split_kv=self.split_kv,
                )
                producer.produce(worker, prefetched, first_tile, end_tile)
        else:
            cute.arch.setmaxregister_increase(layout.CONSUMER_REGISTERS)
            views = storage, mbarriers, sQ, sKV, layouts.v, products, params, rank, half
            if warp < Warp.CONSUMER1:
                self.make_consumer(0, *views).consume(first_tile, end_tile)
            else:
                self.make_consumer(1, *views).consume(first_tile, end_tile)

    @cute.jit
    def launch_dependents_early(self, warp: Int32, mMerges: cute.Tensor) -> None:
        """Let the next kernel start if the table on the GPU has nothing to combine."""
        if warp == Warp.LAUNCH:
            nothing = mMerges[0, 2] < 0
            if nothing:
                cute.arch.griddepcontrol_launch_dependents()

    def make_consumer(self, index, storage, mbarriers, sQ, sKV, layout_v, products, params, rank, half) -> Consumer:
        """Partition shared memory for consumer `index`."""
        thread = cute.arch.thread_idx()[0] % layout.WARPGROUP_THREADS
        qk, pv = products.qk.get_slice(thread), products.pv.get_slice(thread)
        first = storage.sKV.data_ptr() + index * (HALF // TILE) * layout.TILE_ELEMENTS
        sV = tuple(
            cute.make_tensor(
                cute.recast_ptr(first + stage * layout.PAGE_ELEMENTS, layout_v.inner, self.dtype), layout_v.outer
            )
            for stage in range(STAGES)
        )
        sP = tuple(sKV[None, None, TILES * stage + ROPE_TILE] for stage in range(STAGES))
        store = cute.make_copy_atom(cute.nvgpu.warp.StMatrix8x8x16bOp(False, 4), self.dtype)
        pv_peer = products.pv_peer.get_slice(thread)
        rows = Rows(index, thread, qk, pv)
        epilogue = Epilogue(
            rows=rows,
            params=params,
            split_kv=self.split_kv,
            merge_in_kernel=self.merge_in_kernel,
            half=half,
            sSum=storage.sSum.get_tensor(cute.make_layout((2, 2, ROWS), stride=(2 * ROWS, ROWS, 1))),
            sExchange=cute.make_tensor(
                cute.recast_ptr(storage.sQ.data_ptr(), dtype=Float32) + index * (layout.EXCHANGE_PART_BYTES // 2),
                cute.make_layout((4, layout.WARPGROUP_THREADS, layout.EXCHANGE_CHUNKS)),
            ),
            mbarriers=mbarriers,
        )
        return Consumer(
            rows=rows,
            epilogue=epilogue,
            params=params,
            products=products,
            dtype=self.dtype,
            multicast=self.multicast,
            rank=rank,
            tSrQ=qk.make_fragment_A(qk.partition_A(sQ)),
            tSrK=qk.make_fragment_B(qk.partition_B(sKV)),
            tOrV=tuple(pv.make_fragment_B(pv.partition_B(half)) for half in sV),
            tOrP_peer=pv_peer.make_fragment_A(pv_peer.partition_A(sP[1 - index])),
            tiled_copy_p=cute.make_tiled_copy_C(store, products.qk),
            sP=sP[index],
            sMax=storage.sMax.get_tensor(cute.make_layout((2, ROWS), stride=(ROWS, 1))),
            sScale=(
                storage.sScale0.get_tensor(cute.make_layout(ROWS)),
                storage.sScale1.get_tensor(cute.make_layout(ROWS)),
            ),
            mbarriers=mbarriers,
        )


def gmem_tile(tile: int, half: Int32, split_kv: bool) -> Any:
    """Return the global tile of place `tile`: with split KV, stored columns come first.

    Scores are sums over all tiles, in any order that Q and the pages share.
    """
    return tile if not split_kv or tile == ROPE_TILE else tile ^ (2 * half)


def half_of_keys(half: Int32, begin: Int32, end: Int32, length: Int32) -> tuple[Int32, Int32, Int32]:
    """Return pages [begin, end) of one half of a work tile, and the visible length.

    The second half of a single page is that page with all keys hidden: every CTA has something to do and to exchange.
    """
    middle = begin + (end - begin + 1) // 2
    second = half == 1
    empty = second & (middle == end)
    return (
        Int32(select_(second, cutlass.min(middle, end - 1), begin)),
        Int32(select_(second, end, middle)),
        Int32(select_(empty, Int32(0), length)),
    )


# -- producer: one warp that loads -----------------------------------------------------------------------------------


@dataclass
class Producer:
    """Loads of a CTA's work tiles, each as soon as its stage is empty."""

    tma_q: cute.CopyAtom
    mQ: cute.Tensor  # TMA coordinates (rows, 576, batch)
    tma_kv: cute.CopyAtom
    mKV: cute.Tensor  # TMA coordinates: see `MlaDecodeSm90.bounded_rows`
    sQ: cute.Tensor  # (64, 64, 9)
    sKV: cute.Tensor  # (64, 64, 18), stage 0 then 1
    mbarriers: Mbarriers
    params: Params
    hints: L2Hints
    rank: Int32  # of the CTA among those that share page loads
    half: Int32  # of the keys, with split KV
    multicast: int  # CTAs that share page loads
    split_kv: bool

    @cute.jit
    def produce(
        self,
        worker: Int32,
        prefetched: Int32,  # work tile number `worker`, a column in each lane
        first_tile: Int32,
        end_tile: Int32,
    ) -> None:
        mWork, mPageTable = self.params.mWork, self.params.mPageTable
        gQ = cute.local_tile(self.mQ, (ROWS, TILE), (None, None, None))  # (64, 64, row blocks, 9, batch)
        tQsQ, tQgQ = cpasync.tma_partition(
            self.tma_q, 0, cute.make_layout(1), cute.group_modes(self.sQ, 0, 2), cute.group_modes(gQ, 0, 2)
        )
        lane = cute.arch.lane_idx()
        q_full, q_empty = self.mbarriers.q
        empty0, empty1 = (stage.empty for stage in self.mbarriers.kv)
        next_request, next_block, next_begin, next_end, next_length = (
            cute.arch.shuffle_sync(prefetched, offset=column) for column in layout.LOAD_COLUMNS
        )
        if first_tile != worker:
            next_request, next_block = mWork[first_tile, layout.REQUEST], mWork[first_tile, layout.ROW_BLOCK]
            next_begin, next_end = mWork[first_tile, layout.BEGIN], mWork[first_tile, layout.END]
            next_length = mWork[first_tile, layout.LENGTH]
        # All above overlaps the end of the kernel before this one in the stream. What that may have written is read
        # from here on, and the consumers write nothing before they have got something that was loaded here.
        cute.arch.griddepcontrol_wait()
        for number in cutlass.range(first_tile, end_tile, unroll=1):
            request, row_block, begin, end = next_request, next_block + self.rank, next_begin, next_end
            length = next_length
            if const_expr(self.split_kv):
                begin, end, _ = half_of_keys(self.half, begin, end, Int32(0))
            page0 = mPageTable[request, begin]
            page1 = mPageTable[request, cutlass.min(begin + 1, end - 1)]
            q_empty.wait()
            q_empty = q_empty.next()
            for tile in cutlass.range_constexpr(TILES):
                cute.copy(
                    self.tma_q,
                    tQgQ[None, row_block, gmem_tile(tile, self.half, self.split_kv), request],
                    tQsQ[None, tile],
                    tma_bar_ptr=q_full.pointer(),
                    **({"cache_policy": self.hints.q_policy} if const_expr(self.hints.q_policy is not None) else {}),
                )
            if lane == 0:
                q_full.expect(TILES * layout.TILE_BYTES)
            following = cutlass.min(number + 1, end_tile - 1)
            next_request, next_block = mWork[following, layout.REQUEST], mWork[following, layout.ROW_BLOCK]
            next_begin, next_end = mWork[following, layout.BEGIN], mWork[following, layout.END]
            next_length = mWork[following, layout.LENGTH]
            if const_expr(self.multicast > 1):
                empty0, empty1 = self.load_and_prefetch(request, row_block, begin, end, length, empty0, empty1, lane)
            else:
                for index in cutlass.range(begin, end, 2, unroll=1):
                    empty0 = self.load_page(0, page0, PAGE * (index + 1) - length, empty0, lane)
                    page0 = mPageTable[request, cutlass.min(index + 2, end - 1)]
                    if index + 1 < end:
                        empty1 = self.load_page(1, page1, PAGE * (index + 2) - length, empty1, lane)
                        page1 = mPageTable[request, cutlass.min(index + 3, end - 1)]
        if const_expr(self.multicast > 1):
            # The peer's consumers arrive here for every page, the last one too. This warp waits for that, and keeps the
            # CTA's memory until then; so the others need not meet the peer's behind a fence of what they have stored.
            # (What the peer has sent is here: this CTA's consumers wait for it.)
            for empty in (empty0, empty1):
                for consumer in (0, 1):
                    empty.wait(consumer)

    @cute.jit
    def load_and_prefetch(
        self, request, row_block, begin, end, length, empty0, empty1, lane
    ) -> tuple[Mbarrier, Mbarrier]:
        """Load pages [begin, end); prefetch each into L2 while its stage holds the page before.

        A stage that has been read is then filled from L2, and not from DRAM. Not so the first pages: they would come
        between others that are waited for. Each lane holds a page's number. Either CTA of a cluster prefetches half of
        a page; of several clusters that read it, the first does.
        """
        mPageTable = self.params.mPageTable
        prefetching, first_key = (self.hints.prefetches != 0) & (row_block < 2), PAGE // 2 * row_block
        window = begin
        numbers = mPageTable[request, cutlass.min(window + lane, end - 1)]  # mutant: page numbers
        following = mPageTable[request, cutlass.min(window + layout.PAGE_WINDOW + lane, end - 1)]
        for index in cutlass.range(begin, end, 2, unroll=1):
            if index - window >= layout.PAGE_WINDOW:
                window += layout.PAGE_WINDOW
                numbers = following
                following = mPageTable[request, cutlass.min(window + layout.PAGE_WINDOW + lane, end - 1)]
            page0, page1, next0, next1 = (cute.arch.shuffle_sync(numbers, index - window + n) for n in range(4))
            early = prefetching & (index - begin >= layout.PREFETCH_FROM)
            empty0 = self.load_page(0, page0, PAGE * (index + 1) - length, empty0, lane)
            self.prefetch(next0, first_key, early & (index + 2 < end), lane)
            if index + 1 < end:
                empty1 = self.load_page(1, page1, PAGE * (index + 2) - length, empty1, lane)
                self.prefetch(next1, first_key, early & (index + 3 < end), lane)
        return empty0, empty1

    @cute.jit
    def prefetch(self, page, first_key, wanted, lane) -> None:
        if wanted & (lane == 0):
            rows = self.hints.mKV[Int64(page), first_key, None]  # caches have more than 2^31 elements
            prefetch_l2(rows.iterator, TILES * layout.TILE_BYTES // 2)

    def load_page(self, stage, page, missing, empty, lane) -> Mbarrier:
        """Load a page without its last `missing` keys; return `empty` a phase later."""
        missing = cutlass.max(missing, 0)  # mutant: missing keys
        last_row = PAGE * page + (PAGE - 1) - missing
        for consumer in (stage, 1 - stage):
            self.load_half(stage, consumer, last_row, missing, empty, lane)
        return empty.next()

    @cute.jit
    def load_half(self, stage, consumer, last_row, missing, empty, lane) -> None:
        """Load the tiles that `consumer` reads last, once the consumers of all CTAs released them."""
        empty.wait(consumer)
        full = self.mbarriers.kv[stage].full
        tiles = layout.STAGE_HALVES[stage][consumer]
        mKV = self.mKV
        if const_expr(self.multicast > 1):
            mKV = cute.domain_offset((layout.LAST_ROW - (PAGE - 1), 0, 0), mKV[None, None, None, layout.WRAP])
        mKV = cute.domain_offset((missing, 0, 0), mKV)
        gKV = cute.local_tile(mKV, (PAGE, TILE), (None, None, None))  # (64, 64, 1, 9, last rows)
        tKsK, tKgK = cpasync.tma_partition(
            self.tma_kv,
            self.rank,
            cute.make_layout(self.multicast),
            cute.group_modes(self.sKV, 0, 2),
            cute.group_modes(gKV, 0, 2),
        )
        multicast = {"mcast_mask": cutlass.Int16((1 << self.multicast) - 1)} if const_expr(self.multicast > 1) else {}
        for tile in tiles:
            source = tKgK[None, 0, gmem_tile(tile, self.half, self.split_kv), last_row]
            target, policy = tKsK[None, TILES * stage + tile], self.params.kv_policy
            cute.copy(self.tma_kv, source, target, tma_bar_ptr=full.pointer(tile), cache_policy=policy, **multicast)
        # After the copies are issued: an mbarrier may count bytes before it knows how many to expect.
        own = tiles[0] + lane
        if const_expr(tiles == (*LEFT_TILES, ROPE_TILE)):
            own = lane if lane < len(LEFT_TILES) else Int32(ROPE_TILE)
        if lane < len(tiles):
            full.expect(layout.TILE_BYTES, own)


# -- consumers: two warpgroups that multiply -------------------------------------------------------------------------


class Rows:
    """Registers of a consumer's thread for its two rows: accumulators and softmax statistics.

    Element i of an accumulator belongs to row r = (i // 2) % 2 of the two, and to column 8 * (i // 4) + 2 * (lane % 4)
    + i % 2: the wgmma accumulator layout of the PTX ISA.
    """

    def __init__(self, index: int, thread: Int32, qk: Any, pv: Any):
        self.index = index  # of the consumer. 0: even pages and O_L; 1: odd pages and O_R
        self.thread = thread  # in the warpgroup
        self.tSrS = cute.make_rmem_tensor(qk.partition_shape_C((ROWS, PAGE)), Float32)
        self.tOrO = cute.make_rmem_tensor(pv.partition_shape_C((ROWS, HALF)), Float32)
        self.row_max = cute.make_rmem_tensor((2,), Float32)  # running maximum of the scaled scores, base 2
        self.page_max = cute.make_rmem_tensor((2,), Float32)
        self.scale_own = cute.make_rmem_tensor((2,), Float32)  # factor that this consumer's page puts on O
        self.scale_peer = cute.make_rmem_tensor((2,), Float32)  # the other consumer's page
        self.row_sum = cute.make_rmem_tensor((2,), Float32)  # this lane's share of the sum of P over own pages
        self.key_limit = cute.make_rmem_tensor((2,), Int32)  # keys from here on are hidden from the row
        self.lane = thread % layout.WARP_THREADS
        self.row0 = (thread // layout.WARP_THREADS) * 16 + self.lane // 4

    def row(self, r: int) -> Int32:
        """Return the row of the CTA tile."""
        return self.row0 + 8 * r


@dataclass
class Consumer:
    """One consumer warpgroup: scores, softmax and O of its work tiles."""

    rows: Rows
    epilogue: Epilogue
    params: Params
    products: Products
    dtype: type[cutlass.Numeric]
    multicast: int  # CTAs that share page loads, one per row block
    rank: Int32  # of the CTA among those
    tSrQ: cute.Tensor  # descriptors (MMA, 1, 4, 9)
    tSrK: cute.Tensor  # descriptors (MMA, 1, 4, 18), stage 0 then 1
    tOrV: tuple[cute.Tensor, ...]  # [stage] descriptors (MMA, 1, 4) of this consumer's value columns
    tOrP_peer: cute.Tensor  # descriptors (MMA, 1, 4): the other consumer's P
    tiled_copy_p: cute.TiledCopy
    sP: cute.Tensor  # (64, 64): this consumer's P
    sMax: cute.Tensor  # [2, 64]: running maximum, as either consumer left it
    sScale: tuple[cute.Tensor, cute.Tensor]  # [stage] [64]: factor that the stage's page puts on O
    mbarriers: Mbarriers

    def __post_init__(self) -> None:
        # Accumulator and A operand order a row's columns equally: P needs no shuffle, only a view with K split in four.
        self.tSrP = cute.make_rmem_tensor(self.rows.tSrS.layout, self.dtype)
        self.tOrP = cute.make_tensor(self.tSrP.iterator, cute.make_layout(((2, 2, 2), 1, 4), stride=((1, 2, 4), 0, 8)))
        self.index, self.lane, self.row = self.rows.index, self.rows.lane, self.rows.row

    # Matrix products: asynchronous, each ends in a commit.

    def multiply_qk(self, tiles: tuple[int, ...], full: Mbarrier, first: bool = True) -> None:
        """Issue S = Q K^T of this consumer's page, tile by tile as TMA delivers."""
        tSrS = self.rows.tSrS
        for number, tile in enumerate(tiles):
            full.wait(tile)
            warpgroup.fence()
            for k in range(cute.size(self.tSrQ, mode=[2])):
                mma = self.products.qk_first if first and number == 0 and k == 0 else self.products.qk
                tSrK = self.tSrK[None, None, k, TILES * self.index + tile]
                cute.gemm(mma, tSrS, self.tSrQ[None, None, k, tile], tSrK, tSrS)
        warpgroup.commit_group()

    def multiply_pv(self, stage: int) -> None:
        """Issue O += P V over this consumer's columns of either stage's page."""
        tOrO, own = self.rows.tOrO, stage == self.index
        mma, tOrP = (self.products.pv, self.tOrP) if own else (self.products.pv_peer, self.tOrP_peer)
        warpgroup.fence()
        for k in range(cute.size(tOrP, mode=[2])):
            cute.gemm(mma, tOrO, tOrP[None, None, k], self.tOrV[stage][None, None, k], tOrO)
        warpgroup.commit_group()

    # Softmax.

    @cute.jit
    def mask_and_reduce(self, first_key: Int32, unmasked_keys: Int32) -> None:
        """Mask keys that a row must not see, and reduce to page_max."""
        tSrS = self.rows.tSrS  # a local name: what a dynamic branch writes must not hang on `self`
        if first_key + PAGE > unmasked_keys:
            column = first_key + 2 * (self.lane % 4)
            for i in cutlass.range_constexpr(cute.size(tSrS)):
                if column + (8 * (i // 4) + i % 2) >= self.rows.key_limit[(i // 2) % 2]:
                    tSrS[i] = -Float32.inf
        self.reduce_max()

    def reduce_max(self) -> None:
        tSrS = self.rows.tSrS
        for r in range(2):
            chains = [tSrS[2 * r], tSrS[2 * r + 1], tSrS[2 * r + 4], tSrS[2 * r + 5]]
            for i in range(8 + 2 * r, cute.size(tSrS), 8):  # four chains: one would wait for 16 latencies
                chains = [cute.arch.fmax(top, tSrS[i + n]) for top, n in zip(chains, (0, 1, 4, 5), strict=True)]
            top = cute.arch.fmax(cute.arch.fmax(chains[0], chains[1]), cute.arch.fmax(chains[2], chains[3]))
            for offset in (1, 2):  # the four lanes of a quad share a row
                top = cute.arch.fmax(top, cute.arch.shuffle_sync_bfly(top, offset=offset))
            self.rows.page_max[r] = top * self.params.scale_log2

    @cute.jit
    def raise_max(self) -> None:
        """Merge page_max into row_max; publish it and the factor on earlier sums.

        A maximum that grows by no more than RESCALE_SLACK is left as it is: P then reaches 2^8 at most, which bf16 and
        fp16 hold with the same relative precision, and the factor is 1, so that O need not be multiplied.
        """
        rows = self.rows
        for r in cutlass.range_constexpr(2):
            higher = rows.page_max[r] > rows.row_max[r] + layout.RESCALE_SLACK
            new = Float32(select_(higher, rows.page_max[r], rows.row_max[r]))
            rows.scale_own[r] = cute.math.exp2(rows.row_max[r] - new, fastmath=True)
            rows.row_max[r] = new
            rows.row_sum[r] = rows.row_sum[r] * rows.scale_own[r]
        sMax, sScale = self.sMax, self.sScale[self.index]
        if self.lane % 4 == 0:
            for r in cutlass.range_constexpr(2):
                sScale[self.row(r)] = rows.scale_own[r]
                sMax[self.index, self.row(r)] = rows.row_max[r]

    def exponentiate(self) -> None:
        """Compute P = 2^(S - row_max) in registers and sP; add to row_sum."""
        rows, tSrS = self.rows, self.rows.tSrS
        sums = [Float32(0.0)] * 4  # two chains for each row
        for i in range(cute.size(tSrS)):
            tSrS[i] = cute.math.exp2(tSrS[i] * self.params.scale_log2 - rows.row_max[(i // 2) % 2], fastmath=True)
            sums[i % 4] = sums[i % 4] + tSrS[i]
        for r in range(2):
            rows.row_sum[r] = rows.row_sum[r] + (sums[2 * r] + sums[2 * r + 1])
        self.tSrP.store(tSrS.load().to(self.dtype))
        copy_p = self.tiled_copy_p.get_slice(rows.thread)
        cute.copy(self.tiled_copy_p, copy_p.retile(self.tSrP), copy_p.partition_D(self.sP))

    def publish_p(self) -> None:
        """Publish sP to the other consumer. The fence is slow: issue a product first."""
        cute.arch.fence_proxy("async.shared", space="cta")
        self.mbarriers.p_ready[self.index].arrive()

    def follow_max(self, stage: int) -> None:
        """Take over the maximum and the factor of the other consumer's page."""
        rows = self.rows
        for r in range(2):
            rows.row_max[r] = self.sMax[stage, self.row(r)]
            rows.scale_peer[r] = self.sScale[stage][self.row(r)]
            rows.row_sum[r] = rows.row_sum[r] * rows.scale_peer[r]

    @cute.jit
    def rescale(self, scale: cute.Tensor, in_flight: bool) -> None:
        """Multiply O by `scale` if any row of the warp needs it."""
        tOrO = self.rows.tOrO
        if cute.arch.vote_any_sync(cutlass.Boolean((scale[0] != 1.0) | (scale[1] != 1.0))):
            if const_expr(in_flight):
                warpgroup.wait_group(0)
            for i in cutlass.range_constexpr(cute.size(tOrO)):
                tOrO[i] = tOrO[i] * scale[(i // 2) % 2]

    @cute.jit
    def release(self, stage: int) -> None:
        """Release this consumer's half of the stage, to the producers of all sharing CTAs."""
        if self.lane < self.multicast:
            cta = self.lane if const_expr(self.multicast > 1) else None
            self.mbarriers.kv[stage].empty.arrive(self.index, cta)  # mutant: stage release

    # Work tiles.

    @cute.jit
    def consume(self, first_tile: Int32, end_tile: Int32) -> None:
        """Compute and store the work tiles of this CTA, as one of its two consumers."""
        params, mWork = self.params, self.params.mWork
        q, kv = self.mbarriers.q.full, self.mbarriers.kv[self.index].full
        p = self.mbarriers.p_ready[1 - self.index]  # the other consumer's P
        for number in cutlass.range(first_tile, end_tile, unroll=1):
            request, partial = mWork[number, layout.REQUEST], mWork[number, layout.PARTIAL]
            begin, end, length = mWork[number, layout.BEGIN], mWork[number, layout.END], mWork[number, layout.LENGTH]
            visible = length
            if const_expr(self.epilogue.split_kv):
                begin, end, visible = half_of_keys(self.epilogue.half, begin, end, length)
            first_row = (mWork[number, layout.ROW_BLOCK] + self.rank) * ROWS
            self.start(visible, first_row)
            q.wait()
            if const_expr(self.index == 0):
                kv, p = self.run_even(begin, end, visible - params.hidden_tokens, kv, p)
            else:
                kv, p = self.run_odd(begin, end, visible - params.hidden_tokens, kv, p)
            self.epilogue.finish(q.phase, request, first_row, partial, number + 1 == end_tile)
            q = q.next()
        # The combine kernel may take this SM. Not earlier: it would crowd the few idle SMs, and wait there.
        cute.arch.griddepcontrol_launch_dependents()

    def start(self, visible: Int32, first_row: Int32) -> None:
        rows, params = self.rows, self.params
        rows.tOrO.fill(0.0)
        rows.tSrS.fill(0.0)  # else the compiler keeps the last tile's: a product that overwrites it counts as a reader
        for r in range(2):
            rows.row_max[r] = Float32(layout.INITIAL_MAX)
            rows.row_sum[r] = Float32(0.0)
            token = (first_row + self.row(r)) // params.heads
            rows.key_limit[r] = visible - cutlass.max(params.hidden_tokens - token, 0)

    @cute.jit
    def run_even(self, begin: Int32, end: Int32, unmasked: Int32, kv: Mbarrier, p: Mbarrier):
        """Run consumer 0 over pages [begin, end); return `kv` and `p` in their next phases."""
        pairs = (end - begin + 1) // 2
        self.multiply_qk(ALL_TILES, kv)
        warpgroup.wait_group(0)
        kv = kv.next()
        for pair in cutlass.range(pairs - 1, unroll=1):
            self.even_page((begin + 2 * pair) * PAGE, unmasked)
            self.take_page(1, p)
            self.multiply_qk(LEFT_TILES, kv)
            warpgroup.wait_group(1)  # P1 V1_L is done, the scores go on: the tensor cores always have work queued
            self.release(1)
            self.multiply_qk((*RIGHT_TILES, ROPE_TILE), kv, first=False)
            warpgroup.wait_group(0)
            kv = kv.next()
            p = p.next()
        self.epilogue.leave_q()
        self.even_page((begin + 2 * (pairs - 1)) * PAGE, unmasked)
        if (end - begin) % 2 == 0:
            self.take_page(1, p)
            p = p.next()
            warpgroup.wait_group(0)
            self.release(1)
        return kv, p

    def even_page(self, first_key: Int32, unmasked: Int32) -> None:
        """Run softmax and P0 V0_L of an even page, under consumer 1's Q K1^T."""
        self.mask_and_reduce(first_key, unmasked)
        self.raise_max()
        self.exponentiate()
        self.rescale(self.rows.scale_own, in_flight=False)
        self.multiply_pv(0)
        self.publish_p()
        warpgroup.wait_group(0)
        self.release(0)

    def take_page(self, stage: int, p: Mbarrier) -> None:
        """Issue P V of the other consumer's page once its P is there."""
        p.wait()
        self.follow_max(stage)
        self.rescale(self.rows.scale_peer, in_flight=False)
        self.multiply_pv(stage)

    @cute.jit
    def run_odd(self, begin: Int32, end: Int32, unmasked: Int32, kv: Mbarrier, p: Mbarrier):
        """Run consumer 1 over pages [begin, end); return `kv` and `p` in their next phases."""
        pages = end - begin
        full_pairs = pages // 2
        order = (*RIGHT_TILES, *LEFT_TILES, ROPE_TILE)  # as loaded: consumer 1 itself frees the right half first
        if full_pairs > 0:
            self.multiply_qk(order, kv)
            warpgroup.wait_group(0)
            kv = kv.next()
            for pair in cutlass.range(full_pairs - 1, unroll=1):
                self.odd_page((begin + 2 * pair + 1) * PAGE, unmasked, p)
                self.multiply_qk(order, kv)
                warpgroup.wait_group(0)
                kv = kv.next()
                p = p.next()
            self.odd_page((begin + 2 * full_pairs - 1) * PAGE, unmasked, p)
            p = p.next()
        self.epilogue.leave_q()
        if pages % 2 == 1:  # the last page is an even one
            self.take_page(0, p)
            p = p.next()
            warpgroup.wait_group(0)
            self.release(0)
        return kv, p

    def odd_page(self, first_key: Int32, unmasked: Int32, p: Mbarrier) -> None:
        """Issue P0 V0_R with the softmax of the odd page under it, then P1 V1_R."""
        self.mask_and_reduce(first_key, unmasked)
        self.take_page(0, p)
        self.raise_max()
        self.exponentiate()
        self.rescale(self.rows.scale_own, in_flight=True)
        self.multiply_pv(1)
        self.publish_p()
        warpgroup.wait_group(1)
        self.release(0)
        warpgroup.wait_group(0)
        self.release(1)


# -- epilogue: merge and store ---------------------------------------------------------------------------------------


def pack(values: list[Uint32]) -> list[Uint32]:
    """Pack the upper 24 bits of four fp32, rounded, in three words."""
    half, byte, two, three, upper = (Uint32(n) for n in (0x80, 8, 16, 24, 0xFFFFFF00))
    packed = []
    for n in range(0, len(values), 4):
        a, b, c, d = (value + half for value in values[n : n + 4])
        packed += [a >> byte | b >> byte << three, b >> two | c >> byte << two, c >> three | d & upper]
    return packed


def unpack(words: list[Uint32]) -> list[Uint32]:
    """Invert `pack`, with zeros for the bits that it dropped."""
    byte, two, three, upper = (Uint32(n) for n in (8, 16, 24, 0xFFFFFF00))
    values = []
    for n in range(0, len(words), 3):
        u, v, w = words[n : n + 3]
        values += [u << byte, u >> three << byte | v << two, v >> two << byte | w << three, w & upper]
    return values


@dataclass
class Epilogue:
    """What a consumer does with a work tile's sums: exchange, merge, normalize, store."""

    rows: Rows
    params: Params
    split_kv: bool  # two CTAs have one half of a work tile's pages each
    merge_in_kernel: bool  # two splits are merged here: a work tile's partial result is then the number of the merge
    half: Int32  # of the keys, with split KV
    sSum: cute.Tensor  # [2, 2, 64]: work tile parity, consumer, row
    sExchange: cute.Tensor  # [4, 128, 14] fp32, in the memory of sQ: what the peer CTA sends
    mbarriers: Mbarriers

    def __post_init__(self) -> None:
        self.index, self.lane, self.row = self.rows.index, self.rows.lane, self.rows.row

    @cute.jit
    def leave_q(self) -> None:
        """Free sQ for the next Q or, before that, for the peer CTA's O."""
        if const_expr(self.split_kv):
            if self.lane == 0:
                self.mbarriers.q_read.arrive(cta=1 - self.half)
        else:
            self.release_q()

    @cute.jit
    def release_q(self) -> None:
        if const_expr(self.split_kv):
            cute.arch.fence_proxy("async.shared", space="cta")  # read as ordinary memory, written by TMA next
        if self.lane == 0:
            self.mbarriers.q.empty.arrive()

    @cute.jit
    def finish(self, parity: Int32, request: Int32, first_row: Int32, partial: Int32, is_last: Any) -> None:
        """Merge the sums of both consumers and of the keys' halves, and store."""
        if const_expr(self.split_kv):
            ticket = self.merge_halves(parity, partial)
            if not is_last:  # the last time nobody waits
                self.release_q()
        else:
            self.add_sums(parity)
        if const_expr(self.merge_in_kernel):
            stores = Int32(1)
            if partial >= 0:
                stores = self.merge_splits(ticket, first_row, partial)
            if stores == 1:
                self.store(request, first_row, Int32(-1))
        else:
            self.store(request, first_row, partial)

    @cute.jit
    def store(self, request: Int32, first_row: Int32, partial: Int32) -> None:
        """Normalize, and store to the output, or a partial result if the request is split."""
        row_sum, row_max, scale = self.rows.row_sum, self.rows.row_max, self.rows.scale_peer
        lse = cute.make_rmem_tensor((2,), Float32)
        for r in cutlass.range_constexpr(2):
            scale[r] = Float32(0.0)
            lse[r] = Float32.inf  # of a row that saw no key: O 0, LSE +inf, and -inf of a partial result
            if row_sum[r] > 0.0:
                scale[r] = 1.0 / row_sum[r]
                lse[r] = (row_max[r] + cute.math.log2(row_sum[r], fastmath=True)) * layout.LN_2
        if const_expr(not self.merge_in_kernel):
            if partial < 0:
                self.store_rows(self.params.mO, self.params.mLSE, request, first_row, lse)
            else:
                self.store_rows(self.params.mOPartial, self.params.mLSEPartial, partial, first_row, None)
        else:
            self.store_rows(self.params.mO, self.params.mLSE, request, first_row, lse)

    @cute.jit
    def store_rows(self, mO, mLSE, index, first_row, lse) -> None:
        """Store two rows of O and their LSE; without `lse`, that of a partial result."""
        row_sum, row_max = self.rows.row_sum, self.rows.row_max
        first = (self.lane % 4 == 0) & (self.index == 0) & (self.half == 0)
        for r in cutlass.range_constexpr(2):
            row = first_row + self.row(r)
            pRow = row < self.params.mO.shape[1]
            self.store_row(r, mO[index, row, None], pRow)
            if first & pRow:
                if const_expr(lse is not None):
                    mLSE[index, row] = lse[r]
                else:
                    mLSE[index, row] = row_max[r] + cute.math.log2(row_sum[r], fastmath=True)

    @cute.jit
    def add_sums(self, parity: Int32) -> None:
        """Add up row_sum over a quad's lanes and both consumers' pages."""
        sSum, row_sum = self.sSum, self.rows.row_sum
        for r in cutlass.range_constexpr(2):
            for offset in (1, 2):
                row_sum[r] = row_sum[r] + cute.arch.shuffle_sync_bfly(row_sum[r], offset=offset)
        if self.lane % 4 == 0:
            for r in cutlass.range_constexpr(2):
                sSum[parity, self.index, self.row(r)] = row_sum[r]
        self.mbarriers.sums_ready.arrive()  # mutant: sums
        self.mbarriers.sums_ready.at(parity).wait()
        for r in cutlass.range_constexpr(2):
            row_sum[r] = row_sum[r] + sSum[parity, 1 - self.index, self.row(r)]

    # Split KV across a cluster.

    @cute.jit
    def merge_halves(self, parity: Int32, merge: Int32) -> Int32:
        """Send the peer CTA the columns that it stores, and merge what it sends.

        Thread t of a consumer there holds the rows of thread t here. Both have the columns that they store in
        O[:COLUMNS] (`gmem_tile`); after this O[:COLUMNS], row_max and row_sum cover all keys. Returns the ticket
        for `merge_splits`, which is taken where there is a wait anyway.
        """
        rows = self.rows
        tOrO, row_sum, row_max, scale_own, scale_peer = (
            *(rows.tOrO, rows.row_sum, rows.row_max, rows.scale_own, rows.scale_peer),
        )
        received = self.mbarriers.received[self.index].at(parity)
        if rows.thread == 0:
            received.expect(layout.EXCHANGE_PART_BYTES)
            received.expect(layout.EXCHANGE_PART_BYTES, 1)
        # Through a shuffle: else the compiler computes all remote addresses ahead of the work tiles, and keeps them.
        peer = cute.arch.make_warp_uniform(1 - self.half)
        o_bits, sum_bits, max_bits = (cute.recast_tensor(values, Uint32) for values in (tOrO, row_sum, row_max))
        self.mbarriers.q_read.at(parity).wait()
        self.send(0, [max_bits[r % 2] for r in range(4)], peer)
        for group in cutlass.range_constexpr(COLUMNS // 16):  # of 16 values: three chunks
            words = pack([o_bits[COLUMNS + 16 * group + i] for i in range(16)])
            for n in cutlass.range_constexpr(3):
                self.send(1 + 3 * group + n, words[4 * n : 4 * n + 4], peer)
        self.add_sums(parity)
        self.send(layout.EXCHANGE_CHUNKS - 1, [sum_bits[r % 2] for r in range(4)], peer)

        ticket = self.take_ticket(merge) if self.merge_in_kernel else Int32(0)
        received.wait()
        peer_max = self.receive(0)
        for r in cutlass.range_constexpr(2):
            top = cute.arch.fmax(row_max[r], peer_max[r])
            scale_own[r] = cute.math.exp2(row_max[r] - top, fastmath=True)
            scale_peer[r] = cute.math.exp2(peer_max[r] - top, fastmath=True)
            row_max[r] = top
        for group in cutlass.range_constexpr(COLUMNS // 16):
            if const_expr(group == COLUMNS // 32):
                received.wait(1)
            words = [cute.recast_tensor(self.receive(1 + 3 * group + n), Uint32) for n in range(3)]
            values = cute.make_rmem_tensor((16,), Uint32)
            for i, value in enumerate(unpack([words[n // 4][n % 4] for n in range(12)])):
                values[i] = value
            peer_o = cute.recast_tensor(values, Float32)
            for i in cutlass.range_constexpr(16):
                n = 16 * group + i
                tOrO[n] = tOrO[n] * scale_own[i // 2 % 2] + peer_o[i] * scale_peer[i // 2 % 2]
        peer_sum = self.receive(layout.EXCHANGE_CHUNKS - 1)
        for r in cutlass.range_constexpr(2):
            row_sum[r] = row_sum[r] * scale_own[r] + peer_sum[r] * scale_peer[r]
        return ticket

    def send(self, chunk: int, words: list[Uint32], peer: Int32) -> None:
        """Send 16 bytes to the same thread of CTA `peer`, counted by its mbarrier."""
        bar = self.mbarriers.received[self.index].pointer(2 * chunk // layout.EXCHANGE_CHUNKS)
        target = self.sExchange[None, self.rows.thread, chunk].iterator
        cute.arch.store_async_dsmem(target, tuple(Int32(word) for word in words), bar, peer)

    def receive(self, chunk: int) -> cute.Tensor:
        values = cute.make_rmem_tensor((4,), Float32)
        cute.autovec_copy(self.sExchange[None, self.rows.thread, chunk], values)
        return values

    # In-kernel merge of two splits.

    @cute.jit
    def take_ticket(self, merge: Int32) -> Int32:
        """Return lane 0's ticket: 0 for the first split to come, 1 for the second."""
        ticket = Int32(0)
        if (merge >= 0) & (self.lane == 0):
            ticket = cute.arch.atomic_add(self.counter(merge, 0), Int32(1), sem="relaxed", scope="gpu")
        return ticket

    def counter(self, merge: Int32, which: int) -> Any:
        return cute.local_tile(self.params.mMergeCounters, (1, 1, 1), (merge, self.merge_warp(), which)).iterator

    def merge_warp(self) -> Int32:
        """Return the warp's number in the cluster: equal numbers of two splits merge."""
        return (
            2 * layout.WARPGROUP_WARPS * self.half
            + layout.WARPGROUP_WARPS * self.index
            + self.rows.thread // layout.WARP_THREADS
        )

    @cute.jit
    def merge_splits(self, ticket: Int32, first_row: Int32, merge: Int32) -> Int32:
        """Merge both splits of a request; return 1 if this warp stores the output.

        The warp with the second ticket waits for the one that drew the first, and so is running or done: nobody waits
        for what has not begun. It leaves the counters as it found them. Who comes second changes no bit.
        """
        stores = Int32(0)
        warp = self.merge_warp()
        has_state = self.counter(merge, 1)
        ticket = cute.arch.make_warp_uniform(ticket)
        has_rows = first_row + self.rows.thread // layout.WARP_THREADS * 16 < self.params.mO.shape[1]
        if ticket == 0:
            if has_rows:
                self.store_state(merge, warp)
            cute.arch.sync_warp()
            if self.lane == 0:  # a release, of what the other lanes have stored as well
                cute.arch.red(has_state, Int32(1), op="add", dtype="s32", sem="release", scope="gpu")
        else:
            ready = cute.arch.load(has_state, Int32, sem="acquire", scope="gpu")
            while ready == 0:
                ready = cute.arch.load(has_state, Int32, sem="acquire", scope="gpu")
            cute.arch.sync_warp()
            if self.lane == 0:
                zero = Int32(0)
                cute.arch.store(self.counter(merge, 0), zero)
                cute.arch.store(has_state, zero)
            if has_rows:
                self.add_state(merge, warp)
                stores = Int32(1)
        return stores

    def store_state(self, merge: Int32, warp: Int32) -> None:
        rows, mMergeState = self.rows, self.params.mMergeState
        values = [*(rows.row_max[r] for r in (0, 1)), *(rows.row_sum[r] for r in (0, 1))]
        values += [rows.tOrO[n] for n in range(COLUMNS)]
        chunk = cute.make_rmem_tensor((4,), Float32)
        for number in range(layout.MERGE_CHUNKS):
            for n in range(4):
                chunk[n] = values[4 * number + n]
            cute.autovec_copy(chunk, mMergeState[merge, warp, number, self.lane, None])

    def add_state(self, merge: Int32, warp: Int32) -> None:
        """Merge the other split's state, scaling the smaller maximum's: either gets equal bits."""
        rows, mMergeState = self.rows, self.params.mMergeState
        other = cute.make_rmem_tensor((4, layout.MERGE_CHUNKS), Float32)
        for number in range(layout.MERGE_CHUNKS):
            cute.autovec_copy(mMergeState[merge, warp, number, self.lane, None], other[None, number])
        for r in range(2):
            own_is_top = rows.row_max[r] >= other[r]
            top = cute.arch.fmax(rows.row_max[r], other[r])
            scale = cute.math.exp2(cute.arch.fmin(rows.row_max[r], other[r]) - top, fastmath=True)

            def both(mine: Float32, theirs: Float32, own_is_top=own_is_top, scale=scale) -> Float32:
                low, high = select_(own_is_top, theirs, mine), select_(own_is_top, mine, theirs)
                return Float32(low) * scale + Float32(high)

            rows.row_max[r] = top
            rows.row_sum[r] = both(rows.row_sum[r], other[2 + r])
            for n in range(2 * r, COLUMNS, 4):
                for column in (n, n + 1):
                    rows.tOrO[column] = both(rows.tOrO[column], other[4 + column])

    # Rows of the output.

    def store_row(self, r: int, gO: cute.Tensor, pRow: cutlass.Boolean) -> None:
        """Store the scaled O of row r, 16 bytes at a time, where `pRow`.

        A lane holds two neighbouring columns of every octet of columns; lanes of a quad swap until each holds 16 bytes
        that lie side by side, so that a quad writes 64 bytes of a row at once and not 8 or 16. All lanes of a warp take
        part in the swaps, also those whose row is past the end.
        """
        tOrO, scale = self.rows.tOrO, self.rows.scale_peer
        odd, upper = self.lane % 2 == 1, self.lane % 4 >= 2
        octets = HALF // 16 if self.split_kv else HALF // 8
        first_octet = HALF // 8 * self.index + (octets * self.half if self.split_kv else 0)
        if const_expr(gO.element_type.width == 32):
            chunks = cute.local_tile(gO, (4,), (None,))
            for octet in range(0, octets, 2):
                a, b = ([tOrO[4 * (octet + n) + 2 * r + c] * scale[r] for c in (0, 1)] for n in (0, 1))
                a, b = self.swap(a, b, odd, 1)
                value = cute.make_rmem_tensor((4,), Float32)
                for c in range(4):
                    value[c] = (a + b)[c]
                chunk = 2 * (first_octet + octet + self.lane % 2) + self.lane % 4 // 2
                self.store_chunk(value, chunks[None, chunk], pRow)
        else:
            chunks = cute.local_tile(gO, (8,), (None,))
            for octet in range(0, octets, 4):
                words = []
                for n in range(4):
                    pair = cute.make_rmem_tensor((2,), gO.element_type)
                    for c in range(2):
                        value = tOrO[4 * (octet + n) + 2 * r + c] * scale[r]
                        pair[c] = value.to(gO.element_type)
                    words.append([cute.recast_tensor(pair, Int32)[0]])
                a, b = self.swap(words[0], words[1], odd, 1)  # octet + odd, this lane's half of it
                c, d = self.swap(words[2], words[3], odd, 1)  # octet + 2 + odd
                e, f = self.swap(a + b, c + d, upper, 2)
                value = cute.make_rmem_tensor((4,), Int32)
                for n in range(4):
                    value[n] = (e + f)[n]
                chunk = first_octet + octet + self.lane % 2 + 2 * (self.lane % 4 // 2)
                self.store_chunk(cute.recast_tensor(value, gO.element_type), chunks[None, chunk], pRow)

    @cute.jit
    def store_chunk(self, value: cute.Tensor, target: cute.Tensor, pRow: cutlass.Boolean) -> None:
        if pRow:
            cute.autovec_copy(value, target)

    def swap(self, low: list, high: list, is_high: cutlass.Boolean, offset: int) -> tuple[list, list]:
        """Exchange `high` for the lane's `low` `offset` apart; return both in lane order."""
        kind = type(low[0])
        keep = [kind(select_(is_high, b, a)) for a, b in zip(low, high, strict=True)]
        send = [kind(select_(is_high, a, b)) for a, b in zip(low, high, strict=True)]
        got = [cute.arch.shuffle_sync_bfly(value, offset=offset) for value in send]
        first = [kind(select_(is_high, g, k)) for g, k in zip(got, keep, strict=True)]
        second = [kind(select_(is_high, k, g)) for g, k in zip(got, keep, strict=True)]
        return first, second
