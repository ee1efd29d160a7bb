"""Device code of the kernel `cute_sm100`, MLA decode for Blackwell, phases in order.

A CTA pair owns 128 query rows (heads of one request, query tokens packed behind each other), 64 in each CTA, and walks
over a range of tiles of 128 keys. Roles of warps:

    4 or 8 softmax  S from tensor memory, P to shared memory, O rescaled where a maximum grew, O stored
    1 load          TMA loads of Q, K and V
    1 MMA           issues tcgen05.mma, in the pair's leader alone

    tensor cores:  S0   S1   P0 V0   S2   P1 V1   S3   P2 V2 ...
    softmax:            P0           P1           P2

Why pairs: fp32 O of 128 x 512 is all of an SM's tensor memory, so 128 rows of one request need two SMs, and a product
by a pair keeps the tensor cores busy with 64 rows each. Each CTA of a pair holds half of the second operand: a page of
K for S, 256 of the 512 columns of V for O. So K and V are loaded separately: 72 KB of K and 64 KB of V a tile and CTA,
in parts of 16 KB (sizes.py).

With `in_place`, V is loaded over K. Of page p, CTA p already has the V that it multiplies, columns 256 p and up of its
K. The other CTA loads its own columns of that page over K that it does not multiply as V. So a CTA loads 576 columns of
one page and 256 of the other, not 576 of one and 256 of both:

    parts of a stage                 0                            1
    K of page p in CTA p             columns 0 to 255             256 to 511
    V then in CTA 0                  page 0, columns 0 to 255     page 1, 0 to 255
    V then in CTA 1                  page 0, columns 256 to 511   page 1, 256 to 511

With `pairs` of a cluster, these split a request's keys and merge through distributed shared memory: each pair stores a
block of O's columns, and receives those columns from the others where Q was.

Shared memory of a CTA with 16-bit elements (232,448 bytes at most); tensor memory: 2 x 64 columns of S, 256 of O:

    Q             9 boxes of  8,192 bytes    73,728
    a stage       8 parts of 16,384 bytes   131,072
    its rope                                  8,192
    P             2 boxes of  8,192 bytes    16,384
    exchange        256 fp32                  1,024
    mbarriers    28 x 8 bytes                   224
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import cutlass.utils.blackwell_helpers as sm100
from cutlass import Float32, Int32
from cutlass._mlir.dialects import nvvm
from cutlass.cute.nvgpu import cpasync, tcgen05
from cutlass.cutlass_dsl import select_
from cutlass.utils import SmemAllocator

from kernels.mla_decode.cute_sm100.combine import Combine, tile_partials
from kernels.mla_decode.cute_sm100.sizes import (
    BEGIN,
    BOX_BYTES,
    BOX_MMAS,
    CHUNK,
    CTA_ROWS,
    END,
    END_WORK,
    FIRST_WORK,
    LATENT,
    LENGTH,
    LN_2,
    NO_MAX,
    O_COLUMN,
    O_COLUMNS,
    PAGE,
    PAIR_CTAS,
    PARTIAL,
    PV_COLUMNS,
    RECIPROCAL_BITS,
    REQUEST,
    ROW_BLOCK,
    S_COLUMNS,
    S_STAGES,
    STORE_BYTES,
    SWIZZLE_BYTES,
    TILE_KEYS,
    TILE_ROWS,
    TMEM_COLUMNS,
    TMEM_LANE_STRIDE,
    TMEM_LANES,
    VECTOR,
    WARP,
    WARPGROUP,
    WIDTH,
    WORK_COLUMNS,
    Mbarriers,
    Role,
    Sizes,
    make_sizes,
)
from kernels.tcgen05.fence import after_thread_sync, before_thread_sync

WIDE = 2 * CHUNK  # columns of a partial result that a thread converts at once with `fine_grained`
TILES_AHEAD = WARP // 2  # tiles whose page numbers one register of a warp holds
FEW_TILES = 2  # of a work tile; with more, V before K, since DRAM then limits more than the wait for the last keys
PAIR_MASK = (1 << PAIR_CTAS) - 1  # mutant: commit mask

Pages = tuple[Int32, Int32]  # numbers in the cache of a tile's two pages
PageEntries = tuple[Int32, Int32]  # page numbers of TILES_AHEAD tiles each, spread over the lanes, alternating


# -- synchronisation ---------------------------------------------------------------------------------------------------


class NamedBarrier(enum.IntEnum):
    """Ids of named barriers."""

    EVEN_WARPS = 1  # softmax warps with rows 0 to 31
    ODD_WARPS = 2  # softmax warps with rows 32 to 63
    SOFTMAX = 3  # all softmax warps
    TMEM = 4  # warps that use tensor memory, after its allocation

    def sync(self, threads: int) -> None:
        cute.arch.barrier(barrier_id=int(self), number_of_threads=threads)


@dataclass(frozen=True)
class Mbarrier:
    """An array of mbarriers in this CTA, from number `first` on."""

    base: cute.Pointer
    first: Any

    def __getitem__(self, n: Any) -> Mbarrier:
        return Mbarrier(self.base, self.first + n)

    @property
    def address(self) -> cute.Pointer:
        return self.base + self.first

    def unless(self, condition: Any, other: Mbarrier) -> Mbarrier:
        """Return this array, or `other` if `condition` holds."""
        return Mbarrier(self.base, Int32(select_(condition, other.first, self.first)))

    def wait(self, phase: Any) -> None:
        cute.arch.mbarrier_wait(self.address, phase)

    def wait_tile(self, count: Any) -> None:
        """Wait for tile `count`, if each tile has one phase; for tile -1 at once."""
        address = self.address
        cute.arch.mbarrier_wait(address, count & 1)

    def expect(self, size: Any) -> None:
        """Arrive, and expect `size` bytes."""
        cute.arch.mbarrier_arrive_and_expect_tx(self.address, size)

    def commit(self, ctas: Any) -> None:
        """Arrive in the CTAs of a mask once all products issued so far are done."""
        with cute.arch.elect_one():
            tcgen05.commit(self.address, ctas, tcgen05.CtaGroup.TWO)

    def arrive(self, cta: Any = None) -> None:
        """Arrive in this CTA, or in another one of the cluster."""
        scope = {} if cta is None else {"peer_cta_rank_in_cluster": cta, "scope": nvvm.MemScopeKind.CLUSTER}
        cute.arch.mbarrier_arrive(self.address, **scope)


@dataclass(frozen=True)
class State:
    """The stage of a tile in a pipeline, and its full phase."""

    stage: Any
    phase: Any


@dataclass(frozen=True)
class FullEmpty:
    """Full and empty mbarriers of a pipeline, loaded and released by parts of a stage."""

    full: Mbarrier
    empty: Mbarrier
    stages: int
    full_parts: int
    empty_parts: int

    def state(self, count: Any) -> State:
        """Return where tile `count` is."""
        return State(count % self.stages, count // self.stages % 2)

    def wait_full(self, state: State, part: Any) -> None:
        self.full[self.full_parts * state.stage][part].wait(state.phase)

    def wait_empty(self, count: Any, part: Any) -> None:
        """Wait until the products have read what had the stage of tile `count` before it."""
        stage, phase = count % self.stages, (count // self.stages + 1) % 2
        cute.arch.mbarrier_wait(self.empty.address + self.empty_parts * stage + part, phase)

    def release(self, state: State, part: Any, ctas: Any) -> None:
        self.empty[self.empty_parts * state.stage][part].commit(ctas)


@dataclass(frozen=True)
class Barriers:
    """The mbarriers of a CTA; fields without a use in the variant are None."""

    arrays: dict[str, Mbarriers]
    base: cute.Pointer
    q_full: Mbarrier  # by part with `fine_grained`
    q_empty: Mbarrier
    k: FullEmpty
    v: FullEmpty
    s_full: Mbarrier
    p_full: Mbarrier
    o_full: Mbarrier
    p_last: Mbarrier | None = None  # P of a CTA's last tile, as the next two
    o_half: Mbarrier | None = None  # half of the columns of O
    o_last: Mbarrier | None = None
    merge_empty: Mbarrier | None = None  # all other pairs are ready to receive
    merge_lse_full: Mbarrier | None = None
    merge_full: Mbarrier | None = None  # by chunk of a block and warpgroup

    @classmethod
    def of(cls, sizes: Sizes, base: cute.Pointer) -> Barriers:
        arrays = sizes.mbarriers
        barriers = {name: Mbarrier(base, array.first) for name, array in arrays.items()}
        k_full, v_full, kv_empty = (barriers.pop(name) for name in ("k_full", "v_full", "kv_empty"))
        k = FullEmpty(k_full, kv_empty, sizes.stages, sizes.k_parts, sizes.stage_parts)
        v = FullEmpty(v_full, kv_empty, sizes.stages, sizes.v_parts, sizes.stage_parts)
        return cls(arrays, base, k=k, v=v, **barriers)

    def initialise(self) -> None:
        with cute.arch.elect_one():
            for array in self.arrays.values():
                for number in range(array.first, array.first + array.length):
                    cute.arch.mbarrier_init(self.base + number, array.arrivals)
        cute.arch.mbarrier_init_fence()


# -- arguments ---------------------------------------------------------------------------------------------------------


class TmaLoad(NamedTuple):
    """TMA loads of 64 rows of Q or the cache."""

    part: cute.CopyAtom  # of a part of the latent columns
    mPart: cute.Tensor  # coordinates (rows, columns of a box, boxes, outer)
    rope: cute.CopyAtom  # of the rope columns
    mRope: cute.Tensor  # coordinates (rows, 576, outer)

    def __str__(self) -> str:
        """Return what the kernel's symbol says of this argument."""
        return "_".join(map(str, self))


