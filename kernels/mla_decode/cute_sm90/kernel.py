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

Both halves of page 0 are read, and its memory is filled again, before page 1's: the next scores start early.
(FlashMLA's "seesaw" lets consumer 1 multiply its own page first; it was built and timed, too: README.md.)

Key and value are one tensor (the value is the latent part of the key), so a page is loaded once, in nine 64 x 64 tiles
with an mbarrier each: a score product starts with the first tile that arrives.

With few requests for the card, two CTAs of a cluster take one half each of a request's keys (`halves`): each sends the
other, through the link between their SMs, the half of the output columns that the other stores. No partial results in
global memory and no second kernel.

Where a request is then in two pieces, these may meet (`meets`): the warps that come first leave what they have in
global memory, and the same warps of the other piece add it to theirs and store the output. No second kernel either.

Consumers signal each other on mbarriers: compute-sanitizer's racecheck does not follow named barriers on which one
side only arrives.

Budget per CTA (Hopper: 232,448 bytes of shared memory, 65,536 registers):

    Q             9 tiles of  8,192 bytes    73,728
    pages     2 x 9 tiles of  8,192 bytes   147,456   P0 and P1 lie in the rope tile of their page: the value has no
                                                      rope, and that tile is dead once the page's scores are done
    statistics  8 x 64 fp32                   2,048
    mbarriers  32 x 8 bytes                     256
    registers 2 x 128 threads x 232 + 128 x 40 = 64,512 = 384 x 168, what the launch allots: of a consumer's 232,
              128 hold O, 32 S, 16 P
"""

from __future__ import annotations

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as sm90
from cutlass import Float32, Int32, Int64, const_expr
from cutlass._mlir.dialects import nvvm
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cutlass_dsl import dsl_user_op
from cutlass.utils import SmemAllocator

from kernels.mla_decode.cute_sm90 import layout
from kernels.mla_decode.cute_sm90.consumer import Consumer, half_of
from kernels.mla_decode.cute_sm90.layout import HALF, PAGE, ROWS, TILE, TILES
from kernels.mla_decode.split_kv.combine import Combine


@dsl_user_op
def prefetch_l2(source, size, *, loc=None, ip=None):
    """Ask `size` bytes from pointer `source` on into the L2, by one instruction of one thread."""
    nvvm.cp_async_bulk_prefetch(source.llvm_ptr, Int32(size).ir_value(loc=loc, ip=ip), loc=loc, ip=ip)


class MlaDecodeSm90:
    """Compile-time choices: `dtype` (cutlass.BFloat16 or cutlass.Float16), `cluster` (CTAs in one), `halves`, `single`.

    In a cluster of 2 the CTAs work on neighbouring row blocks of one request, and each loads half of every page tile
    for both: half the traffic between L2 and the SMs. Or, with `halves`, on one row block and half of the keys each.
    With `single` CTAs are launched without the attribute of a cluster, and are spread over the card in another order.
    With `padded` the schedule's tables may have entries that ask for nothing; for `padding` see layout.py. With `meets`
    no request is in more than two pieces, and those meet (met.py has the function that is exported then).
    """

    def __init__(
        self,
        dtype: type[cutlass.Numeric],
        cluster: int = 1,
        halves: bool = False,
        padded: bool = False,
        padding: str = layout.BOUNDED,
        meets: bool = False,
        single: bool = False,
    ):
        self.dtype = dtype
        self.padded = padded
        self.padding = padding
        self.size = cluster
        self.cluster = 1 if halves else cluster  # CTAs that share page loads
        self.halves = halves
        self.meets = meets
        self.single = single
        self.drops_q = self.cluster > 1 or single  # the L2 is told how to treat Q

    @cute.jit
    def __call__(
        self,
        q: cute.Tensor,  # [batch, rows, 576]; rows = query tokens x heads
        kv: cute.Tensor,  # [pages, 64, 576]
        page_table: cute.Tensor,  # [batch, pages_per_request] int32
        out: cute.Tensor,  # [batch, rows, 512]
        lse: cute.Tensor,  # [batch, rows] fp32
        items: cute.Tensor,  # [items, 8] int32: see cute_sm90/schedule.py
        item_offsets: cute.Tensor,  # [workers + 1] int32
        merges: cute.Tensor,  # [merged requests, 4] int32: request, first partial, partials, 0
        out_partial: cute.Tensor,  # [partials, rows, 512] fp32
        lse_partial: cute.Tensor,  # [partials, rows] fp32, base 2
        scale_log2: Float32,  # softmax scale times log2(e)
        heads: Int32,
        hidden_tokens: Int32,  # query tokens - 1 if they are causal among themselves, else 0
        row_warps: Int32,  # of the combine kernel; 0 if no request was split
        policy: Int64,  # layout.KEEP or EVICT_FIRST: of the pages, in the L2
        q_policy: Int64,  # the same of Q; of single CTAs and of clusters that share page loads
        ahead: Int32,  # other than 0: pages are asked into the L2 ahead (`load_ahead`), in such clusters
        stream: cuda.CUstream,
    ):
        self.launch(
            *(q, kv, page_table, out, lse, items, item_offsets, merges, out_partial, lse_partial),
            *(scale_log2, heads, hidden_tokens, row_warps, policy, q_policy, ahead, None, None, stream),
        )

    @cute.jit
    def launch(
        self,
        q,
        kv,
        page_table,
        out,
        lse,
        items,
        item_offsets,
        merges,
        out_partial,
        lse_partial,
        scale_log2,
        heads,
        hidden_tokens,
        row_warps,
        policy,
        q_policy,
        ahead,
        counters,  # [meetings, 16, 2] int32, 0; or None: the pieces of a request do not meet (`Epilogue.meet`)
        left,  # [meetings, 16, 17, 32, 4] fp32: what is left there; or None
        stream,
    ):
        atom_k = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, self.dtype)
        atom_mn = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.MN_SW128, self.dtype)
        tiles_q = cute.tile_to_shape(atom_k, (ROWS, TILE, TILES), order=(0, 1, 2))
        tiles_kv = cute.tile_to_shape(atom_k, (PAGE, TILE, 2 * TILES), order=(0, 1, 2))
        one_tile = cute.slice_(tiles_kv, (None, None, 0))
        # The bytes of four tiles of K read transposed: value columns are the N of the product, keys its K.
        half_v = cute.tile_to_shape(atom_mn, (HALF, PAGE), order=(1, 0))

        q_rows = cute.make_tensor(q.iterator, cute.select(q.layout, mode=[1, 2, 0]))
        kv_rows = cute.make_tensor(kv.iterator, cute.select(kv.layout, mode=[1, 2, 0]))
        if const_expr(self.padding == layout.BOUNDED):
            kv_rows = self.rows_up_to(kv)
        load = cpasync.CopyBulkTensorTileG2SOp()
        load_kv = load if const_expr(self.cluster == 1) else cpasync.CopyBulkTensorTileG2SMulticastOp()
        tma_q, q_tma = cpasync.make_tiled_tma_atom(load, q_rows, one_tile, (ROWS, TILE))
        tma_kv, kv_tma = cpasync.make_tiled_tma_atom(
            load_kv, kv_rows, one_tile, (PAGE, TILE), num_multicast=self.cluster
        )

        @cute.struct
        class SharedStorage:
            q: cute.struct.Align[cute.struct.MemRange[self.dtype, TILES * layout.TILE_ELEMENTS], 1024]
            kv: cute.struct.Align[cute.struct.MemRange[self.dtype, 2 * layout.PAGE_ELEMENTS], 1024]
            maximum: cute.struct.MemRange[Float32, 2 * ROWS]
            scale0: cute.struct.MemRange[Float32, ROWS]
            scale1: cute.struct.MemRange[Float32, ROWS]
            sums: cute.struct.MemRange[Float32, 4 * ROWS]
            mbarriers: cute.struct.MemRange[cutlass.Int64, layout.MBARRIERS]

        self.storage = SharedStorage
        self.split_kernel(
            *(tma_q, q_tma, tma_kv, kv_tma, page_table, items, item_offsets),
            *(out, lse, out_partial, lse_partial),
            *(scale_log2, heads, hidden_tokens, row_warps, policy, merges),
            *(counters, left),
            *self._products(),
            *(tiles_q, tiles_kv, half_v),
            kv if const_expr(self.cluster > 1) else None,
            q_policy if const_expr(self.drops_q) else None,
            ahead if const_expr(self.cluster > 1) else None,
        ).launch(
            grid=[self.size * (item_offsets.shape[0] - 1), 1, 1],
            block=[layout.THREADS, 1, 1],
            cluster=None if self.single else [self.size, 1, 1],
            stream=stream,
            min_blocks_per_mp=1,
            use_pdl=True,
        )
        Combine(self.dtype, self.padded)(merges, out_partial, lse_partial, out, lse, row_warps, stream)

    def rows_up_to(self, kv: cute.Tensor) -> cute.Tensor:
        """The cache so that any row of it may be a page's last, and what follows is out of bounds for TMA.

        Coordinates (row, column, last): the 64 rows of the cache up to row `last`, all pages counted as one. Those are
        the bounds; a box begins at row `missing` of them, so that its last `missing` rows are out of bounds, and TMA
        fills them with zeros. Rows of two places overlap in memory: `row` and `last` have the same stride. The tensor
        begins 63 rows before the cache, where no page's box reaches. A number that is no page's is out of bounds.

        But a multicast load touches where its tensor begins, whatever box it loads (seen on an H200: an illegal access
        where nothing was mapped there). So that of CTAs which share loads begins with the cache, and has LAST_ROW + 1
        rows up to `last`; a fourth coordinate, always WRAP, takes LAST_ROW rows back, addresses being counted modulo
        2^64.
        """
        width, places = layout.WIDTH, PAGE * kv.shape[0]
        if const_expr(self.cluster == 1):
            rows = cute.make_layout((PAGE, width, places), stride=(width, 1, width))
            return cute.make_tensor(kv.iterator - (PAGE - 1) * width, rows)
        round_once = cutlass.Int64((1 << 64) // (layout.WRAP * self.dtype.width // 8))  # in elements, WRAP times
        sizes = layout.LAST_ROW + 1, width, places, layout.WRAP + 1
        return cute.make_tensor(kv.iterator, cute.make_layout(sizes, stride=(width, 1, width, round_once - width)))

    def _products(self) -> tuple[cute.TiledMma, ...]:
        """Q K^T, overwriting and adding; P V with P in registers and in shared memory. One warpgroup, 64 rows, each."""
        k_major, mn_major = warpgroup.OperandMajorMode.K, warpgroup.OperandMajorMode.MN
        shared, registers = warpgroup.OperandSource.SMEM, warpgroup.OperandSource.RMEM
        return tuple(
            sm90.make_trivial_tiled_mma(
                self.dtype, self.dtype, k_major, b_major, Float32, (1, 1, 1), (ROWS, n), a_source
            )
            for b_major, n, a_source in (
                (k_major, PAGE, shared),
                (k_major, PAGE, shared),
                (mn_major, HALF, registers),
                (mn_major, HALF, shared),
            )
        )

    @cute.kernel
    def split_kernel(
        self,
        tma_q: cute.CopyAtom,
        q_tma: cute.Tensor,
        tma_kv: cute.CopyAtom,
        kv_tma: cute.Tensor,
        page_table: cute.Tensor,
        items: cute.Tensor,
        item_offsets: cute.Tensor,
        out: cute.Tensor,
        lse: cute.Tensor,
        out_partial: cute.Tensor,
        lse_partial: cute.Tensor,
        scale_log2: Float32,
        heads: Int32,
        hidden_tokens: Int32,
        row_warps: Int32,
        policy: Int64,
        merges: cute.Tensor,
        counters: cute.Tensor | None,
        left: cute.Tensor | None,
        mma_qk_first: cute.TiledMma,
        mma_qk: cute.TiledMma,
        mma_local: cute.TiledMma,
        mma_remote: cute.TiledMma,
        tiles_q: cute.ComposedLayout,
        tiles_kv: cute.ComposedLayout,
        half_v: cute.ComposedLayout,
        kv: cute.Tensor | None,
        q_policy: Int64 | None,
        ahead: Int32 | None,
    ):
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cluster_rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        rank = cluster_rank if const_expr(self.cluster > 1) else 0
        half = cluster_rank if const_expr(self.halves) else 0
        worker = cute.arch.block_idx()[0] // self.size
        # Asked for before anything else. Most often every worker has one item, the one of its own number: it is asked
        # for before it is known to be the first, since in a lone call each of these loads comes from DRAM. Each lane
        # loads one word: what a whole warp loads alike ptxas waits for at once, for the sake of uniform registers.
        lane = cute.arch.lane_idx()
        offsets = item_offsets[worker + lane % 2]
        likely = items[worker, lane % layout.ITEM_COLUMNS]

        storage = SmemAllocator().allocate(self.storage)
        mbarriers = storage.mbarriers.data_ptr()
        sQ = storage.q.get_tensor(tiles_q.outer, swizzle=tiles_q.inner)
        sKV = storage.kv.get_tensor(tiles_kv.outer, swizzle=tiles_kv.inner)

        if warp == 8:  # else their first use waits for them
            cpasync.prefetch_descriptor(tma_q)
            cpasync.prefetch_descriptor(tma_kv)
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(mbarriers + layout.Q_FULL, 1)
                cute.arch.mbarrier_init(mbarriers + layout.Q_EMPTY, 8)  # consumer warps
                for tile in cutlass.range_constexpr(2 * TILES):
                    cute.arch.mbarrier_init(mbarriers + layout.KV_FULL + tile, 1)
                for slot_half in cutlass.range_constexpr(4):  # a consumer's warps in each CTA that gets the page
                    cute.arch.mbarrier_init(mbarriers + layout.KV_EMPTY + slot_half, 4 * self.cluster)
                cute.arch.mbarrier_init(mbarriers + layout.P0_READY, layout.CONSUMER_THREADS // 2)
                cute.arch.mbarrier_init(mbarriers + layout.P1_READY, layout.CONSUMER_THREADS // 2)
                cute.arch.mbarrier_init(mbarriers + layout.SUMS_READY, layout.CONSUMER_THREADS)
                cute.arch.mbarrier_init(mbarriers + layout.Q_READ, 8)
                for part in cutlass.range_constexpr(4):
                    cute.arch.mbarrier_init(mbarriers + layout.RECEIVED + part, 1)
            cute.arch.mbarrier_init_fence()
        if const_expr(self.size > 1):
            # Relaxed: mbarriers are all that it orders, and those are fenced. Else each thread waits for a fence of the
            # whole device, with what it has just asked for behind it.
            cute.arch.cluster_arrive_relaxed()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()
        first_item, end_item = (cute.arch.shuffle_sync(offsets, offset=n) for n in (0, 1))
        # Set once, outside every branch and loop: the field is rebound in the place where it is set.
        mma_qk_first.set(warpgroup.Field.ACCUMULATE, False)
        for mma in (mma_qk, mma_local, mma_remote):
            mma.set(warpgroup.Field.ACCUMULATE, True)

        if row_warps == 0:
            # No combine kernel follows: the next kernel's CTAs may come as soon as ours go, and wait for the last of
            # them in griddepcontrol_wait. (Combine's would crowd the few idle SMs: they are let in at the end.)
            cute.arch.griddepcontrol_launch_dependents()
        if const_expr(self.padded):
            self._launch_early(warp, merges)
        if warp >= 8:
            cute.arch.setmaxregister_decrease(layout.PRODUCER_REGISTERS)
            if warp == 8:
                loads = (tma_q, q_tma, tma_kv, kv_tma, sQ, sKV, mbarriers, policy, page_table)
                self.produce(*loads, items, worker, likely, first_item, end_item, rank, half, kv, q_policy, ahead)
        else:
            cute.arch.setmaxregister_increase(layout.CONSUMER_REGISTERS)
            outputs = out, lse, out_partial, lse_partial, counters, left
            work = items, first_item, end_item, heads, hidden_tokens, outputs
            mmas = (mma_qk_first, mma_qk, mma_local, mma_remote)
            if warp < 4:
                consumer = self._consumer(0, storage, sQ, sKV, half_v, mmas, rank, half, scale_log2)
                consumer.consume(*work)
            else:
                consumer = self._consumer(1, storage, sQ, sKV, half_v, mmas, rank, half, scale_log2)
                consumer.consume(*work)

    @cute.jit
    def _launch_early(self, warp: Int32, merges: cute.Tensor) -> None:
        """The same where only the table on the card says that there is nothing to combine. Warp 9 has no other work."""
        if warp == 9:
            nothing = merges[0, 2] < 0
            if nothing:
                cute.arch.griddepcontrol_launch_dependents()

    def _consumer(self, index, storage, sQ, sKV, half_v, mmas, rank, half, scale_log2) -> Consumer:
        """The views of shared memory that consumer `index` multiplies, as descriptors, and where it puts its P."""
        mma_qk_first, mma_qk, mma_local, mma_remote = mmas
        thread = cute.arch.thread_idx()[0] % 128
        qk, pv = mma_qk.get_slice(thread), mma_local.get_slice(thread)
        first = storage.kv.data_ptr() + index * (HALF // TILE) * layout.TILE_ELEMENTS
        v = tuple(
            cute.make_tensor(
                cute.recast_ptr(first + slot * layout.PAGE_ELEMENTS, half_v.inner, self.dtype), half_v.outer
            )
            for slot in (0, 1)
        )
        p = tuple(sKV[None, None, TILES * slot + layout.ROPE_TILE] for slot in (0, 1))
        store = cute.make_copy_atom(cute.nvgpu.warp.StMatrix8x8x16bOp(False, 4), self.dtype)
        remote = mma_remote.get_slice(thread)
        return Consumer(
            index=index,
            cluster=self.cluster,
            halves=self.halves,
            meets=self.meets,
            thread=thread,
            rank=rank,
            half=half,
            dtype=self.dtype,
            mma_qk_first=mma_qk_first,
            mma_qk=mma_qk,
            mma_local=mma_local,
            mma_remote=mma_remote,
            q=qk.make_fragment_A(qk.partition_A(sQ)),
            k=qk.make_fragment_B(qk.partition_B(sKV)),
            v=tuple(pv.make_fragment_B(pv.partition_B(half)) for half in v),
            p_remote=remote.make_fragment_A(remote.partition_A(p[1 - index])),
            p_store=cute.make_tiled_copy_C(store, mma_qk),
            p_shared=p[index],
            maximum=storage.maximum.get_tensor(cute.make_layout((2, ROWS), stride=(ROWS, 1))),
            scale=(
                storage.scale0.get_tensor(cute.make_layout(ROWS)),
                storage.scale1.get_tensor(cute.make_layout(ROWS)),
            ),
            sums=storage.sums.get_tensor(cute.make_layout((2, 2, ROWS), stride=(2 * ROWS, ROWS, 1))),
            received=cute.make_tensor(
                cute.recast_ptr(storage.q.data_ptr(), dtype=Float32) + index * (layout.PART_BYTES // 2),
                cute.make_layout((4, 128, layout.SENT_CHUNKS)),
            ),
            mbarriers=storage.mbarriers.data_ptr(),
            scale_log2=scale_log2,
        )

    @cute.jit
    def produce(
        self,
        tma_q,
        q_tma,
        tma_kv,
        kv_tma,
        sQ,
        sKV,
        mbarriers,
        policy,
        page_table,
        items,
        worker,
        likely,  # item number `worker`, a column in each lane
        first_item,
        end_item,
        rank,
        half,
        kv,
        q_policy,
        ahead,
    ):
        """One warp: every load of this CTA's work items, each as soon as the memory it goes to has been read."""
        gQ = cute.local_tile(q_tma, (ROWS, TILE), (None, None, None))  # (64, 64, row blocks, 9, batch)
        tQs, tQg = cpasync.tma_partition(
            tma_q, 0, cute.make_layout(1), cute.group_modes(sQ, 0, 2), cute.group_modes(gQ, 0, 2)
        )
        loads = (tma_kv, kv_tma, sKV, rank, mbarriers, policy)
        lane = cute.arch.lane_idx()
        q_phase, phase0, phase1 = Int32(1), Int32(1), Int32(1)  # a fresh mbarrier lets a wait for phase 1 pass
        next_request, next_block, next_begin, next_end, next_length = (
            cute.arch.shuffle_sync(likely, offset=column) for column in layout.LOADED_COLUMNS
        )
        if first_item != worker:
            next_request, next_block = items[first_item, layout.REQUEST], items[first_item, layout.ROW_BLOCK]
            next_begin, next_end = items[first_item, layout.BEGIN], items[first_item, layout.END]
            next_length = items[first_item, layout.LENGTH]
        # All above overlaps the end of the kernel before this one in the stream. What that may have written is read
        # from here on, and the consumers write nothing before they have got something that was loaded here.
        cute.arch.griddepcontrol_wait()
        for number in cutlass.range(first_item, end_item, unroll=1):
            request, row_block, begin, end = next_request, next_block + rank, next_begin, next_end
            length = next_length
            if const_expr(self.halves):
                begin, end, _ = half_of(half, begin, end, Int32(0))
            page0 = page_table[request, begin]
            page1 = page_table[request, cutlass.min(begin + 1, end - 1)]
            cute.arch.mbarrier_wait(mbarriers + layout.Q_EMPTY, q_phase)
            q_phase ^= 1
            for q_tile in cutlass.range_constexpr(TILES):
                cute.copy(
                    tma_q,
                    tQg[None, row_block, self.source(q_tile, half), request],
                    tQs[None, q_tile],
                    tma_bar_ptr=mbarriers + layout.Q_FULL,
                    **({"cache_policy": q_policy} if const_expr(self.drops_q) else {}),
                )
            if lane == 0:
                cute.arch.mbarrier_arrive_and_expect_tx(mbarriers + layout.Q_FULL, TILES * layout.TILE_BYTES)
            following = cutlass.min(number + 1, end_item - 1)
            next_request, next_block = items[following, layout.REQUEST], items[following, layout.ROW_BLOCK]
            next_begin, next_end = items[following, layout.BEGIN], items[following, layout.END]
            next_length = items[following, layout.LENGTH]
            if const_expr(self.cluster > 1):
                pages = request, row_block, begin, end, length, page_table, kv, ahead
                phase0, phase1 = self.load_ahead(*pages, phase0, phase1, lane, half, *loads)
            else:
                for index in cutlass.range(begin, end, 2, unroll=1):
                    phase0 = self.load_page(0, page0, PAGE * (index + 1) - length, phase0, lane, half, *loads)
                    page0 = page_table[request, cutlass.min(index + 2, end - 1)]
                    if index + 1 < end:
                        phase1 = self.load_page(1, page1, PAGE * (index + 2) - length, phase1, lane, half, *loads)
                        page1 = page_table[request, cutlass.min(index + 3, end - 1)]
        if const_expr(self.cluster > 1):
            # The peer's consumers arrive here for every page, the last one too. This warp waits for that, and keeps the
            # CTA's memory until then; so the others need not meet the peer's behind a fence of what they have stored.
            # (What the peer has sent is here: our consumers wait for it.)
            for slot_half, phase in ((0, phase0), (1, phase0), (2, phase1), (3, phase1)):
                cute.arch.mbarrier_wait(mbarriers + layout.KV_EMPTY + slot_half, phase)

    @cute.jit
    def load_ahead(
        self, request, row_block, begin, end, length, page_table, kv, ahead, phase0, phase1, lane, half, *loads
    ) -> tuple[Int32, Int32]:
        """Pages [begin, end) of an item; with `ahead` each is asked into the L2 while its slot holds the one before.

        A slot that has been read is then filled from the L2, and not after a walk to DRAM. Not so the first pages: they
        would come between others that are waited for. Each lane holds a page's number. Of a cluster either CTA asks for
        half of a page, and of several clusters that read it the first.
        """
        asking, first_key = (ahead != 0) & (row_block < 2), PAGE // 2 * row_block
        window = begin
        numbers = page_table[request, cutlass.min(window + lane, end - 1)]
        following = page_table[request, cutlass.min(window + layout.WINDOW + lane, end - 1)]
        for index in cutlass.range(begin, end, 2, unroll=1):
            if index - window >= layout.WINDOW:
                window += layout.WINDOW
                numbers = following
                following = page_table[request, cutlass.min(window + layout.WINDOW + lane, end - 1)]
            page0, page1, next0, next1 = (cute.arch.shuffle_sync(numbers, index - window + n) for n in range(4))
            early = asking & (index - begin >= layout.ASKED_FROM)
            phase0 = self.load_page(0, page0, PAGE * (index + 1) - length, phase0, lane, half, *loads)
            self.ask(kv, next0, first_key, early & (index + 2 < end), lane)
            if index + 1 < end:
                phase1 = self.load_page(1, page1, PAGE * (index + 2) - length, phase1, lane, half, *loads)
                self.ask(kv, next1, first_key, early & (index + 3 < end), lane)
        return phase0, phase1

    @cute.jit
    def ask(self, kv, page, first_key, wanted, lane):
        if wanted & (lane == 0):
            rows = kv[cutlass.Int64(page), first_key, None]  # caches have more than 2^31 elements
            prefetch_l2(rows.iterator, layout.TILES * layout.TILE_BYTES // 2)

    def load_page(self, slot, page, missing, phase, lane, half, *loads) -> Int32:
        """A page into `slot`, first the half that is free first; `missing` keys, or fewer than none, of it are not the
        request's. Returns the phase of the slot's next page."""
        missing = cutlass.max(missing, 0)
        if const_expr(self.padding == layout.BOUNDED):
            page = PAGE * page + (PAGE - 1) - missing  # its last row
        for slot_half in (slot, 1 - slot):
            self.load_half(slot, slot_half, page, missing, phase, lane, half, *loads)
        return phase ^ 1

    @cute.jit
    def load_half(
        self, slot, slot_half, page, missing, phase, lane, half, tma_kv, kv_tma, sKV, rank, mbarriers, policy
    ):
        """Tiles of a page that consumer `slot_half` reads last, into `slot`, once it is done there (in all CTAs)."""
        cute.arch.mbarrier_wait(mbarriers + layout.KV_EMPTY + 2 * slot + slot_half, phase)
        full = mbarriers + layout.KV_FULL + TILES * slot
        tiles = layout.SLOT_HALVES[slot][slot_half]
        if const_expr(self.padding == layout.BOUNDED):
            if const_expr(self.cluster > 1):
                kv_tma = cute.domain_offset((layout.LAST_ROW - (PAGE - 1), 0, 0), kv_tma[None, None, None, layout.WRAP])
            kv_tma = cute.domain_offset((missing, 0, 0), kv_tma)
        gKV = cute.local_tile(kv_tma, (PAGE, TILE), (None, None, None))  # (64, 64, 1, 9, pages)
        tKs, tKg = cpasync.tma_partition(
            tma_kv, rank, cute.make_layout(self.cluster), cute.group_modes(sKV, 0, 2), cute.group_modes(gKV, 0, 2)
        )
        self._load_tiles(tma_kv, tKg, tKs, page, slot, tiles, full, half, policy)
        # Said after the copies are on their way: an mbarrier may count bytes before it is told how many to expect.
        tile = tiles[0] + lane
        if const_expr(tiles == (*layout.LEFT_TILES, layout.ROPE_TILE)):
            tile = lane if lane < 4 else Int32(layout.ROPE_TILE)
        if lane < len(tiles):
            cute.arch.mbarrier_arrive_and_expect_tx(full + tile, layout.TILE_BYTES)

    def _load_tiles(self, tma_kv, tKg, tKs, page, slot, tiles, full, half, policy) -> None:
        everyone = {} if self.cluster == 1 else {"mcast_mask": cutlass.Int16((1 << self.cluster) - 1)}
        for tile in tiles:
            source, target = tKg[None, 0, self.source(tile, half), page], tKs[None, TILES * slot + tile]
            cute.copy(tma_kv, source, target, tma_bar_ptr=full + tile, cache_policy=policy, **everyone)

    def source(self, tile, half):
        """Which tile of Q and of a page goes to place `tile`: with halves, the columns that a CTA stores come first.

        Scores are sums over all tiles, in any order that Q and the pages share.
        """
        return tile if not self.halves or tile == layout.ROPE_TILE else tile ^ (2 * half)
