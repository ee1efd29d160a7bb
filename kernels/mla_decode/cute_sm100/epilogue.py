"""MLA decode for Blackwell in CuTe DSL: the softmax warps' work on the output in tensor memory, and its store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32
from cutlass.cute.nvgpu import cpasync, tcgen05
from cutlass.cutlass_dsl import select_

from kernels.mla_decode.cute_sm100.layout import (
    BOX_BYTES,
    CHUNK,
    CTA_ROWS,
    CTAS,
    HALF,
    LN_2,
    OUT_COLUMN,
    OUT_COLUMNS,
    PIECE,
    ROWS,
    STORE_BYTES,
    WARP_LANES,
    Layout,
)
from kernels.tcgen05.fence import after_thread_sync, before_thread_sync

WIDE = 2 * CHUNK  # columns of a partial result that a thread reads at once where half of them come early
LANE_STRIDE = 1 << 16  # of a tensor-memory address
ALL_WARPS = 3  # named barrier of all softmax warps; 1 and 2 are of those that share rows
ALLOCATED = 4  # named barrier of the warps that use tensor memory


@dataclass
class Epilogue:
    """A part of `Softmax`. Thread t has the row t % 64, in lane t % 128 of tensor memory.

    Lanes 64 and up hold the upper half of a product's columns: the second page's scores, and the columns 256 and up of
    O. Groups of four warps share the columns of a lane.
    """

    layout: Layout
    dtype: type[cutlass.Numeric]
    partial_dtype: type[cutlass.Numeric]
    thread: Int32
    rank: Int32  # of the CTA in its pair
    tensor_memory: cute.Pointer
    slots: cute.Pointer  # shared, and P's memory behind them: boxes of 64 rows of 128 bytes, swizzled in 16-byte pieces
    shared: cute.Tensor  # shared [threads]: what the threads of a row tell each other
    mbarriers: Any
    pair: Int32  # of the cluster
    received: cute.Pointer  # shared, int32: Q's memory, to which the other pairs send
    scale_log2: Float32
    tma_out: tuple[cute.CopyAtom, cute.Tensor]  # and coordinates (rows, 512, batch)
    partials: cute.Tensor  # (8, 32, 64, rows / 32, partials), see partials.py

    def __post_init__(self) -> None:
        self.row = self.thread % CTA_ROWS
        self.upper = self.thread // CTA_ROWS % 2
        self.group = self.thread // 128

    def other_threads(self) -> list[Int32]:
        """That have the same row."""
        return [self.thread ^ (CTA_ROWS * n) for n in range(1, 2 * self.layout.groups)]

    @cute.jit
    def meet(self) -> None:
        """The warps that share rows. What they wrote to shared memory before is seen after."""
        if self.thread // 32 % 2 == 0:
            cute.arch.barrier(barrier_id=1, number_of_threads=64 * self.layout.groups)
        else:
            cute.arch.barrier(barrier_id=2, number_of_threads=64 * self.layout.groups)

    def exchange(self, value: Float32) -> list[Float32]:
        """What the other threads of the row have. Before they tell each other something again, they have to meet."""
        self.shared[self.thread] = value
        self.meet()
        return [self.shared[other] for other in self.other_threads()]

    # -- tensor memory --------------------------------------------------------------------------------------------

    def wait_for_out(self, count: Int32) -> None:
        """The product of tile `count` with its values is done. Of tile -1, too: a fresh mbarrier is in phase 0."""
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.out_full, count & 1)
        after_thread_sync()

    @cute.jit
    def wait_for_first_out(self, count: Int32, is_last: cutlass.Boolean) -> None:
        """What `store_columns` begins with is there: of a CTA's last item a half of the columns, while the products
        with the other half still read P; else all, of the item's last tile, `count`."""
        self.wait_for_result(self.layout.out_half if self.layout.halves else self.layout.out_full, count, is_last)

    @cute.jit
    def wait_for_result(self, of_last: Any, count: Int32, is_last: cutlass.Boolean) -> None:
        """Of an item, whose last tile is `count`; of a CTA's last item another mbarrier may say so."""
        mbarrier, phase = self.layout.out_full, count & 1
        if cutlass.const_expr(self.layout.halves):
            mbarrier, phase = Int32(select_(is_last, of_last, mbarrier)), Int32(select_(is_last, 0, phase))
        cute.arch.mbarrier_wait(self.mbarriers + mbarrier, phase)
        after_thread_sync()

    def columns(self, first: Any, count: int) -> cute.Tensor:
        return cute.make_tensor(self.tensor_memory + first, cute.make_layout((128, count), stride=(LANE_STRIDE, 1)))

    def read(self, first: Any, count: int) -> cute.Tensor:
        """`count` columns of this thread's lane, complete: registers (count)."""
        source = self.columns(first, count)
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(count)), Float32)
        copy = tcgen05.make_tmem_copy(atom, source).get_slice(self.thread % 128)
        part = copy.partition_S(source)
        shape = copy.partition_D(cute.make_identity_tensor((128, count))).shape
        values = cute.make_rmem_tensor(shape, Float32)
        cute.copy(copy, part, values)
        cute.arch.fence_view_async_tmem_load()
        return cute.make_tensor(values.iterator, cute.make_layout(count))

    def write(self, values: cute.Tensor, first: Any, count: int) -> None:
        target = self.columns(first, count)
        atom = cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition(count)), Float32)
        copy = tcgen05.make_tmem_copy(atom, target).get_slice(self.thread % 128)
        part = copy.partition_D(target)
        shape = copy.partition_S(cute.make_identity_tensor((128, count))).shape
        cute.copy(copy, cute.make_tensor(values.iterator, cute.make_layout(shape)), part)

    def rescale(self, factor: Float32) -> None:
        """O *= factor, in this group's columns."""
        columns = OUT_COLUMNS // self.layout.groups
        for column in range(0, columns, CHUNK):
            first = OUT_COLUMN + columns * self.group + column
            values = self.read(first, CHUNK)
            for i in range(CHUNK):
                values[i] = values[i] * factor
            self.write(values, first, CHUNK)
        cute.arch.fence_view_async_tmem_store()

    # -- end of an item -------------------------------------------------------------------------------------------

    @cute.jit
    def inverse(self, total: Float32) -> Float32:
        """Of a sum; 0 of 0, where a row has seen no key."""
        inverse = Float32(0.0)
        if total > 0.0:
            inverse = 1.0 / total
        return inverse

    @cute.jit
    def store_lse(
        self, request: Int32, row: Int32, partial: Int32, maximum: Float32, total: Float32, lses: Any
    ) -> None:
        """Natural, of the whole request, where +inf says that a row saw no key; or base 2, of a part, -inf then."""
        lse, lse_partial = lses
        mine = (row < lse.shape[1]) & (self.thread < CTA_ROWS)
        if cutlass.const_expr(self.layout.pairs > 1):
            mine = mine & (self.pair == 0)
        if mine:
            log2_sum = maximum + cute.math.log2(total, fastmath=True)
            if partial < 0:
                value = log2_sum * LN_2
                if total == 0.0:
                    value = Float32.inf
                lse[request, row] = value
            else:
                lse_partial[partial, row] = log2_sum

    @cute.jit
    def store(
        self,
        request: Int32,
        row_block: Int32,
        partial: Int32,
        factors: list[Float32],
        count: Int32,
        turn: Int32,
        is_last: cutlass.Boolean,
    ) -> None:
        """O times its factor, to the output, or to a partial result if the request is split.

        `factors` are of this pair and of the others of its cluster, whose blocks are received in this turn.
        """
        if partial < 0:
            self.store_columns(row_block, request, factors, count, turn, is_last)
        else:
            self.store_partial(row_block, partial, factors, count, turn, is_last)
        if not is_last:
            before_thread_sync()
            # All stores have read the memory that the next tile's P goes to, and all threads the others' sums.
            cute.arch.barrier(barrier_id=ALL_WARPS, number_of_threads=self.layout.softmax_threads)

    @cute.jit
    def announce_read(self, is_read: cutlass.Boolean) -> None:
        """This warp reads no tensor memory any more: it may be given back while the result is still being stored."""
        if is_read:
            before_thread_sync()
            cute.arch.cluster_arrive_relaxed()

    @cute.jit
    def store_partial(
        self,
        row_block: Int32,
        partial: Int32,
        factors: list[Float32],
        count: Int32,
        turn: Int32,
        is_last: cutlass.Boolean,
    ) -> None:
        """This thread's columns of its row to a partial result: 16 bytes at a time, beside the other rows' of its warp.

        Memory has rows for whole warps; those of others past the last row are not stored.
        """
        row = ROWS * row_block + CTA_ROWS * self.rank + self.row
        group = cute.arch.make_warp_uniform(row // WARP_LANES)
        width = WIDE if self.layout.early else CHUNK
        rounds = self.layout.stored_columns // width
        column = self.first_stored()
        for n in cutlass.range(rounds, unroll=1):
            column = self.next_column(column, n, rounds, count, is_last)
            values = self.read(OUT_COLUMN + column, width)
            self.announce_read(is_last & (n == rounds - 1))
            for i in cutlass.range_constexpr(width):
                values[i] = values[i] * factors[0]
            self.add_received(values, width * n, factors, turn)
            converted = cute.make_rmem_tensor((width,), self.partial_dtype)
            converted.store(values.load().to(self.partial_dtype))
            pieces = cute.local_tile(converted, (PIECE,), (None,))
            if group < cute.size(self.partials, mode=[3]):
                for piece in cutlass.range_constexpr(width // PIECE):
                    place = (column + HALF * self.upper) // PIECE + piece
                    target = self.partials[None, self.thread % WARP_LANES, place, group, partial]
                    cute.autovec_copy(pieces[None, piece], target)
            column += width

    @cute.jit
    def next_column(
        self, column: Int32, n: Int32, rounds: cutlass.Constexpr, count: Int32, is_last: cutlass.Boolean
    ) -> Int32:
        """Of round n; where the first half is early, the other is waited for."""
        if cutlass.const_expr(self.layout.early):
            is_other_half = n == rounds // 2
            if is_other_half:
                column += (OUT_COLUMNS - self.layout.stored_columns) // 2
                self.wait_for_result(self.layout.out_last, count, is_last)
        return column

    @cute.jit
    def store_columns(
        self,
        row_block: Int32,
        index: Int32,
        factors: list[Float32],
        count: Int32,
        turn: Int32,
        is_last: cutlass.Boolean,
    ) -> None:
        """This warp's 32 rows of its columns by TMA, 64 bytes of each row at a time (or 32), by way of shared memory.

        After the last item each round has memory of its own in the slots, which nobody needs any more; of the first
        rounds, which come early, that is where keys were. Before, all go through 2 KB of P's.
        """
        (atom, coordinates), kind = self.tma_out, self.dtype
        row_bytes = self.layout.store_row_bytes(kind.width // 8)
        width = row_bytes * 8 // kind.width
        rounds = self.layout.stored_columns // width
        warp, lane = cute.arch.make_warp_uniform(self.thread // 32), self.thread % 32
        tiles = cute.local_tile(coordinates, (32, width), (None, None, None))  # (32, width, blocks of rows, columns, n)
        rows = (CTAS * row_block + self.rank) * (CTA_ROWS // 32) + warp % 2
        box_elements, warps = STORE_BYTES * 8 // kind.width, self.layout.softmax_threads // WARP_LANES
        base = cute.recast_ptr(self.slots, dtype=kind)
        p_place = BOX_BYTES // STORE_BYTES * self.layout.p_box
        place, step = warp + Int32(select_(is_last, 0, p_place)), Int32(select_(is_last, warps, 0))
        column = self.first_stored()  # of this round, among those of half of the lanes
        for n in cutlass.range(rounds, unroll=1):
            column = self.next_column(column, n, rounds, count, is_last)
            values = self.read(OUT_COLUMN + column, width)
            self.announce_read(is_last & (n == rounds - 1))
            converted = cute.make_rmem_tensor((width,), kind)
            for i in cutlass.range_constexpr(width):
                values[i] = values[i] * factors[0]
            self.add_received(values, width * n, factors, turn)
            converted.store(values.load().to(kind))
            if cutlass.const_expr(not self.layout.early):  # carried on, it would cost uniform registers there
                place = Int32(select_(is_last, warps * n + warp, p_place + warp))
            start = base + box_elements * place
            if (lane == 0) & (not is_last):
                cute.arch.cp_async_bulk_wait_group(0, read=True)
            cute.arch.sync_warp()
            self.place(converted, start)
            cute.arch.fence_proxy("async.shared", space="cta")
            cute.arch.sync_warp()
            if lane == 0:
                box = cute.make_tensor(start, cute.make_layout((32, width), stride=(width, 1)))
                shared, target = cpasync.tma_partition(
                    atom, 0, cute.make_layout(1), cute.group_modes(box, 0, 2), cute.group_modes(tiles, 0, 2)
                )
                cute.copy(atom, shared, target[None, rows, column // width + HALF // width * (warp // 2 % 2), index])
                cute.arch.cp_async_bulk_commit_group()
            place += step
            column += width
        if lane == 0:
            cute.arch.cp_async_bulk_wait_group(0, read=True)

    def first_stored(self) -> Int32:
        """Where in O's columns of tensor memory those begin that this thread stores."""
        columns = self.layout.stored_columns // (2 if self.layout.early else 1)  # of each half, if early
        return columns * self.group

    def add_received(self, values: cute.Tensor, first: Any, factors: list[Float32], turn: Int32) -> None:
        """Where the pairs of a cluster merge: see merge.py."""

    def place(self, values: cute.Tensor, start: cute.Pointer) -> None:
        """Into this thread's row of the box: the swizzle moves piece c of row r to c xor r // 2 % 4 of 64 bytes, and to
        c xor r // 4 % 2 of 32."""
        per_piece = 128 // values.element_type.width
        row, width = self.thread % 32, cute.size(values)
        count = width // per_piece
        places = cute.make_tensor(start + row * width, cute.make_layout((per_piece, count)))
        pieces = cute.local_tile(values, (per_piece,), (None,))
        for piece in range(count):
            cute.autovec_copy(pieces[None, piece], places[None, piece ^ (row // (8 // count) % count)])