class Params(NamedTuple):
    """Arguments of the split kernel besides its TMA loads."""

    mPageTable: cute.Tensor  # [batch, pages of a request] int32
    mWork: cute.Tensor  # [work tiles, 8] int32, see schedule.py
    mPairs: cute.Tensor  # [pairs, 8] int32: the first work tile of each, and the range of its work tiles
    tma_o: cute.CopyAtom  # stores 32 rows
    mO: cute.Tensor  # coordinates (rows, 512, batch)
    mOPartial: cute.Tensor  # (8, 32, 64, rows / 32, partials), see tile_partials
    mLse: cute.Tensor  # [batch, rows] fp32, natural
    mLsePartial: cute.Tensor  # [partials, rows] fp32, base 2
    scale_log2: Float32  # softmax scale times log2(e)
    heads: Int32
    hidden_tokens: Int32  # query tokens - 1 if causal among themselves, else 0
    row_warps: Int32  # of the combine kernel; 0 if no request is split
    reciprocal: Int32  # this and the next four: a uniform schedule, see schedule.py; else 0
    splits: Int32
    base: Int32
    longer: Int32
    length: Int32


class WorkTile(NamedTuple):
    """A range of tiles of one request, for one block of 128 query rows."""

    request: Int32
    row_block: Int32
    begin: Int32
    end: Int32
    length: Int32  # tokens of the request


# -- launch ------------------------------------------------------------------------------------------------------------


