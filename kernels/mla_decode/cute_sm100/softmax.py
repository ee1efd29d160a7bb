"""MLA decode for Blackwell in CuTe DSL: the four warps between the products (see kernel.py for the picture)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32
from cutlass.cute.nvgpu import tcgen05
from cutlass.cutlass_dsl import select_

from kernels.mla_decode.cute_sm100 import layout
from kernels.mla_decode.cute_sm100.fence import after_thread_sync, before_thread_sync
from kernels.mla_decode.cute_sm100.layout import CTA_ROWS, LN_2, NEVER, PAGE, SLACK

LANE_STRIDE = 1 << 16  # of a tensor-memory address
CHUNK = 32  # columns of O that a thread holds at a time
CHUNKS = layout.OUT_COLUMNS // CHUNK
VECTOR_BYTES = 16


@dataclass
class Softmax:
    """A thread has one query row (thread % 64) and one page of a tile (thread // 64), and of O's columns half.

    Thread t and thread t + 64, in the warps w and w + 2, have the same row; they meet on the named barrier 1 + w.
    """

    dtype: type[cutlass.Numeric]
    thread: Int32
    rank: Int32  # of the CTA in its pair
    tensor_memory: cute.Pointer
    p: cute.Pointer  # shared: P of a tile, per page 64 rows of 128 bytes, swizzled in 16-byte pieces
    tops: cute.Tensor  # shared [2, 128]: a page's maxima, by parity of the tile
    sums: cute.Tensor  # shared [128]
    mbarriers: Any
    scale_log2: Float32

    @cute.jit
    def run(
        self, items: cute.Tensor, first_item: Int32, end_item: Int32, heads: Int32, hidden_tokens: Int32, outputs: Any
    ) -> None:
        count = Int32(0)  # tiles so far
        for number in cutlass.range(first_item, end_item, unroll=1):
            request, partial = items[number, layout.REQUEST], items[number, layout.PARTIAL]
            begin, end, length = items[number, layout.BEGIN], items[number, layout.END], items[number, layout.LENGTH]
            row = layout.ROWS * items[number, layout.ROW_BLOCK] + CTA_ROWS * self.rank + self.thread % CTA_ROWS
            limit = length - cutlass.max(hidden_tokens - row // heads, 0)  # keys from here on are hidden from the row
            maximum, total = Float32(NEVER), Float32(0.0)
            for tile in cutlass.range(begin, end, unroll=1):
                maximum, total = self.take_tile(tile, tile > begin, limit, length, count, maximum, total)
                count += 1
            total = self.add_sums(total)
            self.wait_for_out(count - 1)
            self.store(request, row, partial, maximum, total, outputs)
        # The combine kernel may take this SM. Not earlier: it would crowd the idle ones, and wait there.
        cute.arch.griddepcontrol_launch_dependents()

    @cute.jit
    def take_tile(
        self,
        tile: Int32,
        has_out: cutlass.Boolean,
        limit: Int32,
        length: Int32,
        count: Int32,
        maximum: Float32,
        total: Float32,
    ) -> tuple[Float32, Float32]:
        """P of a tile from its scores, and the row's new maximum and this thread's share of its sum.

        A maximum that grows by no more than SLACK is left as it is: P then reaches 2^SLACK at most, which every format
        here holds with the same relative precision, and O need not be multiplied.
        """
        scores = self.read_scores(count)
        self.mask(scores, 2 * tile + self.thread // CTA_ROWS, limit, length)
        top = self.row_maximum(scores, count) * self.scale_log2
        new = Float32(select_(top > maximum + SLACK, top, maximum))
        factor = cute.math.exp2(maximum - new, fastmath=True)
        probabilities, added = self.exponentiate(scores, new)
        # The product of the tile before has read P's memory, and O is complete up to there.
        self.wait_for_out(count - 1)
        if has_out & cute.arch.vote_any_sync(factor != 1.0):
            self.rescale(factor)
        self.store_probabilities(probabilities)
        cute.arch.fence_proxy("async.shared", space="cta")
        before_thread_sync()
        cute.arch.sync_warp()
        if self.thread % 32 == 0:
            cute.arch.mbarrier_arrive(self.mbarriers + layout.P_FULL, 0)
        return new, total * factor + added

    # -- scores to probabilities ----------------------------------------------------------------------------------

    def read_scores(self, count: Int32) -> cute.Tensor:
        """The 64 scores of this thread's row and page: registers (64)."""
        place = count % layout.SCORE_STAGES
        cute.arch.mbarrier_wait(self.mbarriers + layout.SCORES_FULL + place, count // layout.SCORE_STAGES % 2)
        after_thread_sync()
        return self.read(layout.SCORE_COLUMNS * place, layout.SCORE_COLUMNS)

    @cute.jit
    def mask(self, scores: cute.Tensor, page: Int32, limit: Int32, length: Int32) -> None:
        """Hide what is no key, and the keys from `limit` on. The keys of a page come last in its box: `Loader.page`."""
        empty = PAGE - cutlass.min(cutlass.max(length - PAGE * page, 0), PAGE)
        end = limit - PAGE * page + empty
        if (empty > 0) | (end < PAGE):
            for i in cutlass.range_constexpr(PAGE):
                if (i < empty) | (i >= end):
                    scores[i] = -Float32.inf

    def row_maximum(self, scores: cute.Tensor, count: Int32) -> Float32:
        """Over the row's keys in both pages of the tile."""
        tops = [scores[i] for i in range(4)]  # four chains: one would be a wait of 64 latencies
        for i in range(4, PAGE):
            tops[i % 4] = cute.arch.fmax(tops[i % 4], scores[i])
        top = cute.arch.fmax(cute.arch.fmax(tops[0], tops[1]), cute.arch.fmax(tops[2], tops[3]))
        # Two arrays used in turn: whoever writes one again has met its partner since on the other.
        self.tops[count % 2, self.thread] = top
        self.meet()
        return cute.arch.fmax(top, self.tops[count % 2, self.thread ^ CTA_ROWS])

    def exponentiate(self, scores: cute.Tensor, maximum: Float32) -> tuple[cute.Tensor, Float32]:
        """2^(S - maximum) rounded to the dtype, and its sum before the rounding."""
        sums = [Float32(0.0)] * 4
        for i in range(PAGE):
            scores[i] = cute.math.exp2(scores[i] * self.scale_log2 - maximum, fastmath=True)
            sums[i % 4] = sums[i % 4] + scores[i]
        probabilities = cute.make_rmem_tensor((PAGE,), self.dtype)
        probabilities.store(scores.load().to(self.dtype))
        return probabilities, (sums[0] + sums[1]) + (sums[2] + sums[3])

    def store_probabilities(self, probabilities: cute.Tensor) -> None:
        """Into the rows that the products read: the 128-byte swizzle moves piece c of row r to c xor r % 8."""
        row, page = self.thread % CTA_ROWS, self.thread // CTA_ROWS
        per_piece = VECTOR_BYTES * 8 // self.dtype.width
        target = cute.make_tensor(
            self.p + page * layout.BOX_ELEMENTS + row * layout.BOX,
            cute.make_layout((per_piece, PAGE // per_piece)),
        )
        pieces = cute.local_tile(probabilities, (per_piece,), (None,))
        for piece in range(PAGE // per_piece):
            cute.autovec_copy(pieces[None, piece], target[None, piece ^ (row % 8)])

    # -- tensor memory --------------------------------------------------------------------------------------------

    def wait_for_out(self, count: Int32) -> None:
        """The product of tile `count` with its values is done. Of tile -1, too: a fresh mbarrier is in phase 0."""
        cute.arch.mbarrier_wait(self.mbarriers + layout.OUT_FULL, count & 1)
        after_thread_sync()

    def columns(self, first: Any, count: int) -> cute.Tensor:
        return cute.make_tensor(self.tensor_memory + first, cute.make_layout((128, count), stride=(LANE_STRIDE, 1)))

    def read(self, first: Any, count: int) -> cute.Tensor:
        """`count` columns of this thread's lane, complete: registers (count)."""
        source = self.columns(first, count)
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(count)), Float32)
        copy = tcgen05.make_tmem_copy(atom, source).get_slice(self.thread)
        part = copy.partition_S(source)
        shape = copy.partition_D(cute.make_identity_tensor((128, count))).shape
        values = cute.make_rmem_tensor(shape, Float32)
        cute.copy(copy, part, values)
        cute.arch.fence_view_async_tmem_load()
        return cute.make_tensor(values.iterator, cute.make_layout(count))

    def write(self, values: cute.Tensor, first: Any, count: int) -> None:
        target = self.columns(first, count)
        atom = cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition(count)), Float32)
        copy = tcgen05.make_tmem_copy(atom, target).get_slice(self.thread)
        part = copy.partition_D(target)
        shape = copy.partition_S(cute.make_identity_tensor((128, count))).shape
        cute.copy(copy, cute.make_tensor(values.iterator, cute.make_layout(shape)), part)

    def rescale(self, factor: Float32) -> None:
        """O *= factor."""
        for chunk in range(CHUNKS):
            values = self.read(layout.OUT_COLUMN + CHUNK * chunk, CHUNK)
            for i in range(CHUNK):
                values[i] = values[i] * factor
            self.write(values, layout.OUT_COLUMN + CHUNK * chunk, CHUNK)
        cute.arch.fence_view_async_tmem_store()

    # -- end of an item -------------------------------------------------------------------------------------------

    @cute.jit
    def meet(self) -> None:
        """The two warps that share rows. What was written to shared memory before is seen after."""
        if self.thread // 32 % 2 == 0:
            cute.arch.barrier(barrier_id=1, number_of_threads=64)
        else:
            cute.arch.barrier(barrier_id=2, number_of_threads=64)

    def add_sums(self, total: Float32) -> Float32:
        """Over both pages of all tiles."""
        self.sums[self.thread] = total
        self.meet()
        return total + self.sums[self.thread ^ CTA_ROWS]

    @cute.jit
    def store(self, request: Int32, row: Int32, partial: Int32, maximum: Float32, total: Float32, outputs: Any) -> None:
        """Normalise, and store to the output, or a partial result if the request is split.

        A row that saw no key has the output 0; its log-sum-exp is +inf, that of a partial result -inf.
        """
        out, lse, out_partial, lse_partial = outputs
        log2_sum = maximum + cute.math.log2(total, fastmath=True)
        inverse = Float32(0.0)
        if total > 0.0:
            inverse = 1.0 / total
        inside = row < out.shape[1]
        half = self.thread // CTA_ROWS
        if inside & (half == 0):
            if partial < 0:
                value = log2_sum * LN_2
                if total == 0.0:
                    value = Float32.inf
                lse[request, row] = value
            else:
                lse_partial[partial, row] = log2_sum
        for chunk in cutlass.range_constexpr(CHUNKS):
            values = self.read(layout.OUT_COLUMN + CHUNK * chunk, CHUNK)  # of all lanes of a warp, stored or not
            for i in cutlass.range_constexpr(CHUNK):
                values[i] = values[i] * inverse
            per_half = CHUNKS // 2
            column = layout.HALF * (chunk // per_half) + CHUNK * (chunk % per_half) + layout.HALF // 2 * half
            if inside:
                if partial < 0:
                    self.store_chunk(values, out[request, row, None], column)
                else:
                    self.store_chunk(values, out_partial[partial, row, None], column)
        before_thread_sync()

    def store_chunk(self, values: cute.Tensor, target: cute.Tensor, column: Int32) -> None:
        """target[column : column + 32] = values, 16 bytes at a time."""
        kind = target.element_type
        per_piece = VECTOR_BYTES * 8 // kind.width
        converted = cute.make_rmem_tensor((CHUNK,), kind)
        converted.store(values.load().to(kind))
        pieces = cute.local_tile(converted, (per_piece,), (None,))
        places = cute.local_tile(target, (per_piece,), (None,))
        for piece in range(CHUNK // per_piece):
            cute.autovec_copy(pieces[None, piece], places[None, column // per_piece + piece])
