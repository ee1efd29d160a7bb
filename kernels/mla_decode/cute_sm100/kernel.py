"""MLA decode for Blackwell in CuTe DSL: device code of the kernel `cute_sm100`.

A pair of CTAs (a cluster of two, whose tensor cores work on one product) owns 128 query rows (heads of one request,
query tokens packed behind each other), 64 in each CTA, and walks over a range of tiles of 128 keys. Warps by role:

    4 softmax     scores from tensor memory, P to shared memory, O rescaled where a maximum grew, the result stored
    1 load        TMA loads of Q, keys and values
    1 product     issues the products, in the pair's leader alone

    tensor cores:  S0   S1   P0 V0   S2   P1 V1   S3   P2 V2 ...
    softmax:            P0           P1           P2

Why pairs: a 128 x 512 fp32 output is all of an SM's tensor memory, so 128 rows of one request need two SMs, and a
product by a pair keeps the tensor cores busy with 64 rows each. Of the second operand a pair's CTAs hold half each: for
the scores a page of keys, for the values 256 of 512 columns. So keys and values come by loads of their own: of a tile
72 KB of keys and 64 KB of values in each CTA, in parts of 16 KB (layout.py). A CTA's last values go where its last keys
were, and its last P to the end of Q's memory.

Budget per CTA (Blackwell: 232,448 bytes of shared memory, 512 columns of tensor memory), of 16-bit elements:

    Q             9 boxes of  8,192 bytes    73,728
    a slot        8 parts of 16,384 bytes   131,072
    its rope                                  8,192
    P             2 boxes of  8,192 bytes    16,384
    exchange        256 fp32                  1,024
    mbarriers    28 x 8 bytes                   224
    tensor memory  2 x 64 columns of scores, 256 of output
"""

from __future__ import annotations

import functools
from typing import Any

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import cutlass.utils.blackwell_helpers as sm100
from cutlass import Float32, Int32
from cutlass.cute.nvgpu import cpasync, tcgen05
from cutlass.cutlass_dsl import select_
from cutlass.utils import SmemAllocator

from kernels.mla_decode.cute_sm100.combine import Combine
from kernels.mla_decode.cute_sm100.epilogue import ALLOCATED
from kernels.mla_decode.cute_sm100.in_place import InPlaceLoader
from kernels.mla_decode.cute_sm100.layout import (
    BEGIN,
    BOX_BYTES,
    CTA_ROWS,
    CTAS,
    END,
    END_ITEM,
    FIRST_ITEM,
    HALF,
    ITEM_COLUMNS,
    KEYS,
    LATENT,
    LENGTH,
    OUT_COLUMN,
    PAGE,
    REQUEST,
    ROW_BLOCK,
    ROWS,
    SHIFT,
    TENSOR_MEMORY_COLUMNS,
    WARP_LANES,
    WIDTH,
    make_layout,
)
from kernels.mla_decode.cute_sm100.load import Loader, Source
from kernels.mla_decode.cute_sm100.partials import in_pieces
from kernels.mla_decode.cute_sm100.product import BOTH, Multiplier
from kernels.mla_decode.cute_sm100.softmax import Softmax
from kernels.tcgen05.fence import after_thread_sync, before_thread_sync