class MlaDecodeSm100:
    """MLA decode; compile-time choices: `Sizes` and `dtype` (BFloat16, Float16, Float8E4M3FN)."""

    def __init__(self, dtype: type[cutlass.Numeric], groups: int, in_place: bool = False, pairs: int = 1):
        self.dtype = dtype
        self.sizes = make_sizes(dtype.width // 8, groups, in_place, pairs)

    @cute.jit
    def __call__(
        self,
        mQ: cute.Tensor,  # [batch, rows, 576]; rows = query tokens x heads
        mKV: cute.Tensor,  # [pages, 64, 576]
        mPageTable: cute.Tensor,
        mO: cute.Tensor,  # [batch, rows, 512]
        mLse: cute.Tensor,
        mWork: cute.Tensor,
        mPairs: cute.Tensor,
        mMerges: cute.Tensor,  # [merged requests, 4] int32: request, first partial, partials, 0
        mOPartial: cute.Tensor,  # [partials, rows for whole warps, 512] of 16 bits
        mLsePartial: cute.Tensor,
        scale_log2: Float32,
        heads: Int32,
        hidden_tokens: Int32,
        row_warps: Int32,
        reciprocal: Int32,
        splits: Int32,
        base: Int32,
        longer: Int32,
        length: Int32,
        stream: cuda.CUstream,
    ):
        """Launch the split and, for split requests, the combine kernel; shapes: `Params`."""
        sizes = self.sizes
        boxes = cute.tile_to_shape(
            tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, self.dtype),
            (PAGE, sizes.box_columns, sizes.part_boxes, sizes.stages * sizes.stage_parts),
            order=(0, 1, 2, 3),
        )
        tma_q, tma_kv = self._tma_load(mQ, boxes), self._tma_load(mKV, boxes)
        box_elements = BOX_BYTES // sizes.element_bytes

        @cute.struct
        class SharedStorage:
            q: cute.struct.Align[cute.struct.MemRange[self.dtype, sizes.q_boxes * box_elements], 1024]
            kv: cute.struct.Align[cute.struct.MemRange[self.dtype, sizes.p_box * box_elements], 1024]
            p: cute.struct.Align[cute.struct.MemRange[self.dtype, sizes.p_bytes // sizes.element_bytes], 1024]

        @cute.struct
        class SharedSignals:  # a struct of its own, since a struct is padded to its alignment
            exchange: cute.struct.MemRange[Float32, sizes.softmax_threads]
            mbarriers: cute.struct.MemRange[cutlass.Int64, sizes.mbarrier_count]
            tensor_memory: Int32

        self.storage, self.signals, self.partial_dtype = SharedStorage, SharedSignals, mOPartial.element_type
        tiled_partial = tile_partials(mOPartial)
        params = Params(
            *(mPageTable, mWork, mPairs, *self._tma_store(mO), tiled_partial, mLse, mLsePartial),
            *(scale_log2, heads, hidden_tokens, row_warps, reciprocal, splits, base, longer, length),
        )
        self.split_kernel(tma_q, tma_kv, params, boxes).launch(
            grid=[PAIR_CTAS * mPairs.shape[0], 1, 1],
            block=[sizes.threads, 1, 1],
            cluster=[sizes.cluster_ctas, 1, 1],
            stream=stream,
            min_blocks_per_mp=1,
            use_pdl=True,
        )
        combine = Combine(self.dtype, mOPartial.element_type)
        combine(mMerges, tiled_partial, mLsePartial, mO, mLse, row_warps, stream)

    def _tma_load(self, mX: cute.Tensor, boxes: cute.ComposedLayout) -> TmaLoad:
        load, box = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.TWO), self.sizes.box_columns
        whole = rows_first(mX)
        in_boxes = cute.make_layout(
            (mX.shape[1], box, LATENT // box, mX.shape[0]), stride=(WIDTH, 1, box, mX.stride[0])
        )
        part, one_box = (cute.slice_(boxes, at) for at in ((None, None, None, 0), (None, None, 0, 0)))
        latent = cute.make_tensor(mX.iterator, in_boxes)
        return TmaLoad(
            *cpasync.make_tiled_tma_atom(load, latent, part, (CTA_ROWS, box, self.sizes.part_boxes)),
            *cpasync.make_tiled_tma_atom(load, whole, one_box, (CTA_ROWS, box)),
        )

    def _tma_store(self, mO: cute.Tensor) -> tuple[cute.CopyAtom, cute.Tensor]:
        """Make TMA stores of 32 rows of 64 or 32 bytes."""
        kind = mO.element_type
        row_bytes = self.sizes.store_row_bytes(kind.width // 8)
        width = row_bytes * 8 // kind.width
        swizzle = {64: tcgen05.SmemLayoutAtomKind.K_SW64, 32: tcgen05.SmemLayoutAtomKind.K_SW32}[row_bytes]
        swizzled = tcgen05.make_smem_layout_atom(swizzle, kind)
        box = cute.tile_to_shape(swizzled, (WARP, width), order=(0, 1))
        return cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), rows_first(mO), box, (WARP, width))

    def _tiled_mmas(self) -> tuple[cute.TiledMma, cute.TiledMma]:
        """Make Q K^T and P V of 128 rows by a CTA pair."""
        k_major, mn_major = tcgen05.OperandMajorMode.K, tcgen05.OperandMajorMode.MN
        return tuple(
            sm100.make_trivial_tiled_mma(
                self.dtype, self.dtype, k_major, b_major, Float32, tcgen05.CtaGroup.TWO, (TILE_ROWS, n)
            )
            for b_major, n in ((k_major, TILE_KEYS), (mn_major, PV_COLUMNS))
        )

    # -- the split kernel: set-up, roles, end ---------------------------------------------------------------------

    @cute.kernel
    def split_kernel(self, tma_q: TmaLoad, tma_kv: TmaLoad, params: Params, boxes: cute.ComposedLayout):
        """Compute O, or partial results, of each pair's work tiles."""
        sizes = self.sizes
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        load_warp, mma_warp = sizes.first_warp(Role.LOAD), sizes.first_warp(Role.MMA)
        # Not the CTA's rank in its cluster: ptxas takes that for divergent, and puts each product and load that depends
        # on it into a loop over the lanes.
        rank = cute.arch.block_idx()[0] % PAIR_CTAS
        pair = cute.arch.block_idx()[0] // PAIR_CTAS
        pair_of_cluster = pair % sizes.pairs
        allocator = SmemAllocator()
        storage, signals = allocator.allocate(self.storage), allocator.allocate(self.signals)
        barriers = Barriers.of(sizes, signals.mbarriers.data_ptr())

        if warp == load_warp:  # else their first use waits for them
            for atom in (tma_q.part, tma_q.rope, tma_kv.part, tma_kv.rope, params.tma_o):
                cpasync.prefetch_descriptor(atom)
        if warp == 0:
            barriers.initialise()
        cute.arch.cluster_arrive_relaxed()
        # Not before: ptxas moves what is loaded into uniform registers at once, and waits for it there.
        first, first_work, end_work = self._first_work(params, pair, pair_of_cluster)
        cute.arch.cluster_wait()  # mutant: set-up

        if params.row_warps == 0:
            # No combine kernel follows: CTAs of the next kernel may start once this one's end, and wait for the last of
            # them in griddepcontrol_wait. (The combine kernel would crowd the idle SMs: it starts at the end.)
            cute.arch.griddepcontrol_launch_dependents()
        if warp == load_warp:
            targets = self._load_targets(storage, boxes)
            load = Load(sizes, tma_q, tma_kv, *targets, params.mPageTable, params.mWork, rank, barriers)
            load.run(first_work, end_work, first)
        elif warp == mma_warp:
            # Behind the cluster barrier, since an alloc for a pair needs both CTAs to run (PTX ISA 9.7.16.7.1).
            cute.arch.alloc_tmem(TMEM_COLUMNS, signals.tensor_memory.ptr, is_two_cta=True)
            cute.arch.relinquish_tmem_alloc_permit(is_two_cta=True)
            tmem = self._tensor_memory(signals)
            if rank == 0:
                self._mma(storage, tmem, barriers, pair_of_cluster).run(params.mWork, first_work, end_work)
        else:
            tmem = self._tensor_memory(signals)
            thread, sStages = cute.arch.thread_idx()[0], storage.kv.data_ptr()
            own = SoftmaxThread(
                *(sizes, barriers, thread, rank, pair_of_cluster),
                *(thread % CTA_ROWS, thread // CTA_ROWS % 2, thread // WARPGROUP),
                tmem,
                signals.exchange.get_tensor(cute.make_layout(sizes.softmax_threads)),
            )
            sReceived = cute.recast_ptr(storage.q.data_ptr(), dtype=Int32)
            merge = InKernelMerge(own, self.partial_dtype, sReceived) if sizes.pairs > 1 else None
            epilogue = Epilogue(own, self.dtype, self.partial_dtype, sStages, params, merge)
            Softmax(own, self.dtype, sStages, params, epilogue).run(first_work, end_work)

        # Both CTAs free tensor memory together, once all threads have read theirs: softmax warps arrive before their
        # last stores, the load warp after its last load. Relaxed: all that a CTA does in the other's shared memory
        # (stores, arrivals, commits) is waited for there on an mbarrier.
        if warp == mma_warp:
            cute.arch.cluster_arrive_relaxed()
        cute.arch.cluster_wait()  # mutant: tmem freed early
        if warp == mma_warp:
            after_thread_sync()
            tmem = cute.arch.retrieve_tmem_ptr(Float32, 16, signals.tensor_memory.ptr)
            cute.arch.dealloc_tmem(tmem, TMEM_COLUMNS, is_two_cta=True)  # mutant: dealloc

    @cute.jit
    def _first_work(self, params: Params, pair: Int32, pair_of_cluster: Int32) -> tuple[WorkTile, Int32, Int32]:
        """Return a pair's first work tile, and the range of its work tiles.

        A uniform schedule is computed here; its table comes from DRAM, a microsecond after a cold start.
        """
        worker = pair // self.sizes.pairs
        request = (worker * params.reciprocal) >> RECIPROCAL_BITS
        split = worker - request * params.splits
        row_block = Int32(0)
        begin = split * params.base + cutlass.min(split, params.longer)  # mutant: uniform begin
        end = begin + params.base + Int32(select_(split < params.longer, 1, 0))  # mutant: uniform end
        length = params.length
        if cutlass.const_expr(self.sizes.pairs > 1):  # as `_share` of schedule.py
            count, tiles = self.sizes.pairs, cutlass.max((length + TILE_KEYS - 1) // TILE_KEYS, 1)
            origin = count * begin
            shared = cutlass.max(cutlass.min(count * end, tiles) - origin, count)
            begin = origin + shared * pair_of_cluster // count
            end = origin + shared * (pair_of_cluster + 1) // count  # mutant: uniform share
        first_work, end_work = pair, pair + 1
        if params.reciprocal == 0:
            row = cute.make_rmem_tensor((WORK_COLUMNS,), Int32)
            cute.autovec_copy(params.mPairs[pair, None], row)
            request, row_block, length = row[REQUEST], row[ROW_BLOCK], row[LENGTH]
            begin, end = row[BEGIN], row[END]
            first_work, end_work = row[FIRST_WORK], row[END_WORK]
        return WorkTile(request, row_block, begin, end, length), first_work, end_work

    def _tensor_memory(self, signals: Any) -> cute.Pointer:
        """Return the start of tensor memory, once the warps that use it have met."""
        before_thread_sync()
        NamedBarrier.TMEM.sync(self.sizes.softmax_threads + WARP)  # mutant: tmem allocated
        after_thread_sync()
        return cute.arch.retrieve_tmem_ptr(Float32, 16, signals.tensor_memory.ptr)

    def _load_targets(self, storage: Any, boxes: cute.ComposedLayout) -> tuple[cute.Tensor, ...]:
        """Shared memory as TMA fills it: sQ, sQRope, sKV, sKRope."""
        sizes, element_bytes = self.sizes, self.sizes.element_bytes
        one_box, parts = (cute.select(boxes, mode=modes) for modes in ([0, 1], [0, 1, 2]))

        def view(first: cute.Pointer, box: int, layout: Any, *more: cute.Layout) -> cute.Tensor:
            start = cute.recast_ptr(first + box * BOX_BYTES // element_bytes, layout.inner, dtype=self.dtype)
            return cute.make_tensor(start, functools.reduce(cute.append, more, layout.outer))

        per_part = cute.make_layout(sizes.k_parts, stride=sizes.part_boxes * BOX_BYTES // element_bytes)
        per_stage = cute.make_layout(sizes.stages, stride=BOX_BYTES // element_bytes)
        q, kv = storage.q.data_ptr(), storage.kv.data_ptr()
        return (
            view(q, 0, parts, per_part),
            view(q, sizes.row_boxes - 1, one_box),
            storage.kv.get_tensor(boxes.outer, swizzle=boxes.inner),
            view(kv, sizes.kv_boxes, one_box, per_stage),
        )

    def _mma(self, storage: Any, tmem: cute.Pointer, barriers: Barriers, pair_of_cluster: Int32) -> Mma:
        qk, pv = self._tiled_mmas()
        sizes = self.sizes
        qk_tile, pv_tile = (TILE_ROWS, TILE_KEYS, sizes.box_columns), (TILE_ROWS, PV_COLUMNS, sizes.box_columns)
        pv_blocks = sizes.part_pv_blocks * sizes.stage_parts * sizes.stages
        shared = (
            (storage.q, sm100.make_smem_layout_a(qk, qk_tile, self.dtype, sizes.row_boxes)),
            (storage.kv, sm100.make_smem_layout_b(qk, qk_tile, self.dtype, sizes.p_box)),
            (storage.p, sm100.make_smem_layout_a(pv, pv_tile, self.dtype, sizes.p_boxes)),
            (storage.kv, sm100.make_smem_layout_b(pv, (TILE_ROWS, PV_COLUMNS, PAGE), self.dtype, pv_blocks)),
        )
        sQ, sK, sP, sV = (memory.get_tensor(view.outer, swizzle=view.inner) for memory, view in shared)
        tStS = qk.make_fragment_C(qk.partition_shape_C((TILE_ROWS, TILE_KEYS)))
        tOtO = pv.make_fragment_C(pv.partition_shape_C((TILE_ROWS, PV_COLUMNS)))
        return Mma(
            sizes=sizes,
            tiled_mmas=self._tiled_mmas,
            tSrQ=qk.make_fragment_A(sQ),
            tSrK=qk.make_fragment_B(sK),
            tOrP=pv.make_fragment_A(sP),
            tOrV=pv.make_fragment_B(sV),
            tStS=cute.make_tensor(tmem, tStS.layout),
            tOtO=cute.make_tensor(tmem + O_COLUMN, tOtO.layout),
            barriers=barriers,
            pair_mask=pair_mask(sizes, pair_of_cluster),
        )


def pair_mask(sizes: Sizes, pair: Int32) -> Any:
    """CTAs of a pair, as a mask over the cluster."""
    if sizes.pairs == 1:
        return PAIR_MASK
    return cutlass.Int16(PAIR_MASK << PAIR_CTAS * pair)  # mutant: commit pair


def rows_first(mX: cute.Tensor) -> cute.Tensor:
    """View [outer, rows, columns] as (rows, columns, outer), as TMA tiles are cut."""
    return cute.make_tensor(mX.iterator, cute.select(mX.layout, mode=[1, 2, 0]))


# -- load warp ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """The load warp of a CTA.

    It loads K of this CTA's page of a tile, and V of both pages in this CTA's columns. Every copy signals the mbarrier
    of the pair's leader, which expects the bytes of both CTAs.
    """

    sizes: Sizes
    tma_q: TmaLoad
    tma_kv: TmaLoad
    sQ: cute.Tensor  # (64, box, boxes of a part, parts)
    sQRope: cute.Tensor  # (64, box)
    sKV: cute.Tensor  # (64, box, boxes of a part, parts of all stages)
    sKRope: cute.Tensor  # (64, box, stages)
    mPageTable: cute.Tensor
    mWork: cute.Tensor
    rank: Int32  # of this CTA in its pair
    barriers: Barriers

    @cute.jit
    def run(self, first_work: Int32, end_work: Int32, first: WorkTile) -> None:
        """Load all work tiles, each part as soon as its buffer is empty."""
        count, q_phase = Int32(0), Int32(1)  # a wait for phase 1 of a new mbarrier passes
        moved = Int32(0)  # tiles whose V went over K: the last one, if any
        next_request, next_block, next_begin, next_end, next_length = first
        # All before this overlaps the kernel before this one in the stream. Its results are read from here on, and the
        # other warps write nothing before they have something that is loaded here.
        cute.arch.griddepcontrol_wait()
        for number in cutlass.range(first_work, end_work, unroll=1):
            work = WorkTile(next_request, next_block, next_begin, next_end, next_length)
            entries = (
                self.page_entries(work.request, work.begin, work.length),
                self.page_entries(work.request, work.begin + TILES_AHEAD, work.length),
            )
            # One column a lane, as the page numbers, and before Q is waited for: the first keys need not wait for it.
            following = self.mWork[cutlass.min(number + 1, end_work - 1), cute.arch.lane_idx() % WORK_COLUMNS]
            self.load_q(work.request, work.row_block, q_phase)
            q_phase ^= 1
            is_last = number + 1 == end_work
            moved = Int32(select_(is_last & (work.end - work.begin > 1), 1, 0))
            if cutlass.const_expr(self.sizes.in_place):
                self.load_tiles_in_place(work, count, entries)
            else:
                self.load_tiles(work, count, entries, is_last)
            count += work.end - work.begin
            next_request, next_block, next_begin, next_end, next_length = (
                cute.arch.shuffle_sync(following, column) for column in (REQUEST, ROW_BLOCK, BEGIN, END, LENGTH)
            )
        cute.arch.cluster_arrive_relaxed()  # see split_kernel
        # The pair's products still release stages in this CTA, which must not end before.
        if cutlass.const_expr(self.sizes.overlaps_last):  # the last V was released where K is
            tiles = count - Int32(select_(first_work < end_work, 1, 0))  # that o_full is signalled for
            self.barriers.o_full.wait_tile(tiles - 1)
            for part in cutlass.range_constexpr(self.sizes.stage_parts):
                released = count + moved if part < self.sizes.k_parts else count - moved
                self.barriers.k.wait_empty(released, part)  # mutant: exit
        else:
            for _ in cutlass.range_constexpr(self.sizes.stages):
                for part in cutlass.range_constexpr(self.sizes.stage_parts):
                    self.barriers.k.wait_empty(count, part)
                count += 1
        # Where pairs merge, this is released by the last store.
        self.barriers.q_empty.wait(q_phase)

    @cute.jit
    def load_tiles(self, work: WorkTile, count: Int32, entries: PageEntries, is_last: cutlass.Boolean) -> None:
        """Load in the order in which products release buffers.

        That is K of a tile, then V of the tile before. With one stage, the buffer of the first V is free before that of
        the second K. V comes first then, unless the work tile is short: the second K would come later, and it is needed
        first at the end.
        """
        tiles = work.end - work.begin
        for n in cutlass.range(tiles + 1, unroll=1):
            if n < tiles:
                self.load_k(self.pages(entries, n, work.length), work.begin + n, work.length, count + n)
            has_v = n > 0
            if cutlass.const_expr(self.sizes.stages == 1):
                has_v ^= (tiles > FEW_TILES) & (n < 2)  # mutant: first v
            if has_v:
                before = cutlass.max(n - 1, 0)
                entries = self.look_ahead(entries, work.request, work.begin, work.begin + before, work.length)
                pages = self.pages(entries, before, work.length)
                over_k = is_last & (before > 0) & (before == tiles - 1)
                self.load_v(pages, work.begin + before, work.length, count + before, over_k)

    @cute.jit
    def load_tiles_in_place(self, work: WorkTile, count: Int32, entries: PageEntries) -> None:
        """Load K as many tiles ahead as there are stages, and V over it."""
        stages, tiles = self.sizes.stages, work.end - work.begin
        for tile in cutlass.range(cutlass.min(tiles, stages), unroll=1):
            self.load_k(self.pages(entries, tile, work.length), work.begin + tile, work.length, count + tile)
        for tile in cutlass.range(tiles, unroll=1):
            entries = self.look_ahead(entries, work.request, work.begin, work.begin + tile, work.length)
            self.load_v_in_place(self.pages(entries, tile, work.length), work.begin + tile, work.length, count + tile)
            filled = tile + stages - 1
            if (tile > 0) & (filled < tiles):
                self.load_k(self.pages(entries, filled, work.length), work.begin + filled, work.length, count + filled)

    @cute.jit
    def expect(self, full: Mbarrier, boxes: cutlass.Constexpr, ctas: cutlass.Constexpr = PAIR_CTAS) -> None:
        """Expect boxes from each CTA, `boxes[n]` at mbarrier n of `full`.

        The leader expects them. The other CTA's bytes may arrive before, but not two phases ahead.
        """
        if self.rank == 0:
            with cute.arch.elect_one():
                for n in cutlass.range_constexpr(len(boxes)):
                    full[n].expect(ctas * boxes[n] * BOX_BYTES)  # mutant: expected bytes

    @cute.jit
    def load_q(self, request: Int32, row_block: Int32, phase: Int32) -> None:
        """Load this CTA's 64 rows once Q is empty; the rope with the first part."""
        self.barriers.q_empty.wait(phase)  # mutant: q empty
        block = PAIR_CTAS * row_block + self.rank
        fulls, full = self.sizes.q_fulls, self.barriers.q_full
        boxes = (self.sizes.row_boxes - 1) // fulls
        self.expect(full, [boxes + 1, *[boxes] * (fulls - 1)])
        self.load_rope(self.tma_q, Int32(0), block, request, self.sQRope, full.address)
        for part in cutlass.range(self.sizes.k_parts, unroll=1):
            self.load_part(self.tma_q, Int32(0), block, part, request, self.sQ, part, full[part % fulls].address)

    @cute.jit
    def load_k(self, pages: Pages, tile: Int32, length: Int32, count: Int32) -> None:
        """Load this CTA's page of a tile, 576 columns."""
        index = pages[0]
        if self.rank == 1:
            index = pages[1]
        row = self.first_row(2 * tile + self.rank, length)
        stage = count % self.sizes.stages
        for part in cutlass.range(self.sizes.k_parts, unroll=1):
            full = self.barriers.k.full[self.sizes.k_parts * stage][part]
            address = full.address
            self.barriers.k.wait_empty(count, part)  # mutant: k empty
            if part == 0:
                self.expect(full, [self.sizes.part_boxes + 1])
                self.load_rope(self.tma_kv, row, Int32(0), index, self.sKRope[None, None, stage], address)
            else:
                self.expect(full, [self.sizes.part_boxes])
            to = self.sizes.stage_parts * stage + part
            self.load_part(self.tma_kv, row, Int32(0), part, index, self.sKV, to, address)

    @cute.jit
    def load_v(self, pages: Pages, tile: Int32, length: Int32, count: Int32, over_k: cutlass.Boolean) -> None:
        """Load this CTA's columns of both V pages, in its last tile over K."""
        stage, page_parts = count % self.sizes.stages, self.sizes.page_v_parts
        first, v_full = self.sizes.v_part(0), self.barriers.v.full
        if cutlass.const_expr(self.sizes.overlaps_last):
            first, v_full = Int32(select_(over_k, 0, first)), v_full.unless(over_k, self.barriers.k.full)
            count += Int32(select_(over_k, 1, 0))  # mutant: v over k
        rank = self.rank  # mutant: v half
        for n in cutlass.range(2 * page_parts, unroll=1):
            page, columns = self.sizes.page_and_block(n)
            index = Int32(select_(page == 0, *pages))
            row = self.first_row(2 * tile + page, length)
            part = first + n
            full = v_full[2 * page_parts * stage + n]
            self.barriers.k.wait_empty(count, part)  # mutant: v empty
            self.expect(full, [self.sizes.part_boxes])
            columns, to = page_parts * rank + columns, self.sizes.stage_parts * stage + part
            self.load_part(self.tma_kv, row, Int32(0), columns, index, self.sKV, to, full.address)

    @cute.jit
    def load_v_in_place(self, pages: Pages, tile: Int32, length: Int32, count: Int32) -> None:
        """Load this CTA's columns of the other page's V over K, once read."""
        other = 1 - self.rank
        index = pages[1]
        if self.rank == 1:  # mutant: in-place page
            index = pages[0]
        row = self.first_row(2 * tile + other, length)
        stage = count % self.sizes.stages
        s_full = self.barriers.s_full[count % S_STAGES].address
        cute.arch.mbarrier_wait(s_full, count // S_STAGES % 2)  # mutant: in-place k read
        parts = self.sizes.page_v_parts
        v_full = self.barriers.v.full[2 * parts * stage]
        part = parts * other  # mutant: in-place part
        to = self.sizes.stage_parts * stage + part
        self.expect(v_full, [self.sizes.part_boxes] * (2 * parts), ctas=1)  # mutant: in-place bytes
        for n in cutlass.range_constexpr(parts):
            full = v_full[parts * other + n]
            self.load_part(self.tma_kv, row, Int32(0), parts * self.rank + n, index, self.sKV, to + n, full.address)

    def page_entries(self, request: Int32, tile: Int32, length: Int32) -> Int32:
        """Load the page numbers of the next tiles from `tile` on, one in each lane.

        So they are not in uniform registers, where ptxas would wait for them at once. Past the request's end, the last
        page stands for entries that may be anything; nothing of it is read (`first_row`).
        """
        last = cutlass.max(length - 1, 0) // PAGE
        return self.mPageTable[request, cutlass.min(2 * tile + cute.arch.lane_idx(), last)]

    @cute.jit
    def look_ahead(self, entries: PageEntries, request: Int32, begin: Int32, tile: Int32, length: Int32) -> PageEntries:
        """Replace the register of page numbers before `tile`, the last one to load."""
        even, odd = entries
        turn = (tile - begin) // TILES_AHEAD
        if ((tile - begin) % TILES_AHEAD == 0) & (turn > 0):
            entry = self.page_entries(request, tile + TILES_AHEAD, length)
            if turn % 2 == 0:  # mutant: page register
                odd = entry
            else:
                even = entry
        return even, odd

    def pages(self, entries: PageEntries, offset: Int32, length: Int32) -> Pages:
        """Return the pages of tile `offset`; 0 if the request has no keys."""
        lane = 2 * (offset % TILES_AHEAD)
        entry = Int32(select_(offset // TILES_AHEAD % 2 == 0, *entries))  # mutant: page turn
        return tuple(
            Int32(select_(length > 0, cute.arch.shuffle_sync(entry, lane + page), 0))  # mutant: page order
            for page in range(2)
        )

    def first_row(self, page: Int32, length: Int32) -> Int32:
        """Return the first row of a page's box: 0, or negative in partial pages.

        TMA fills rows before the page with zeros, so nothing past the request's end is ever read, and the keys come
        last in the box. A page past the end is all zeros.
        """
        return cutlass.min(cutlass.max(length - PAGE * page, 0), PAGE) - PAGE  # mutant: first row

    def load_part(
        self,
        tma: TmaLoad,
        row: Int32,
        block: Int32,
        columns: Int32,
        outer: Int32,
        sX: cute.Tensor,
        part: Int32,
        full: cute.Pointer,
    ) -> None:
        """Load 64 rows of a part of the latent columns by one instruction."""
        mX = cute.domain_offset((row, 0, 0, 0), tma.mPart)  # mutant: page rows
        gX = cute.local_tile(mX, (CTA_ROWS, self.sizes.box_columns, self.sizes.part_boxes), (None, None, None, None))
        tXsX, tXgX = cpasync.tma_partition(
            tma.part, 0, cute.make_layout(1), cute.group_modes(sX, 0, 3), cute.group_modes(gX, 0, 3)
        )
        cute.copy(tma.part, tXgX[None, block, 0, columns, outer], tXsX[None, part], tma_bar_ptr=full)

    def load_rope(
        self, tma: TmaLoad, row: Int32, block: Int32, outer: Int32, sX: cute.Tensor, full: cute.Pointer
    ) -> None:
        """Load 64 rows of rope columns, of 8-bit elements half a box of zeros."""
        mX = cute.domain_offset((row, 0, 0), tma.mRope)
        gX = cute.local_tile(mX, (CTA_ROWS, self.sizes.box_columns), (None, None, None))
        tXsX, tXgX = cpasync.tma_partition(
            tma.rope, 0, cute.make_layout(1), cute.group_modes(sX, 0, 2), cute.group_modes(gX, 0, 2)
        )
        cute.copy(tma.rope, tXgX[None, block, LATENT // self.sizes.box_columns, outer], tXsX, tma_bar_ptr=full)


# -- MMA warp ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mma:
    """The MMA warp of a pair's leader: S of the next tile precedes P V."""

    sizes: Sizes
    tiled_mmas: Callable[[], tuple[cute.TiledMma, cute.TiledMma]]  # made at each use, since `set` rebinds the value
    tSrQ: cute.Tensor  # descriptors (MMA, 1, instructions of a box, boxes)
    tSrK: cute.Tensor  # descriptors (MMA, 1, instructions of a box, boxes of all stages and the ropes behind them)
    tOrP: cute.Tensor  # descriptors (MMA, 1, instructions of a box, boxes)
    tOrV: cute.Tensor  # descriptors (MMA, 1, instructions of a page, P V blocks of all stages)
    tStS: cute.Tensor  # tensor memory (MMA, 1, 1), first stage
    tOtO: cute.Tensor  # tensor memory (MMA, 1, 1), first half of the columns
    barriers: Barriers
    pair_mask: Any  # CTAs of the pair, a mask over the cluster

    @cute.jit
    def run(self, mWork: cute.Tensor, first_work: Int32, end_work: Int32) -> None:
        q_phase = Int32(0)
        count = Int32(0)  # tiles of the work tiles before
        for number in cutlass.range(first_work, end_work, unroll=1):
            tiles = mWork[number, END] - mWork[number, BEGIN]
            if cutlass.const_expr(not self.sizes.fine_grained):
                self.wait_q(True, 0, q_phase)
            q_phase ^= 1
            for n in cutlass.range(tiles + 1, unroll=1):
                if n < tiles:
                    self.issue_qk(count + n, n == 0, n == tiles - 1, q_phase ^ 1)
                if n > 0:
                    self.issue_pv(count + n - 1, n > 1, (n == tiles) & (number + 1 == end_work))
            count += tiles

    @cute.jit
    def issue_qk(self, count: Int32, is_first: cutlass.Boolean, is_last: cutlass.Boolean, q_phase: Int32) -> None:
        """Issue S = Q K^T of a tile; after the last one, release Q.

        With `fine_grained`, the first tile also waits for Q, part by part. The stage of S is free: P of the tile before
        last was waited for, and is made after its scores are read.
        """
        s_stage = count % S_STAGES
        tStS = cute.make_tensor(self.tStS.iterator + S_COLUMNS * s_stage, self.tStS.layout)
        state = self.barriers.k.state(count)
        for part in cutlass.range(self.sizes.k_parts, unroll=1):  # unrolled, it runs out of uniform registers
            if cutlass.const_expr(self.sizes.fine_grained):
                self.wait_q(is_first, part, q_phase)
            self.barriers.k.wait_full(state, part)  # mutant: k full
            if part == 0:
                self.multiply_box(tStS, *self.sizes.rope_boxes(state.stage), self.sizes.rope_mmas, False)
            for q_box, k_box in self.sizes.k_boxes(state.stage, part):
                self.multiply_box(tStS, q_box, k_box, BOX_MMAS, True)  # mutant: rope scores
            if cutlass.const_expr(not self.sizes.in_place):
                self.barriers.k.release(state, part, self.pair_mask)
        self.barriers.s_full[s_stage].commit(self.pair_mask)
        if is_last:
            self.barriers.q_empty.commit(self.pair_mask)

    @cute.jit
    def wait_q(self, is_first: cutlass.Boolean, part: Int32, phase: Int32) -> None:
        if is_first:
            self.barriers.q_full[part].wait(phase)  # mutant: q full

    def multiply_box(self, tStS: cute.Tensor, q_box: Any, k_box: Any, mmas: int, accumulate: bool) -> None:
        """Issue S (+)= Q K^T over the columns of a box."""
        qk, _ = self.tiled_mmas()
        qk.set(tcgen05.Field.ACCUMULATE, accumulate)
        for k in range(mmas):
            cute.gemm(qk, tStS, self.tSrQ[None, None, k, q_box], self.tSrK[None, None, k, k_box], tStS)
            qk.set(tcgen05.Field.ACCUMULATE, True)

    @cute.jit
    def issue_pv(self, count: Int32, accumulate: cutlass.Boolean, is_last: cutlass.Boolean) -> None:
        """Issue O (+)= P V of a tile: two halves of columns times two pages.

        Of a CTA's last tile, the first half is announced by itself, and stored under the products of the other.
        """
        barriers = self.barriers
        state = barriers.v.state(count)
        phase, first, v_full = state.phase, self.sizes.v_part(0), barriers.v.full
        p_full, p_phase, p_box = barriers.p_full, count % 2, 0
        if cutlass.const_expr(self.sizes.overlaps_last):
            over_k = is_last & accumulate  # a last tile that is not the only one
            phase = Int32(select_(over_k, phase ^ 1, phase))  # mutant: v over k full
            first = Int32(select_(over_k, 0, first))
            v_full = barriers.k.full[first]  # mbarriers of a stage are in the order of its parts
            p_full = p_full.unless(is_last, barriers.p_last)
            p_phase = Int32(select_(is_last, 0, p_phase))
            p_box = Int32(select_(is_last, self.sizes.p_last_box, 0))  # mutant: p box
        p_full.wait(p_phase)  # mutant: p full
        after_thread_sync()
        page_parts, pv_blocks, mmas = self.sizes.page_v_parts, self.sizes.part_pv_blocks, self.sizes.page_mmas
        over_parts, parts = cutlass.const_expr(self.sizes.loops_over_parts), 2 * page_parts
        start = first if over_parts else 0
        for number in cutlass.range(start, start + parts, unroll=1):
            part, n = (number, number % parts) if over_parts else (first + number, number)
            page, columns = self.sizes.page_and_block(n)
            if cutlass.const_expr(self.sizes.overlaps_last):
                v_full[2 * page_parts * state.stage + n].wait(phase)  # mutant: v full
            else:  # added to the address, which takes fewer uniform registers with several stages
                cute.arch.mbarrier_wait(v_full.address + 2 * page_parts * state.stage + n, phase)  # mutant: v full
            _, pv = self.tiled_mmas()
            for block in cutlass.range_constexpr(pv_blocks):
                half = pv_blocks * columns + block
                v_block = pv_blocks * (self.sizes.stage_parts * state.stage + part) + block
                tOtO = cute.make_tensor(self.tOtO.iterator + O_COLUMNS // 2 * half, self.tOtO.layout)
                pv.set(tcgen05.Field.ACCUMULATE, accumulate | (page > 0))  # mutant: first product
                for k in cutlass.range_constexpr(mmas):
                    mma = mmas * page + k
                    tOrP = self.tOrP[None, None, mma % BOX_MMAS, p_box + mma // BOX_MMAS]
                    cute.gemm(pv, tOtO, tOrP, self.tOrV[None, None, k, v_block], tOtO)
                    pv.set(tcgen05.Field.ACCUMULATE, True)
                if cutlass.const_expr(block == 0 and self.sizes.overlaps_last):
                    is_half = is_last & (n == 1)  # mutant: half of o
                    if is_half:
                        barriers.o_half.commit(self.pair_mask)
            barriers.v.release(state, part, self.pair_mask)  # mutant: v release
        o_full = barriers.o_full
        if cutlass.const_expr(self.sizes.overlaps_last):
            o_full = o_full.unless(is_last, barriers.o_last)
        o_full.commit(self.pair_mask)


# -- softmax warps -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SoftmaxThread:
    """A softmax thread, which has one row and one lane of tensor memory.

    Thread t has row t % 64 and lane t % 128. Lanes from 64 on have the upper half of a product's columns: the scores of
    the second page, and columns 256 and up of O. Warpgroups share the columns of a lane.
    """

    sizes: Sizes
    barriers: Barriers
    thread: Int32
    rank: Int32  # of the CTA in its pair
    pair: Int32  # of the cluster
    row: Int32
    upper: Int32  # 1 in the lanes with the upper half of the columns
    group: Int32  # warpgroup
    tmem: cute.Pointer
    sExchange: cute.Tensor  # [threads] fp32: values for the other threads of the row

    @cute.jit
    def sync_row(self) -> None:
        """Sync the warps that share rows."""
        if self.thread // WARP % 2 == 0:
            NamedBarrier.EVEN_WARPS.sync(2 * WARP * self.sizes.groups)
        else:
            NamedBarrier.ODD_WARPS.sync(2 * WARP * self.sizes.groups)

    def exchange(self, value: Float32) -> list[Float32]:
        """Return the values of the row's other threads; `sync_row` precedes the next exchange."""
        self.sExchange[self.thread] = value
        self.sync_row()  # mutant: exchange
        others = [self.thread ^ (CTA_ROWS * n) for n in range(1, 2 * self.sizes.groups)]
        return [self.sExchange[other] for other in others]

    def columns(self, first: Any, count: int) -> cute.Tensor:
        return cute.make_tensor(self.tmem + first, cute.make_layout((TMEM_LANES, count), stride=(TMEM_LANE_STRIDE, 1)))

    def read_tmem(self, first: Any, count: int) -> cute.Tensor:
        """Load `count` columns of this thread's lane to registers."""
        tXtX = self.columns(first, count)
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(count)), Float32)
        copy = tcgen05.make_tmem_copy(atom, tXtX).get_slice(self.thread % TMEM_LANES)
        part = copy.partition_S(tXtX)
        shape = copy.partition_D(cute.make_identity_tensor((TMEM_LANES, count))).shape
        tXrX = cute.make_rmem_tensor(shape, Float32)
        cute.copy(copy, part, tXrX)
        cute.arch.fence_view_async_tmem_load()  # mutant: tmem load
        return cute.make_tensor(tXrX.iterator, cute.make_layout(count))

    def write_tmem(self, tXrX: cute.Tensor, first: Any, count: int) -> None:
        """Store registers to columns of this thread's lane."""
        tXtX = self.columns(first, count)
        atom = cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition(count)), Float32)
        copy = tcgen05.make_tmem_copy(atom, tXtX).get_slice(self.thread % TMEM_LANES)
        part = copy.partition_D(tXtX)
        shape = copy.partition_S(cute.make_identity_tensor((TMEM_LANES, count))).shape
        cute.copy(copy, cute.make_tensor(tXrX.iterator, cute.make_layout(shape)), part)

    def rescale(self, factor: Float32) -> None:
        """Multiply this warpgroup's columns of O."""
        columns = O_COLUMNS // self.sizes.groups
        for column in range(0, columns, CHUNK):
            first = O_COLUMN + columns * self.group + column
            tOrO = self.read_tmem(first, CHUNK)
            for i in range(CHUNK):
                tOrO[i] = tOrO[i] * factor
            self.write_tmem(tOrO, first, CHUNK)
        cute.arch.fence_view_async_tmem_store()

    def wait_o(self, count: Int32) -> None:
        """Wait for P V of tile `count`."""
        self.barriers.o_full.wait_tile(count)
        after_thread_sync()

    @cute.jit
    def wait_result(self, last: Mbarrier, count: Int32, is_last: cutlass.Boolean) -> None:
        """Wait for O up to tile `count`; for the CTA's last work tile at `last`."""
        full, phase = self.barriers.o_full, count & 1
        if cutlass.const_expr(self.sizes.overlaps_last):
            full, phase = full.unless(is_last, last), Int32(select_(is_last, 0, phase))  # mutant: result phase
        full.wait(phase)  # mutant: result
        after_thread_sync()

    @cute.jit
    def announce_read(self, is_read: cutlass.Boolean) -> None:
        """Announce that this warp has read its O, so tensor memory can be freed."""
        if is_read:
            before_thread_sync()
            cute.arch.cluster_arrive_relaxed()


@dataclass(frozen=True)
class Softmax:
    """Softmax of one row in a tile's page, whose keys warpgroups share."""

    own: SoftmaxThread
    dtype: type[cutlass.Numeric]
    sStages: cute.Pointer  # shared: stages and P, boxes of 64 rows of 128 bytes, swizzled
    params: Params
    epilogue: Epilogue

    @cute.jit
    def run(self, first_work: Int32, end_work: Int32) -> None:
        """Compute P of every tile, then store O and the log-sum-exp of each work tile."""
        own, sizes, mWork = self.own, self.own.sizes, self.params.mWork
        count = Int32(0)  # tiles so far
        for number in cutlass.range(first_work, end_work, unroll=1):
            request, row_block, partial = mWork[number, REQUEST], mWork[number, ROW_BLOCK], mWork[number, PARTIAL]
            begin, end, length = mWork[number, BEGIN], mWork[number, END], mWork[number, LENGTH]
            row = TILE_ROWS * row_block + CTA_ROWS * own.rank + own.row
            # Keys from here on are hidden from the row.
            limit = length - cutlass.max(self.params.hidden_tokens - row // self.params.heads, 0)
            row_max, row_sum = Float32(NO_MAX), Float32(0.0)
            for tile in cutlass.range(begin, end, unroll=1):
                is_last_tile = (tile + 1 == end) & (number + 1 == end_work)
                row_max, row_sum = self.step(tile, tile > begin, limit, length, count, row_max, row_sum, is_last_tile)
                count += 1
            turn = number - first_work
            for other in own.exchange(row_sum):
                row_sum = row_sum + other
            is_last = number + 1 == end_work
            target = Target(request, row_block, partial, count - 1, turn, is_last)
            if cutlass.const_expr(sizes.pairs > 1):
                row_max, row_sum, factors = self.epilogue.merge.merge(row_max, row_sum, target)
                self.epilogue.store_lse(row, row_max, row_sum, target)
                self.epilogue.store(factors, target)  # mutant: merged store
                self.epilogue.merge.release()  # mutant: merged release
            else:
                self.epilogue.store_lse(row, row_max, row_sum, target)
                first = own.barriers.o_half if sizes.overlaps_last else own.barriers.o_full
                own.wait_result(first, count - 1, is_last)
                self.epilogue.store([inverse(row_sum)], target)
        own.announce_read(first_work == end_work)
        # The combine kernel may take this SM. Not earlier: it would crowd the idle ones, and wait there.
        cute.arch.griddepcontrol_launch_dependents()

    @cute.jit
    def step(
        self,
        tile: Int32,
        has_o: cutlass.Boolean,
        limit: Int32,
        length: Int32,
        count: Int32,
        row_max: Float32,
        row_sum: Float32,
        is_last: cutlass.Boolean,
    ) -> tuple[Float32, Float32]:
        """Store P of a tile; return the row's new maximum and this thread's sum.

        A maximum that grows by no more than the threshold is left as it is: P has room for that, and O need not be
        rescaled. `row_max` is what the exponents of P are relative to: log2, less `p_log2_scale`.
        """
        own, sizes = self.own, self.own.sizes
        tSrS = self.read_scores(count)
        self.mask(tSrS, 2 * tile + own.upper, limit, length)
        top = self.tile_max(tSrS) * self.params.scale_log2 - sizes.p_log2_scale
        new_max = Float32(select_(top > row_max + sizes.rescale_log2_threshold, top, row_max))
        factor = cute.math.exp2(row_max - new_max, fastmath=True)
        tPrP, added = self.exponentiate(tSrS, new_max)
        own.sync_row()  # mutant: exchange read
        # P V of the tile before has read P's memory, and O is complete up to there.
        grows = has_o & cute.arch.vote_any_sync(factor != 1.0)
        if cutlass.const_expr(sizes.overlaps_last):
            if (not is_last) | grows:  # mutant: p free
                own.wait_o(count - 1)
        else:
            own.wait_o(count - 1)
        if grows:
            own.rescale(factor)  # mutant: rescale
        self.store_p(tPrP, is_last)
        cute.arch.fence_proxy("async.shared", space="cta")  # mutant: p fence
        before_thread_sync()
        cute.arch.sync_warp()
        if own.thread % WARP == 0:
            leader = 0 if cutlass.const_expr(sizes.pairs == 1) else PAIR_CTAS * own.pair  # mutant: p leader
            p_full = own.barriers.p_full
            if cutlass.const_expr(sizes.overlaps_last):
                p_full = p_full.unless(is_last, own.barriers.p_last)  # mutant: p last
            p_full.arrive(leader)  # mutant: p arrive
        return new_max, row_sum * factor + added

    def read_scores(self, count: Int32) -> cute.Tensor:
        """Load the scores of this thread's row and keys."""
        own = self.own
        stage = count % S_STAGES
        phase = count // S_STAGES % 2  # mutant: s phase
        own.barriers.s_full[stage].wait(phase)  # mutant: s full
        after_thread_sync()
        columns = own.sizes.thread_scores
        return own.read_tmem(S_COLUMNS * stage + columns * own.group, columns)

    @cute.jit
    def mask(self, tSrS: cute.Tensor, page: Int32, limit: Int32, length: Int32) -> None:
        """Mask non-keys and keys from `limit` on, last in the box (`Load.first_row`)."""
        columns = self.own.sizes.thread_scores
        empty = PAGE - cutlass.min(cutlass.max(length - PAGE * page, 0), PAGE)
        first = empty - columns * self.own.group  # of this thread's scores
        end = limit - PAGE * page + first
        if (first > 0) | (end < columns):
            for i in cutlass.range_constexpr(columns):
                if (i < first) | (i >= end):
                    tSrS[i] = -Float32.inf

    def tile_max(self, tSrS: cute.Tensor) -> Float32:
        """Maximum of the row's scores in both pages of the tile."""
        tops = [tSrS[i] for i in range(4)]  # four chains, to wait for fewer latencies
        for i in range(4, self.own.sizes.thread_scores):
            tops[i % 4] = cute.arch.fmax(tops[i % 4], tSrS[i])
        top = cute.arch.fmax(cute.arch.fmax(tops[0], tops[1]), cute.arch.fmax(tops[2], tops[3]))
        for other in self.own.exchange(top):
            top = cute.arch.fmax(top, other)
        return top

    def exponentiate(self, tSrS: cute.Tensor, row_max: Float32) -> tuple[cute.Tensor, Float32]:
        """P = 2^(S - maximum) in the dtype, and its sum before rounding."""
        columns = self.own.sizes.thread_scores
        sums = [Float32(0.0)] * 4
        for i in range(columns):
            tSrS[i] = cute.math.exp2(tSrS[i] * self.params.scale_log2 - row_max, fastmath=True)
            sums[i % 4] = sums[i % 4] + tSrS[i]
        tPrP = cute.make_rmem_tensor((columns,), self.dtype)
        tPrP.store(tSrS.load().to(self.dtype))
        return tPrP, (sums[0] + sums[1]) + (sums[2] + sums[3])

    def store_p(self, tPrP: cute.Tensor, is_last: cutlass.Boolean) -> None:
        """Store P, vector v of row r at v xor r % 8 (SWIZZLE_128B)."""
        own, sizes = self.own, self.own.sizes
        width = SWIZZLE_BYTES // sizes.element_bytes
        key = PAGE * own.upper + sizes.thread_scores * own.group
        first = key % sizes.box_columns // width
        box = sizes.p_box + key // sizes.box_columns
        start = self.sStages + (box * CTA_ROWS + own.row) * sizes.box_columns
        sP = cute.make_tensor(start, cute.make_layout((width, 8)))
        vectors = cute.local_tile(tPrP, (width,), (None,))
        moved = 0
        if sizes.overlaps_last:
            moved = Int32(select_(is_last, sizes.p_last_box * CTA_ROWS * sizes.box_columns, 0))
        for n in range(sizes.thread_scores // width):
            to = sP[None, (first + n) ^ (own.row % 8)]  # loop-invariant
            cute.autovec_copy(vectors[None, n], cute.make_tensor((to.iterator + moved).align(16), to.layout))


@cute.jit
def inverse(row_sum: Float32) -> Float32:
    """Return 1 / sum; 0 for a row without keys."""
    result = Float32(0.0)
    if row_sum > 0.0:
        result = 1.0 / row_sum
    return result


# -- epilogue ----------------------------------------------------------------------------------------------------------


class Target(NamedTuple):
    """Where a work tile's result goes, and when."""

    request: Int32
    row_block: Int32
    partial: Int32  # index of the partial result; -1 if the request is not split
    count: Int32  # of the last tile
    turn: Int32  # work tiles of the CTA before
    is_last: cutlass.Boolean  # work tile of the CTA


@dataclass(frozen=True)
class Epilogue:
    """Stores of O, scaled, and of the log-sum-exp."""

    own: SoftmaxThread
    dtype: type[cutlass.Numeric]
    partial_dtype: type[cutlass.Numeric]
    sStages: cute.Pointer  # as in `Softmax`
    params: Params
    merge: InKernelMerge | None

    @cute.jit
    def store_lse(self, row: Int32, row_max: Float32, row_sum: Float32, target: Target) -> None:
        """Store the log-sum-exp.

        It is natural, and +inf without keys; for a partial result it has base 2, and is -inf without keys.
        """
        mLse, mLsePartial = self.params.mLse, self.params.mLsePartial
        pLse = (row < mLse.shape[1]) & (self.own.thread < CTA_ROWS)
        if cutlass.const_expr(self.own.sizes.pairs > 1):
            pLse = pLse & (self.own.pair == 0)
        if pLse:
            lse_log2 = row_max + cute.math.log2(row_sum, fastmath=True)
            if target.partial < 0:
                value = lse_log2 * LN_2
                if row_sum == 0.0:
                    value = Float32.inf
                mLse[target.request, row] = value
            else:
                mLsePartial[target.partial, row] = lse_log2

    @cute.jit
    def store(self, factors: list[Float32], target: Target) -> None:
        """Store O times `factors[0]`, plus the blocks of the cluster's other pairs times theirs."""
        if target.partial < 0:
            self.store_o(factors, target)
        else:
            self.store_partial(factors, target)
        if not target.is_last:
            before_thread_sync()
            # All stores have read the memory that the next P goes to, and all threads the others' sums.
            NamedBarrier.SOFTMAX.sync(self.own.sizes.softmax_threads)  # mutant: o staged

    @cute.jit
    def store_partial(self, factors: list[Float32], target: Target) -> None:
        """Store this thread's columns to a partial result with rows for whole warps."""
        own = self.own
        row = TILE_ROWS * target.row_block + CTA_ROWS * own.rank + own.row
        row_group = cute.arch.make_warp_uniform(row // WARP)
        width = WIDE if own.sizes.fine_grained else CHUNK
        chunks = own.sizes.thread_columns // width
        column = self.first_column()
        for n in cutlass.range(chunks, unroll=1):
            column = self.next_column(column, n, chunks, target)
            tOrO = own.read_tmem(O_COLUMN + column, width)
            own.announce_read(target.is_last & (n == chunks - 1))  # mutant: last read
            for i in cutlass.range_constexpr(width):
                tOrO[i] = tOrO[i] * factors[0]
            self.add_received(tOrO, width * n, factors, target.turn)
            tOrPartial = cute.make_rmem_tensor((width,), self.partial_dtype)
            tOrPartial.store(tOrO.load().to(self.partial_dtype))
            vectors = cute.local_tile(tOrPartial, (VECTOR,), (None,))
            if row_group < cute.size(self.params.mOPartial, mode=[3]):
                for v in cutlass.range_constexpr(width // VECTOR):
                    half = PV_COLUMNS * own.upper  # mutant: partial half
                    to = (column + half) // VECTOR + v
                    gPartial = self.params.mOPartial[None, own.thread % WARP, to, row_group, target.partial]
                    cute.autovec_copy(vectors[None, v], gPartial)
            column += width

    @cute.jit
    def next_column(self, column: Int32, n: Int32, chunks: cutlass.Constexpr, target: Target) -> Int32:
        """Return chunk n's column; `fine_grained` waits where O's other half begins."""
        if cutlass.const_expr(self.own.sizes.fine_grained):
            is_other_half = n == chunks // 2
            if is_other_half:
                column += (O_COLUMNS - self.own.sizes.thread_columns) // 2
                self.own.wait_result(self.own.barriers.o_last, target.count, target.is_last)  # mutant: other half
        return column

    @cute.jit
    def store_o(self, factors: list[Float32], target: Target) -> None:
        """Store this warp's columns of 32 rows through shared memory by TMA.

        A store has 64 or 32 bytes of a row. After the last work tile, each chunk has memory of its own in the stages,
        which nobody needs any more; that of the first chunks, stored early, held K. Before, all go through 2 KB of P's
        memory.
        """
        own, sizes, kind = self.own, self.own.sizes, self.dtype
        is_last = target.is_last
        row_bytes = sizes.store_row_bytes(kind.width // 8)
        width = row_bytes * 8 // kind.width
        chunks = sizes.thread_columns // width
        warp, lane = cute.arch.make_warp_uniform(own.thread // WARP), own.thread % WARP
        gO = cute.local_tile(self.params.mO, (WARP, width), (None, None, None))  # (32, width, rows, columns, batch)
        rows = (PAIR_CTAS * target.row_block + own.rank) * (CTA_ROWS // WARP) + warp % 2
        box_elements, warps = STORE_BYTES * 8 // kind.width, sizes.softmax_warps
        base = cute.recast_ptr(self.sStages, dtype=kind)
        in_p = BOX_BYTES // STORE_BYTES * sizes.p_box
        box, step = warp + Int32(select_(is_last, 0, in_p)), Int32(select_(is_last, warps, 0))  # mutant: o place
        column = self.first_column()
        for n in cutlass.range(chunks, unroll=1):
            column = self.next_column(column, n, chunks, target)
            tOrO = own.read_tmem(O_COLUMN + column, width)
            own.announce_read(is_last & (n == chunks - 1))  # mutant: last read
            converted = cute.make_rmem_tensor((width,), kind)
            for i in cutlass.range_constexpr(width):
                tOrO[i] = tOrO[i] * factors[0]
            self.add_received(tOrO, width * n, factors, target.turn)
            converted.store(tOrO.load().to(kind))
            if cutlass.const_expr(not sizes.fine_grained):  # carried on, it would cost uniform registers there
                box = Int32(select_(is_last, warps * n + warp, in_p + warp))  # mutant: o place
            start = base + box_elements * box
            if (lane == 0) & (not is_last):
                cute.arch.cp_async_bulk_wait_group(0, read=True)  # mutant: o read
            cute.arch.sync_warp()
            self.stage_o(converted, start)
            cute.arch.fence_proxy("async.shared", space="cta")  # mutant: o fence
            cute.arch.sync_warp()
            if lane == 0:
                sO = cute.make_tensor(start, cute.make_layout((WARP, width), stride=(width, 1)))
                tOsO, tOgO = cpasync.tma_partition(
                    self.params.tma_o, 0, cute.make_layout(1), cute.group_modes(sO, 0, 2), cute.group_modes(gO, 0, 2)
                )
                columns = column // width + PV_COLUMNS // width * (warp // 2 % 2)
                cute.copy(self.params.tma_o, tOsO, tOgO[None, rows, columns, target.request])
                cute.arch.cp_async_bulk_commit_group()
            box += step
            column += width
        if lane == 0:
            cute.arch.cp_async_bulk_wait_group(0, read=True)

    def first_column(self) -> Int32:
        """First column of O (in tensor memory) that this thread stores."""
        if self.merge is not None:
            return self.merge.first_column(self.own.pair)  # mutant: merge columns
        columns = self.own.sizes.thread_columns // (2 if self.own.sizes.fine_grained else 1)  # of each half
        return columns * self.own.group

    def add_received(self, tOrO: cute.Tensor, first: Any, factors: list[Float32], turn: Int32) -> None:
        if self.merge is not None:
            self.merge.add_received(tOrO, first, factors, turn)

    def stage_o(self, converted: cute.Tensor, start: cute.Pointer) -> None:
        """Put values into this thread's row of a box.

        The swizzle moves 16-byte vector v of row r to v xor r // 2 % 4 of 64 bytes, or v xor r // 4 % 2 of 32.
        """
        per_vector = 128 // converted.element_type.width
        row, width = self.own.thread % WARP, cute.size(converted)
        count = width // per_vector
        sO = cute.make_tensor(start + row * width, cute.make_layout((per_vector, count)))
        vectors = cute.local_tile(converted, (per_vector,), (None,))
        for v in range(count):
            cute.autovec_copy(vectors[None, v], sO[None, v ^ (row // (8 // count) % count)])


@dataclass(frozen=True)
class InKernelMerge:
    """Merge of the pairs of a cluster through distributed shared memory.

    Each pair sends blocks of its O to the pairs that store those columns, in 16 bits and normalised, with the rows'
    log-sum-exp; the receiver weighs them as the combine kernel does. A block is a half or a quarter of each warpgroup's
    columns, so that all warps send and store equally, and one warpgroup begins while the other's half is multiplied. It
    is received where Q was: [block of another pair][half of the lanes][vector of 8 columns][row], so that a warp's
    accesses are consecutive. Block n comes from pair `pair ^ (n + 1)`, so sender and receiver agree.
    """

    own: SoftmaxThread
    partial_dtype: type[cutlass.Numeric]
    sReceived: cute.Pointer  # int32

    def merge(self, row_max: Float32, row_sum: Float32, target: Target) -> tuple[Float32, Float32, list[Float32]]:
        """Send blocks and receive the log-sum-exp.

        Returns the row's maximum and sum over all pairs, and the factors of this pair's O and of the received blocks.
        """
        own, sizes = self.own, self.own.sizes
        barriers = own.barriers
        self.offer()
        lse_log2 = row_max + cute.math.log2(row_sum, fastmath=True)
        own_inverse = inverse(row_sum)
        # The other pairs' products have read their Q, and their threads what they received before.
        barriers.merge_empty.wait(target.turn % 2)  # mutant: merge empty
        self.send_lse(lse_log2)
        last = barriers.o_full
        if sizes.overlaps_last:
            last = barriers.o_last.unless(own.group == 0, barriers.o_half)  # mutant: merge half
        own.wait_result(last, target.count, target.is_last)
        self.send(own_inverse)
        barriers.merge_lse_full.wait(target.turn % 2)  # mutant: merge lse
        lses = [lse_log2, *(self.received_lse(block) for block in range(sizes.pairs - 1))]
        top = lses[0]
        for other in lses[1:]:
            top = cute.arch.fmax(top, other)
        top = Float32(select_(top == -Float32.inf, 0.0, top))  # mutant: merge no key
        weights = [cute.math.exp2(lse - top, fastmath=True) for lse in lses]
        total = weights[0]
        for weight in weights[1:]:
            total = total + weight
        scale = inverse(total)
        return top, total, [weights[0] * scale * own_inverse, *(weight * scale for weight in weights[1:])]

    @cute.jit
    def offer(self) -> None:
        """Let the other pairs write where Q was: the work tile's products have read it."""
        sizes, barriers = self.own.sizes, self.own.barriers
        if self.own.thread == 0:
            barriers.merge_lse_full.expect(CTA_ROWS * 4 * (sizes.pairs - 1))
            chunks = sizes.chunks * sizes.groups
            for n in cutlass.range_constexpr((sizes.pairs - 1) * chunks):
                barriers.merge_full[n].expect(sizes.block_bytes // chunks)  # mutant: merge bytes
            for n in cutlass.range_constexpr(1, sizes.pairs):
                barriers.merge_empty.arrive(self.peer(self.own.pair ^ n))

    @cute.jit
    def release(self) -> None:
        """Let the next Q be loaded: all warps have read what was received."""
        if self.own.thread == 0:
            self.own.barriers.q_empty.arrive()

    def peer(self, pair: Int32) -> Int32:
        """CTA of the cluster with the same rows in another pair."""
        return PAIR_CTAS * pair + self.own.rank

    @cute.jit
    def send_lse(self, lse_log2: Float32) -> None:
        """Send the rows' log-sum-exp, base 2, to all other pairs."""
        if self.own.thread < CTA_ROWS:
            bits = cute.make_rmem_tensor((1,), Float32)
            bits[0] = lse_log2
            word = cute.recast_tensor(bits, Int32)[0]
            for n in cutlass.range_constexpr(1, self.own.sizes.pairs):
                full = self.own.barriers.merge_lse_full.address
                cute.arch.store_async_dsmem(self.lse_address(n - 1), word, full, self.peer(self.own.pair ^ n))

    @cute.jit
    def send(self, own_inverse: Float32) -> None:
        """Send this thread's columns of the other pairs' blocks, normalised."""
        own, sizes = self.own, self.own.sizes
        for n in cutlass.range((sizes.pairs - 1) * sizes.chunks, unroll=1):
            block, chunk = n // sizes.chunks, n % sizes.chunks
            distance = block + 1  # mutant: merge peer
            pair = cute.arch.make_warp_uniform(own.pair ^ distance)
            own_column = sizes.thread_columns * own.group + CHUNK * chunk  # of the block
            tOrO = own.read_tmem(O_COLUMN + self.first_column(pair) + CHUNK * chunk, CHUNK)
            for i in cutlass.range_constexpr(CHUNK):
                tOrO[i] = tOrO[i] * own_inverse
            converted = cute.make_rmem_tensor((CHUNK,), self.partial_dtype)
            converted.store(tOrO.load().to(self.partial_dtype))
            words = cute.recast_tensor(converted, Int32)
            full = own.barriers.merge_full.address + sizes.groups * n + own.group
            for v in cutlass.range_constexpr(CHUNK // VECTOR):
                to = self.address(block, own_column + VECTOR * v)
                value = tuple(words[VECTOR // 2 * v + w] for w in range(VECTOR // 2))
                cute.arch.store_async_dsmem(to, value, full, self.peer(pair))

    def address(self, block: Any, column: Any) -> cute.Pointer:
        """Address of 8 columns of this thread's row in a received block."""
        own, sizes = self.own, self.own.sizes
        vector = sizes.block_columns // VECTOR * own.upper + column // VECTOR
        words = sizes.block_bytes // 4 * block + VECTOR // 2 * (CTA_ROWS * vector + own.row)
        return (self.sReceived + words).align(2 * VECTOR)

    def lse_address(self, block: int) -> cute.Pointer:
        words = (self.own.sizes.pairs - 1) * self.own.sizes.block_bytes // 4 + CTA_ROWS * block
        return self.sReceived + words + self.own.row

    def received_lse(self, block: int) -> Float32:
        """Log-sum-exp of the row, base 2, over the keys of another pair."""
        return cute.make_tensor(cute.recast_ptr(self.lse_address(block), dtype=Float32), cute.make_layout(1))[0]

    def first_column(self, pair: Int32) -> Int32:
        """First of this warpgroup's columns (in tensor memory) in the block of a pair."""
        sizes = self.own.sizes
        return O_COLUMNS // sizes.groups * self.own.group + sizes.thread_columns * pair

    def add_received(self, tOrO: cute.Tensor, first: Any, factors: list[Float32], turn: Int32) -> None:
        """Add received columns from `first` on times their factors, each chunk when it arrives."""
        own, sizes = self.own, self.own.sizes
        for block, factor in enumerate(factors[1:]):
            for chunk in range(cute.size(tOrO) // CHUNK):
                n = sizes.chunks * block + first // CHUNK + chunk
                own.barriers.merge_full[sizes.groups * n + own.group].wait(turn % 2)  # mutant: merge full
                for v in range(CHUNK // VECTOR):
                    at = CHUNK * chunk + VECTOR * v
                    column = sizes.thread_columns * own.group + first + at
                    sBlock = cute.recast_ptr(self.address(block, column), dtype=self.partial_dtype)
                    received = cute.make_rmem_tensor((VECTOR,), self.partial_dtype)
                    cute.autovec_copy(cute.make_tensor(sBlock, cute.make_layout(VECTOR)), received)
                    values = received.load().to(Float32)
                    for i in range(VECTOR):
                        tOrO[at + i] = tOrO[at + i] + factor * values[i]
