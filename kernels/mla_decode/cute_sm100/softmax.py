"""MLA decode for Blackwell in CuTe DSL: the warps between the products (see kernel.py for the picture)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32
from cutlass._mlir.dialects import nvvm
from cutlass.cutlass_dsl import select_

from kernels.mla_decode.cute_sm100.layout import (
    BEGIN,
    CTA_ROWS,
    CTAS,
    END,
    LENGTH,
    NEVER,
    PAGE,
    PARTIAL,
    REQUEST,
    ROW_BLOCK,
    ROWS,
    SCORE_COLUMNS,
    SCORE_STAGES,
)
from kernels.mla_decode.cute_sm100.merge import Merge
from kernels.tcgen05.fence import after_thread_sync, before_thread_sync

PIECE_BYTES = 16  # what the swizzle moves, and a thread stores at once


@dataclass
class Softmax(Merge):
    """A thread has one query row, one page of a tile and, where groups share a tile, a part of its keys.

    Fields are those of `Merge`. Threads of a row are 64 apart; their warps meet on the named barrier 1 + warp % 2.
    """

    @cute.jit
    def run(
        self, items: cute.Tensor, first_item: Int32, end_item: Int32, heads: Int32, hidden_tokens: Int32, lses: Any
    ) -> None:
        count = Int32(0)  # tiles so far
        for number in cutlass.range(first_item, end_item, unroll=1):
            request, row_block, partial = items[number, REQUEST], items[number, ROW_BLOCK], items[number, PARTIAL]
            begin, end, length = items[number, BEGIN], items[number, END], items[number, LENGTH]
            row = ROWS * row_block + CTA_ROWS * self.rank + self.row
            limit = length - cutlass.max(hidden_tokens - row // heads, 0)  # keys from here on are hidden from the row
            maximum, total = Float32(NEVER), Float32(0.0)
            for tile in cutlass.range(begin, end, unroll=1):
                moves = (tile + 1 == end) & (number + 1 == end_item)
                maximum, total = self.take_tile(tile, tile > begin, limit, length, count, maximum, total, moves)
                count += 1
            turn = number - first_item
            total = self.add_sums(total)
            is_last = number + 1 == end_item
            if cutlass.const_expr(self.layout.pairs > 1):
                maximum, total, factors = self.merge(maximum, total, count, turn, is_last)
                self.store_lse(request, row, partial, maximum, total, lses)
                self.store(request, row_block, partial, factors, count - 1, turn, is_last)
                self.release()
            else:
                self.store_lse(request, row, partial, maximum, total, lses)
                self.wait_for_first_out(count - 1, is_last)
                self.store(request, row_block, partial, [self.inverse(total)], count - 1, turn, is_last)
        self.announce_read(first_item == end_item)
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
        moves: cutlass.Boolean,
    ) -> tuple[Float32, Float32]:
        """P of a tile from its scores, and the row's new maximum and this thread's share of its sum.

        A maximum that grows by no more than the slack is left as it is: P then grows by 2^slack at most, for which its
        format has room, and O need not be multiplied. `maximum` is what P's exponents are relative to: the row's
        maximum less the offset.
        """
        scores = self.read_scores(count)
        self.mask(scores, 2 * tile + self.upper, limit, length)
        top = self.row_maximum(scores) * self.scale_log2 - self.layout.offset
        new = Float32(select_(top > maximum + self.layout.slack, top, maximum))
        factor = cute.math.exp2(maximum - new, fastmath=True)
        probabilities, added = self.exponentiate(scores, new)
        self.meet()  # all threads of the row have read the others' maxima: `exchange`. Here it hardly takes time.
        # The product of the tile before has read P's memory, and O is complete up to there.
        grows = has_out & cute.arch.vote_any_sync(factor != 1.0)
        if cutlass.const_expr(self.layout.moves):
            if (not moves) | grows:  # a last tile's P has memory of its own
                self.wait_for_out(count - 1)
        else:
            self.wait_for_out(count - 1)
        if grows:
            self.rescale(factor)
        self.store_probabilities(probabilities, moves)
        cute.arch.fence_proxy("async.shared", space="cta")
        before_thread_sync()
        cute.arch.sync_warp()
        if self.thread % 32 == 0:
            leader = 0 if cutlass.const_expr(self.layout.pairs == 1) else CTAS * self.pair
            p_full = self.layout.p_full
            if cutlass.const_expr(self.layout.moves):
                p_full = Int32(select_(moves, self.layout.p_last, p_full))
            cute.arch.mbarrier_arrive(self.mbarriers + p_full, leader, scope=nvvm.MemScopeKind.CLUSTER)
        return new, total * factor + added

    def read_scores(self, count: Int32) -> cute.Tensor:
        """The scores of this thread's row and keys: registers (score_columns)."""
        place = count % SCORE_STAGES
        phase = count // SCORE_STAGES % 2
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.scores_full + place, phase)
        after_thread_sync()
        columns = self.layout.score_columns
        return self.read(SCORE_COLUMNS * place + columns * self.group, columns)

    @cute.jit
    def mask(self, scores: cute.Tensor, page: Int32, limit: Int32, length: Int32) -> None:
        """Hide what is no key, and the keys from `limit` on. The keys of a page come last in its box: `Loader.page`."""
        columns = self.layout.score_columns
        empty = PAGE - cutlass.min(cutlass.max(length - PAGE * page, 0), PAGE)
        first = empty - columns * self.group  # among this thread's
        end = limit - PAGE * page + first
        if (first > 0) | (end < columns):
            for i in cutlass.range_constexpr(columns):
                if (i < first) | (i >= end):
                    scores[i] = -Float32.inf

    def row_maximum(self, scores: cute.Tensor) -> Float32:
        """Over the row's keys in both pages of the tile."""
        tops = [scores[i] for i in range(4)]  # four chains: one would be a wait of as many latencies as keys
        for i in range(4, self.layout.score_columns):
            tops[i % 4] = cute.arch.fmax(tops[i % 4], scores[i])
        top = cute.arch.fmax(cute.arch.fmax(tops[0], tops[1]), cute.arch.fmax(tops[2], tops[3]))
        for other in self.exchange(top):
            top = cute.arch.fmax(top, other)
        return top

    def exponentiate(self, scores: cute.Tensor, maximum: Float32) -> tuple[cute.Tensor, Float32]:
        """2^(S - maximum) rounded to the dtype, and its sum before the rounding."""
        columns = self.layout.score_columns
        sums = [Float32(0.0)] * 4
        for i in range(columns):
            scores[i] = cute.math.exp2(scores[i] * self.scale_log2 - maximum, fastmath=True)
            sums[i % 4] = sums[i % 4] + scores[i]
        probabilities = cute.make_rmem_tensor((columns,), self.dtype)
        probabilities.store(scores.load().to(self.dtype))
        return probabilities, (sums[0] + sums[1]) + (sums[2] + sums[3])

    def store_probabilities(self, probabilities: cute.Tensor, moves: cutlass.Boolean) -> None:
        """Into the rows that the products read: the 128-byte swizzle moves piece c of row r to c xor r % 8."""
        per_piece = PIECE_BYTES // self.layout.element_bytes
        key = PAGE * self.upper + self.layout.score_columns * self.group
        first = key % self.layout.box // per_piece
        box = self.layout.p_box + key // self.layout.box
        start = self.slots + (box * CTA_ROWS + self.row) * self.layout.box
        places = cute.make_tensor(start, cute.make_layout((per_piece, 8)))
        pieces = cute.local_tile(probabilities, (per_piece,), (None,))
        moved = 0
        if self.layout.moves:
            moved = Int32(select_(moves, self.layout.p_last_box * CTA_ROWS * self.layout.box, 0))
        for piece in range(self.layout.score_columns // per_piece):
            place = places[None, (first + piece) ^ (self.row % 8)]  # which does not change from tile to tile
            cute.autovec_copy(pieces[None, piece], cute.make_tensor((place.iterator + moved).align(16), place.layout))

    def add_sums(self, total: Float32) -> Float32:
        """Over all keys of the row."""
        for other in self.exchange(total):
            total = total + other
        return total
