"""MLA decode for Blackwell in CuTe DSL: the pairs of a cluster have a request's keys between them, and merge.

Where a batch is small, requests are split. Partial results in global memory cost a second kernel that reads them; so
the pieces that the pairs of a cluster have go through distributed shared memory instead. Each pair stores a block of
the columns: it sends the other blocks of what it has to the pairs that store those, in 16 bits and normalised, with the
log-sum-exp of its rows, and weighs what it gets as the combine kernel does.

A block is a half or a quarter of O's columns in tensor memory, and of each group's, so that all softmax warps have as
much to send and to merge, and one group begins while the other's half is still multiplied (in 16 bits). It is received
where Q was, whose last reader, the products with the last keys, is long done by then: [block of another pair][half of
the lanes][8 columns][row], 16 bytes each, so that a warp's accesses lie side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32
from cutlass._mlir.dialects import nvvm
from cutlass.cutlass_dsl import select_

from kernels.mla_decode.cute_sm100.epilogue import Epilogue
from kernels.mla_decode.cute_sm100.layout import CHUNK, CTA_ROWS, CTAS, OUT_COLUMN, OUT_COLUMNS, PIECE


@dataclass
class Merge(Epilogue):
    """A part of `Softmax`. Fields are those of `Epilogue`.

    What comes from pair `pair ^ (n + 1)` is block n: so sender and receiver count alike.
    """

    def merge(
        self, maximum: Float32, total: Float32, count: Int32, turn: Int32, is_last: cutlass.Boolean
    ) -> tuple[Float32, Float32, Any]:
        """Send, and receive the log-sum-exp.

        Returns the row's maximum and sum over all pairs, and what each pair's O is multiplied by: this one's, which is
        not normalised, and those of the blocks."""
        self.offer()
        log2_sum = maximum + cute.math.log2(total, fastmath=True)
        inverse = self.inverse(total)
        # The other pairs' products have read their Q. What was received for the item before has been merged, too.
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.room, turn % 2)
        self.send_sum(log2_sum)
        last, half = (self.layout.out_last, self.layout.out_half) if self.layout.halves else (0, 0)
        self.wait_for_result(Int32(select_(self.group == 0, half, last)), count - 1, is_last)
        self.send(inverse)
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.sums, turn % 2)
        sums = [log2_sum, *(self.sum_received(block) for block in range(self.layout.pairs - 1))]
        top = sums[0]
        for other in sums[1:]:
            top = cute.arch.fmax(top, other)
        top = Float32(select_(top == -Float32.inf, 0.0, top))  # no pair has seen a key: their weights are 0, not NaN
        weights = [cute.math.exp2(value - top, fastmath=True) for value in sums]
        added = weights[0]
        for weight in weights[1:]:
            added = added + weight
        scale = self.inverse(added)
        return top, added, [weights[0] * scale * inverse, *(weight * scale for weight in weights[1:])]

    @cute.jit
    def offer(self) -> None:
        """Let the other pairs write where Q was: this pair's products with an item's last keys are done."""
        if self.thread == 0:
            sums = CTA_ROWS * 4 * (self.layout.pairs - 1)
            cute.arch.mbarrier_arrive_and_expect_tx(self.mbarriers + self.layout.sums, sums)
            chunks = self.layout.chunks * self.layout.groups
            for n in cutlass.range_constexpr((self.layout.pairs - 1) * chunks):
                chunk = self.layout.block_bytes // chunks
                cute.arch.mbarrier_arrive_and_expect_tx(self.mbarriers + self.layout.received + n, chunk)
            for n in cutlass.range_constexpr(1, self.layout.pairs):
                room = self.mbarriers + self.layout.room
                cute.arch.mbarrier_arrive(room, self.peer(self.pair ^ n), scope=nvvm.MemScopeKind.CLUSTER)

    @cute.jit
    def release(self) -> None:
        """What was received has been merged, by all warps: the next Q may be loaded to its place."""
        if self.thread == 0:
            cute.arch.mbarrier_arrive(self.mbarriers + self.layout.q_empty)

    def peer(self, pair: Int32) -> Int32:
        """The CTA of the cluster that has the same rows in another pair."""
        return CTAS * pair + self.rank

    @cute.jit
    def send_sum(self, log2_sum: Float32) -> None:
        """The rows' log-sum-exp, base 2, to all other pairs."""
        if self.thread < CTA_ROWS:
            bits = cute.make_rmem_tensor((1,), Float32)
            bits[0] = log2_sum
            word = cute.recast_tensor(bits, Int32)[0]
            for n in cutlass.range_constexpr(1, self.layout.pairs):
                sums = self.mbarriers + self.layout.sums
                cute.arch.store_async_dsmem(self.place_sum(n - 1), word, sums, self.peer(self.pair ^ n))

    @cute.jit
    def send(self, inverse: Float32) -> None:
        """This thread's columns of the other pairs' blocks, normalised. Mbarriers there count the bytes."""
        for n in cutlass.range((self.layout.pairs - 1) * self.layout.chunks, unroll=1):
            block, chunk = n // self.layout.chunks, n % self.layout.chunks
            pair = cute.arch.make_warp_uniform(self.pair ^ (block + 1))
            own = self.layout.stored_columns * self.group + CHUNK * chunk  # column of the block
            values = self.read(OUT_COLUMN + self.first_column(pair) + CHUNK * chunk, CHUNK)
            for i in cutlass.range_constexpr(CHUNK):
                values[i] = values[i] * inverse
            converted = cute.make_rmem_tensor((CHUNK,), self.partial_dtype)
            converted.store(values.load().to(self.partial_dtype))
            words = cute.recast_tensor(converted, Int32)
            mbarrier = self.mbarriers + self.layout.received + self.layout.groups * n + self.group
            for piece in cutlass.range_constexpr(CHUNK // PIECE):
                place = self.place_received(block, own + PIECE * piece)
                value = tuple(words[PIECE // 2 * piece + w] for w in range(PIECE // 2))
                cute.arch.store_async_dsmem(place, value, mbarrier, self.peer(pair))

    def place_received(self, block: Any, column: Any) -> cute.Pointer:
        """Of 8 columns of this thread's row."""
        piece = self.layout.block_columns // PIECE * self.upper + column // PIECE
        words = self.layout.block_bytes // 4 * block + PIECE // 2 * (CTA_ROWS * piece + self.row)
        return (self.received + words).align(2 * PIECE)

    def place_sum(self, block: int) -> cute.Pointer:
        words = (self.layout.pairs - 1) * self.layout.block_bytes // 4 + CTA_ROWS * block
        return self.received + words + self.row

    def sum_received(self, block: int) -> Float32:
        """Log-sum-exp of the row, base 2, over the keys of another pair."""
        return cute.make_tensor(cute.recast_ptr(self.place_sum(block), dtype=Float32), cute.make_layout(1))[0]

    def first_column(self, pair: Int32) -> Int32:
        """Of this group's in the block of a pair, among those of half of the lanes."""
        return OUT_COLUMNS // self.layout.groups * self.group + self.layout.stored_columns * pair

    def first_stored(self) -> Int32:
        return super().first_stored() if self.layout.pairs == 1 else self.first_column(self.pair)

    def add_received(self, values: cute.Tensor, first: Any, factors: list[Float32], turn: Int32) -> None:
        """What was received of a thread's columns of the block, from `first` on, times its factor: each chunk as soon
        as it is there."""
        for block, factor in enumerate(factors[1:]):
            for chunk in range(cute.size(values) // CHUNK):
                n = self.layout.chunks * block + first // CHUNK + chunk
                mbarrier = self.layout.received + self.layout.groups * n + self.group
                cute.arch.mbarrier_wait(self.mbarriers + mbarrier, turn % 2)
                for piece in range(CHUNK // PIECE):
                    at = CHUNK * chunk + PIECE * piece
                    column = self.layout.stored_columns * self.group + first + at
                    place = cute.recast_ptr(self.place_received(block, column), dtype=self.partial_dtype)
                    found = cute.make_rmem_tensor((PIECE,), self.partial_dtype)
                    cute.autovec_copy(cute.make_tensor(place, cute.make_layout(PIECE)), found)
                    there = found.load().to(Float32)
                    for i in range(PIECE):
                        values[at + i] = values[at + i] + factor * there[i]