class MlaDecodeSm100:
    """Compile-time choices: `dtype` (cutlass.BFloat16, Float16 or Float8E4M3FN), `groups` of four softmax warps,
    whether a tile's values take the place of its keys (`in_place`), and the `pairs` of a cluster (merge.py)."""

    def __init__(self, dtype: type[cutlass.Numeric], groups: int, in_place: bool = False, pairs: int = 1):
        self.dtype = dtype
        self.layout = make_layout(dtype.width // 8, groups, in_place, pairs)

    @cute.jit
    def __call__(
        self,
        q: cute.Tensor,  # [batch, rows, 576]; rows = query tokens x heads
        kv: cute.Tensor,  # [pages, 64, 576]
        page_table: cute.Tensor,  # [batch, pages_per_request] int32
        out: cute.Tensor,  # [batch, rows, 512]
        lse: cute.Tensor,  # [batch, rows] fp32
        items: cute.Tensor,  # [items, 8] int32: see schedule.py
        pairs: cute.Tensor,  # [pairs, 8] int32: the first item of each, and where its others are
        merges: cute.Tensor,  # [merged requests, 4] int32: request, first partial, partials, 0
        out_partial: cute.Tensor,  # [partials, rows for whole warps, 512] of 16 bits, see partials.py
        lse_partial: cute.Tensor,  # [partials, rows] fp32, base 2
        scale_log2: Float32,  # softmax scale times log2(e)
        heads: Int32,
        hidden_tokens: Int32,  # query tokens - 1 if they are causal among themselves, else 0
        row_warps: Int32,  # of the combine kernel; 0 if no request was split
        reciprocal: Int32,  # this and the next four: an even plan's numbers, see schedule.py; else zeros
        pieces: Int32,
        base: Int32,
        more: Int32,
        length: Int32,
        stream: cuda.CUstream,
    ):
        sizes = self.layout
        boxes = cute.tile_to_shape(
            tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, self.dtype),
            (PAGE, sizes.box, sizes.part_boxes, sizes.slots * sizes.parts),
            order=(0, 1, 2, 3),
        )
        q_source, kv_source = self._source(q, boxes), self._source(kv, boxes)
        box_elements = BOX_BYTES // self.layout.element_bytes
        threads = self.layout.softmax_threads

        @cute.struct
        class SharedStorage:
            q: cute.struct.Align[cute.struct.MemRange[self.dtype, self.layout.q_boxes * box_elements], 1024]
            kv: cute.struct.Align[cute.struct.MemRange[self.dtype, self.layout.p_box * box_elements], 1024]
            p: cute.struct.Align[
                cute.struct.MemRange[self.dtype, self.layout.p_bytes // self.layout.element_bytes], 1024
            ]

        @cute.struct
        class Signals:  # by itself, since a struct ends where its alignment does
            tops: cute.struct.MemRange[Float32, threads]
            mbarriers: cute.struct.MemRange[cutlass.Int64, self.layout.mbarriers]
            tensor_memory: Int32

        self.storage, self.signals, self.partial_dtype = SharedStorage, Signals, out_partial.element_type
        partial = in_pieces(out_partial)
        self.split_kernel(
            *(*q_source, *kv_source, page_table, items, pairs),
            *(*self._store(out), partial, lse, lse_partial),
            *(scale_log2, heads, hidden_tokens, row_warps),
            *(reciprocal, pieces, base, more, length),
            boxes,
        ).launch(
            grid=[CTAS * pairs.shape[0], 1, 1],
            block=[self.layout.threads, 1, 1],
            cluster=[self.layout.ctas, 1, 1],
            stream=stream,
            min_blocks_per_mp=1,
            use_pdl=True,
        )
        Combine(self.dtype, out_partial.element_type)(merges, partial, lse_partial, out, lse, row_warps, stream)

    def _source(self, tensor: cute.Tensor, boxes: cute.ComposedLayout) -> tuple[Any, ...]:
        """The fields of `Source`: loads of 64 rows, of a part of the latent columns and of the rope's."""
        load, box = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.TWO), self.layout.box
        whole = rows_first(tensor)
        in_boxes = cute.make_layout(
            (tensor.shape[1], box, LATENT // box, tensor.shape[0]),
            stride=(WIDTH, 1, box, tensor.stride[0]),
        )
        part, one_box = (cute.slice_(boxes, at) for at in ((None, None, None, 0), (None, None, 0, 0)))
        latent = cute.make_tensor(tensor.iterator, in_boxes)
        return (
            *cpasync.make_tiled_tma_atom(load, latent, part, (CTA_ROWS, box, self.layout.part_boxes)),
            *cpasync.make_tiled_tma_atom(load, whole, one_box, (CTA_ROWS, box)),
        )

    def _store(self, out: cute.Tensor) -> tuple[cute.CopyAtom, cute.Tensor]:
        """TMA stores of 32 rows of 64 bytes, or of 32."""
        kind = out.element_type
        row_bytes = self.layout.store_row_bytes(kind.width // 8)
        width = row_bytes * 8 // kind.width
        swizzle = {64: tcgen05.SmemLayoutAtomKind.K_SW64, 32: tcgen05.SmemLayoutAtomKind.K_SW32}[row_bytes]
        swizzled = tcgen05.make_smem_layout_atom(swizzle, kind)
        box = cute.tile_to_shape(swizzled, (32, width), order=(0, 1))
        return cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), rows_first(out), box, (32, width))

    def _products(self) -> tuple[cute.TiledMma, cute.TiledMma]:
        """Q K^T and P V, by both CTAs of a pair: 128 rows."""
        k_major, mn_major = tcgen05.OperandMajorMode.K, tcgen05.OperandMajorMode.MN
        return tuple(
            sm100.make_trivial_tiled_mma(
                self.dtype, self.dtype, k_major, b_major, Float32, tcgen05.CtaGroup.TWO, (ROWS, n)
            )
            for b_major, n in ((k_major, KEYS), (mn_major, HALF))
        )

    @cute.kernel
    def split_kernel(
        self,
        q_part: cute.CopyAtom,
        q_part_tma: cute.Tensor,
        q_rope: cute.CopyAtom,
        q_rope_tma: cute.Tensor,
        kv_part: cute.CopyAtom,
        kv_part_tma: cute.Tensor,
        kv_rope: cute.CopyAtom,
        kv_rope_tma: cute.Tensor,
        page_table: cute.Tensor,
        items: cute.Tensor,
        pairs: cute.Tensor,
        tma_out: cute.CopyAtom,
        out_tma: cute.Tensor,
        partials: cute.Tensor,
        lse: cute.Tensor,
        lse_partial: cute.Tensor,
        scale_log2: Float32,
        heads: Int32,
        hidden_tokens: Int32,
        row_warps: Int32,
        reciprocal: Int32,
        pieces: Int32,
        base: Int32,
        more: Int32,
        length: Int32,
        boxes: cute.ComposedLayout,
    ):
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        # Not the cluster's own number of the CTA: ptxas takes that for different from lane to lane, and every warp that
        # branches on it for divided, so that each product and load stands in a loop over the lanes.
        rank = cute.arch.block_idx()[0] % CTAS
        pair = cute.arch.block_idx()[0] // CTAS
        pair_of_cluster = pair % self.layout.pairs
        allocator = SmemAllocator()
        storage, signals = allocator.allocate(self.storage), allocator.allocate(self.signals)
        mbarriers = signals.mbarriers.data_ptr()

        if warp == self.layout.load_warp:  # else their first use waits for them
            for atom in (q_part, q_rope, kv_part, kv_rope, tma_out):
                cpasync.prefetch_descriptor(atom)
        if warp == 0:
            self._initialise(mbarriers)
        cute.arch.cluster_arrive_relaxed()
        # Not before: ptxas moves what is loaded into uniform registers at once, and waits for it there.
        first, first_item, end_item = self._first(pairs, pair, pair_of_cluster, reciprocal, pieces, base, more, length)
        if warp == self.layout.product_warp:  # the warp that loads need not wait for this
            cute.arch.alloc_tmem(TENSOR_MEMORY_COLUMNS, signals.tensor_memory.ptr, is_two_cta=True)
            cute.arch.relinquish_tmem_alloc_permit(is_two_cta=True)
        cute.arch.cluster_wait()

        if row_warps == 0:
            # No combine kernel follows: the next kernel's CTAs may come as soon as ours go, and wait for the last of
            # them in griddepcontrol_wait. (Combine's would crowd the idle SMs: they are let in at the end.)
            cute.arch.griddepcontrol_launch_dependents()
        work = (items, first_item, end_item)
        if warp == self.layout.load_warp:
            kind = InPlaceLoader if self.layout.in_place else Loader
            loader = kind(
                self.layout,
                Source(q_part, q_part_tma, q_rope, q_rope_tma),
                Source(kv_part, kv_part_tma, kv_rope, kv_rope_tma),
                *self._targets(storage, boxes),
                page_table,
                rank,
                mbarriers,
            )
            loader.run(*work, first)
        elif warp == self.layout.product_warp:
            tensor_memory = self._tensor_memory(signals)
            if rank == 0:
                self._multiplier(storage, tensor_memory, mbarriers, pair_of_cluster).run(*work)
        else:
            tensor_memory = self._tensor_memory(signals)
            threads = self.layout.softmax_threads
            softmax = Softmax(
                layout=self.layout,
                dtype=self.dtype,
                partial_dtype=self.partial_dtype,
                thread=cute.arch.thread_idx()[0],
                rank=rank,
                pair=pair_of_cluster,
                tensor_memory=tensor_memory,
                slots=storage.kv.data_ptr(),
                shared=signals.tops.get_tensor(cute.make_layout(threads)),
                mbarriers=mbarriers,
                received=cute.recast_ptr(storage.q.data_ptr(), dtype=Int32),
                scale_log2=scale_log2,
                tma_out=(tma_out, out_tma),
                partials=partials,
            )
            softmax.run(*work, heads, hidden_tokens, (lse, lse_partial))

        # Both CTAs give tensor memory back together, once all threads have read what is theirs: softmax warps arrive
        # before they store it, and the one that loads once it has asked for all. Relaxed: what a CTA does in another's
        # shared memory is waited for there, each store, arrival and commit, on an mbarrier.
        if warp == self.layout.product_warp:
            cute.arch.cluster_arrive_relaxed()
        cute.arch.cluster_wait()
        if warp == self.layout.product_warp:
            after_thread_sync()
            tensor_memory = cute.arch.retrieve_tmem_ptr(Float32, 16, signals.tensor_memory.ptr)
            cute.arch.dealloc_tmem(tensor_memory, TENSOR_MEMORY_COLUMNS, is_two_cta=True)

    @cute.jit
    def _first(
        self,
        pairs: cute.Tensor,
        pair: Int32,
        pair_of_cluster: Int32,
        reciprocal: Int32,
        pieces: Int32,
        base: Int32,
        more: Int32,
        length: Int32,
    ) -> tuple[tuple[Int32, ...], Int32, Int32]:
        """A pair's first item (request, row block, begin, end, length), and which items are its own.

        Of an even plan they are worked out; the table comes from DRAM, a microsecond behind a lone call's start.
        """
        worker = pair // self.layout.pairs
        request = (worker * reciprocal) >> SHIFT
        piece = worker - request * pieces
        row_block = Int32(0)
        begin = piece * base + cutlass.min(piece, more)
        end = begin + base + Int32(select_(piece < more, 1, 0))
        if cutlass.const_expr(self.layout.pairs > 1):  # as schedule.py shares a piece among the pairs
            count, tiles = self.layout.pairs, cutlass.max((length + KEYS - 1) // KEYS, 1)
            origin = count * begin
            shared = cutlass.max(cutlass.min(count * end, tiles) - origin, count)
            begin = origin + shared * pair_of_cluster // count
            end = origin + shared * (pair_of_cluster + 1) // count
        first_item, end_item = pair, pair + 1
        if reciprocal == 0:
            row = cute.make_rmem_tensor((ITEM_COLUMNS,), Int32)
            cute.autovec_copy(pairs[pair, None], row)
            request, row_block, length = row[REQUEST], row[ROW_BLOCK], row[LENGTH]
            begin, end = row[BEGIN], row[END]
            first_item, end_item = row[FIRST_ITEM], row[END_ITEM]
        return (request, row_block, begin, end, length), first_item, end_item

    def _tensor_memory(self, signals: Any) -> cute.Pointer:
        """Where it begins, once it has been allocated: for the warps that use it, which meet here."""
        before_thread_sync()
        cute.arch.barrier(barrier_id=ALLOCATED, number_of_threads=self.layout.softmax_threads + WARP_LANES)
        after_thread_sync()
        return cute.arch.retrieve_tmem_ptr(Float32, 16, signals.tensor_memory.ptr)

    def _initialise(self, mbarriers: cute.Pointer) -> None:
        """All are signalled once a phase, by expected bytes or a commit, but P by every softmax warp of the pair.

        Where pairs merge, what they have received lies in Q's memory, and has to be read before that is free, too.
        """
        warps = CTAS * self.layout.softmax_threads // WARP_LANES
        counts = {self.layout.p_full: warps} | ({self.layout.p_last: warps} if self.layout.moves else {})
        if self.layout.pairs > 1:
            counts |= {self.layout.q_empty: 2, self.layout.room: self.layout.pairs - 1}
        with cute.arch.elect_one():
            for number in range(self.layout.mbarriers):
                cute.arch.mbarrier_init(mbarriers + number, counts.get(number, 1))
        cute.arch.mbarrier_init_fence()

    def _targets(self, storage: Any, boxes: cute.ComposedLayout) -> tuple[cute.Tensor, ...]:
        """Shared memory as the loads fill it: Q's parts and rope, the parts and the ropes of all slots."""
        sizes, element_bytes = self.layout, self.layout.element_bytes
        one_box, parts = (cute.select(boxes, mode=modes) for modes in ([0, 1], [0, 1, 2]))

        def view(first: cute.Pointer, box: int, layout: Any, *more: cute.Layout) -> cute.Tensor:
            start = cute.recast_ptr(first + box * BOX_BYTES // element_bytes, layout.inner, dtype=self.dtype)
            return cute.make_tensor(start, functools.reduce(cute.append, more, layout.outer))

        per_part = cute.make_layout(sizes.key_parts, stride=sizes.part_boxes * BOX_BYTES // element_bytes)
        per_slot = cute.make_layout(sizes.slots, stride=BOX_BYTES // element_bytes)
        q, kv = storage.q.data_ptr(), storage.kv.data_ptr()
        return (
            view(q, 0, parts, per_part),
            view(q, sizes.boxes - 1, one_box),
            storage.kv.get_tensor(boxes.outer, swizzle=boxes.inner),
            view(kv, sizes.kv_boxes, one_box, per_slot),
        )

    def _multiplier(
        self, storage: Any, tensor_memory: cute.Pointer, mbarriers: cute.Pointer, pair: Int32
    ) -> Multiplier:
        """Shared memory as the products read it, as descriptors."""
        qk, pv = self._products()
        sizes = self.layout
        tile_qk, units = (ROWS, KEYS, sizes.box), sizes.part_units * sizes.parts * sizes.slots
        shared = (
            (storage.q, sm100.make_smem_layout_a(qk, tile_qk, self.dtype, sizes.boxes)),
            (storage.kv, sm100.make_smem_layout_b(qk, tile_qk, self.dtype, sizes.p_box)),
            (storage.p, sm100.make_smem_layout_a(pv, (ROWS, HALF, sizes.box), self.dtype, sizes.p_boxes)),
            (storage.kv, sm100.make_smem_layout_b(pv, (ROWS, HALF, PAGE), self.dtype, units)),
        )
        sQ, sK, sP, sV = (memory.get_tensor(view.outer, swizzle=view.inner) for memory, view in shared)
        scores = qk.make_fragment_C(qk.partition_shape_C((ROWS, KEYS)))
        values = pv.make_fragment_C(pv.partition_shape_C((ROWS, HALF)))
        return Multiplier(
            layout=sizes,
            make_products=self._products,
            q=qk.make_fragment_A(sQ),
            k=qk.make_fragment_B(sK),
            p=pv.make_fragment_A(sP),
            v=pv.make_fragment_B(sV),
            scores=cute.make_tensor(tensor_memory, scores.layout),
            out=cute.make_tensor(tensor_memory + OUT_COLUMN, values.layout),
            mbarriers=mbarriers,
            ctas=BOTH if sizes.pairs == 1 else cutlass.Int16(BOTH << CTAS * pair),
        )


def rows_first(tensor: cute.Tensor) -> cute.Tensor:
    """[outer, rows, columns] as (rows, columns, outer), as TMA tiles are cut."""
    return cute.make_tensor(tensor.iterator, cute.select(tensor.layout, mode=[1, 2, 0]))
