"""MLA decode for Hopper in CuTe DSL: what the two consumer warpgroups do (see cute_sm90/kernel.py for the picture)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr
from cutlass.cute.nvgpu import warpgroup
from cutlass.cutlass_dsl import select_

from kernels.mla_decode.cute_sm90.epilogue import Epilogue
from kernels.mla_decode.cute_sm90.layout import (
    ALL_TILES,
    BEGIN,
    END,
    HALF,
    KV_EMPTY,
    KV_FULL,
    LEFT_TILES,
    LENGTH,
    NEVER,
    P0_READY,
    P1_READY,
    PAGE,
    PARTIAL,
    Q_EMPTY,
    Q_FULL,
    Q_READ,
    REQUEST,
    RIGHT_TILES,
    ROPE_TILE,
    ROW_BLOCK,
    ROWS,
    SLACK,
    TILES,
)


def half_of(half: Int32, begin: Int32, end: Int32, length: Int32) -> tuple[Int32, Int32, Int32]:
    """Pages of the first or second half of an item's pages, and the request's length.

    The second half of a single page is that page with all keys hidden: every CTA has something to do and to trade.
    """
    middle = begin + (end - begin + 1) // 2
    second = half == 1
    empty = second & (middle == end)
    return (
        Int32(select_(second, cutlass.min(middle, end - 1), begin)),
        Int32(select_(second, end, middle)),
        Int32(select_(empty, Int32(0), length)),
    )


@dataclass
class Consumer(Epilogue):
    """One consumer warpgroup while the kernel is traced; tensors are registers of a thread unless said otherwise.

    A thread holds two rows of every accumulator: `rows[r]`, r = 0 or 1; element i of an accumulator belongs to row
    (i // 2) % 2 and to column 8 * (i // 4) + 2 * (lane % 4) + i % 2 (the wgmma accumulator layout of the PTX ISA).
    """

    index: int  # 0: even pages and O_L; 1: odd pages and O_R
    cluster: int  # CTAs that share page loads, one per row block
    halves: bool  # two CTAs have one half of an item's pages each
    meets: bool  # two pieces of a request are merged here: an item's partial result is then the number of a meeting
    thread: Int32  # in the warpgroup
    rank: Int32  # of the CTA among those that share page loads
    half: Int32  # of the pages
    dtype: type[cutlass.Numeric]
    mma_qk_first: cute.TiledMma  # overwrites S
    mma_qk: cute.TiledMma
    mma_local: cute.TiledMma  # P from registers
    mma_remote: cute.TiledMma  # P from shared memory
    q: cute.Tensor  # descriptors (MMA, 1, 4, 9)
    k: cute.Tensor  # descriptors (MMA, 1, 4, 18), page slot 0 then 1
    v: tuple[cute.Tensor, cute.Tensor]  # descriptors (MMA, 1, 4) of this half of each page's value
    p_remote: cute.Tensor  # descriptors (MMA, 1, 4): the other consumer's P
    p_store: cute.TiledCopy
    p_shared: cute.Tensor  # shared (64, 64): this consumer's P
    maximum: cute.Tensor  # shared [2, 64]: running maximum of the scaled scores, base 2, as either consumer left it
    scale: tuple[cute.Tensor, cute.Tensor]  # shared [64] each: factor that page 0's and page 1's maximum put on O
    sums: cute.Tensor  # shared [2, 2, 64]: item parity, consumer, row
    received: cute.Tensor  # shared [4, 128, 14] fp32, in Q's memory: what the other half's CTA sends
    mbarriers: Any
    scale_log2: Float32

    def __post_init__(self) -> None:
        qk, pv = self.mma_qk.get_slice(self.thread), self.mma_local.get_slice(self.thread)
        self.S = cute.make_rmem_tensor(qk.partition_shape_C((ROWS, PAGE)), Float32)
        self.O = cute.make_rmem_tensor(pv.partition_shape_C((ROWS, HALF)), Float32)
        # Accumulator and A operand order a row's columns alike: P needs no shuffle, only a view with K split in four.
        self.P = cute.make_rmem_tensor(self.S.layout, self.dtype)
        self.p_local = cute.make_tensor(self.P.iterator, cute.make_layout(((2, 2, 2), 1, 4), stride=((1, 2, 4), 0, 8)))
        self.m = cute.make_rmem_tensor((2,), Float32)  # running maximum
        self.top = cute.make_rmem_tensor((2,), Float32)  # maximum of the page
        self.own = cute.make_rmem_tensor((2,), Float32)  # factor that this consumer's page puts on O
        self.factor = cute.make_rmem_tensor((2,), Float32)  # the same of the other consumer's page
        self.l = cute.make_rmem_tensor((2,), Float32)  # this lane's share of the sum of P over this consumer's pages
        self.limit = cute.make_rmem_tensor((2,), Int32)  # keys from here on are hidden from the row
        self.lane = self.thread % 32
        self.row0 = (self.thread // 32) * 16 + self.lane // 4

    def row(self, r: int) -> Int32:
        return self.row0 + 8 * r

    # -- matrix products (asynchronous: each ends in a commit) ---------------------------------------------------

    def scores(self, tiles: tuple[int, ...], phase: Int32, first: bool = True) -> None:
        """S = Q K^T of this consumer's page, 64 columns at a time, each as soon as TMA has delivered them."""
        for number, tile in enumerate(tiles):
            slot_tile = TILES * self.index + tile
            cute.arch.mbarrier_wait(self.mbarriers + KV_FULL + slot_tile, phase)
            warpgroup.fence()
            for k in range(4):
                mma = self.mma_qk_first if first and number == 0 and k == 0 else self.mma_qk
                cute.gemm(mma, self.S, self.q[None, None, k, tile], self.k[None, None, k, slot_tile], self.S)
        warpgroup.commit_group()

    def values(self, slot: int) -> None:
        """O += P V over this consumer's half of the value columns of a page, P its own or the other consumer's."""
        mma, p = (self.mma_local, self.p_local) if slot == self.index else (self.mma_remote, self.p_remote)
        warpgroup.fence()
        for k in range(4):
            cute.gemm(mma, self.O, p[None, None, k], self.v[slot][None, None, k], self.O)
        warpgroup.commit_group()

    # -- softmax --------------------------------------------------------------------------------------------------

    @cute.jit
    def row_maximum(self, first_key: Int32, unmasked_keys: Int32) -> None:
        """Mask the keys that a row must not see (in a request's last pages), then top = scaled row maximum."""
        S = self.S  # a name of its own: what a dynamic branch writes must not hang on `self`
        if first_key + PAGE > unmasked_keys:
            column = first_key + 2 * (self.lane % 4)
            for i in cutlass.range_constexpr(32):
                if column + (8 * (i // 4) + i % 2) >= self.limit[(i // 2) % 2]:
                    S[i] = -Float32.inf
        self.reduce_maximum()

    def reduce_maximum(self) -> None:
        for r in range(2):
            tops = [self.S[2 * r], self.S[2 * r + 1], self.S[2 * r + 4], self.S[2 * r + 5]]
            for i in range(8 + 2 * r, 32, 8):  # four chains: one would be a wait of 16 latencies
                tops = [cute.arch.fmax(top, self.S[i + n]) for top, n in zip(tops, (0, 1, 4, 5), strict=True)]
            top = cute.arch.fmax(cute.arch.fmax(tops[0], tops[1]), cute.arch.fmax(tops[2], tops[3]))
            for offset in (1, 2):  # the four lanes of a quad share a row
                top = cute.arch.fmax(top, cute.arch.shuffle_sync_bfly(top, offset=offset))
            self.top[r] = top * self.scale_log2

    @cute.jit
    def raise_maximum(self) -> None:
        """Take this page's maximum in: publish the running maximum and the factor it puts on what was summed before.

        A maximum that grows by no more than SLACK is left as it is: P then reaches 2^SLACK at most, which every format
        here holds with the same relative precision, and the factor is 1, so that O need not be multiplied.
        """
        for r in cutlass.range_constexpr(2):
            higher = self.top[r] > self.m[r] + SLACK
            new = Float32(select_(higher, self.top[r], self.m[r]))
            self.own[r] = cute.math.exp2(self.m[r] - new, fastmath=True)
            self.m[r] = new
            self.l[r] = self.l[r] * self.own[r]
        maximum, scale = self.maximum, self.scale[self.index]
        if self.lane % 4 == 0:
            for r in cutlass.range_constexpr(2):
                scale[self.row(r)] = self.own[r]
                maximum[self.index, self.row(r)] = self.m[r]

    def exponentiate(self) -> None:
        """P = 2^(S - m), rounded to the dtype, into registers and shared memory; its fp32 sum is added to l."""
        sums = [Float32(0.0)] * 4  # two chains for each row
        for i in range(32):
            self.S[i] = cute.math.exp2(self.S[i] * self.scale_log2 - self.m[(i // 2) % 2], fastmath=True)
            sums[i % 4] = sums[i % 4] + self.S[i]
        for r in range(2):
            self.l[r] = self.l[r] + (sums[2 * r] + sums[2 * r + 1])
        self.P.store(self.S.load().to(self.dtype))
        copy = self.p_store.get_slice(self.thread)
        cute.copy(self.p_store, copy.retile(self.P), copy.partition_D(self.p_shared))

    def share(self, barrier: int) -> None:
        """Let the other consumer's tensor cores see P in shared memory. The fence takes time: issue a product first."""
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.mbarrier_arrive(self.mbarriers + barrier)

    def follow(self, slot: int) -> None:
        """After the other consumer's page raised the maximum: take over maximum and factor."""
        for r in range(2):
            self.m[r] = self.maximum[slot, self.row(r)]
            self.factor[r] = self.scale[slot][self.row(r)]
            self.l[r] = self.l[r] * self.factor[r]

    @cute.jit
    def rescale(self, factor: cute.Tensor, in_flight: bool) -> None:
        """O *= factor, if any row of the warp has one other than 1; first wait for a product into O, if one runs."""
        acc = self.O
        if cute.arch.vote_any_sync(cutlass.Boolean((factor[0] != 1.0) | (factor[1] != 1.0))):
            if const_expr(in_flight):
                warpgroup.wait_group(0)
            for i in cutlass.range_constexpr(128):
                acc[i] = acc[i] * factor[(i // 2) % 2]

    @cute.jit
    def release(self, slot: int) -> None:
        """Tell the producers of all CTAs that get this page that this consumer has read its half of it."""
        if self.lane < self.cluster:
            bar = self.mbarriers + KV_EMPTY + 2 * slot + self.index
            if const_expr(self.cluster > 1):
                cute.arch.mbarrier_arrive(bar, self.lane)
            else:
                cute.arch.mbarrier_arrive(bar)

    @cute.jit
    def leave_q(self) -> None:
        """The item's last scores are done: Q's memory is free for the next Q, or before that for the other half's O."""
        if const_expr(self.halves):
            if self.lane == 0:
                cute.arch.mbarrier_arrive(self.mbarriers + Q_READ, 1 - self.half)
        else:
            self.release_q()

    @cute.jit
    def release_q(self) -> None:
        if const_expr(self.halves):
            cute.arch.fence_proxy("async.shared", space="cta")  # read as ordinary memory, written by TMA next
        if self.lane == 0:
            cute.arch.mbarrier_arrive(self.mbarriers + Q_EMPTY)

    # -- work items ----------------------------------------------------------------------------------------------

    @cute.jit
    def consume(
        self, items: cute.Tensor, first_item: Int32, end_item: Int32, heads: Int32, hidden_tokens: Int32, outputs: Any
    ) -> None:
        """The work items of this CTA, as one of its two consumers."""
        q_phase, kv_phase, p_phase = Int32(0), Int32(0), Int32(0)
        for number in cutlass.range(first_item, end_item, unroll=1):
            request, partial = items[number, REQUEST], items[number, PARTIAL]
            begin, end, length = items[number, BEGIN], items[number, END], items[number, LENGTH]
            visible = length
            if const_expr(self.halves):
                begin, end, visible = half_of(self.half, begin, end, length)
            first_row = (items[number, ROW_BLOCK] + self.rank) * ROWS
            self.start(visible, first_row, heads, hidden_tokens)
            cute.arch.mbarrier_wait(self.mbarriers + Q_FULL, q_phase)
            if const_expr(self.index == 0):
                kv_phase, p_phase = self.run_even(begin, end, visible - hidden_tokens, kv_phase, p_phase)
            else:
                kv_phase, p_phase = self.run_odd(begin, end, visible - hidden_tokens, kv_phase, p_phase)
            self.finish(q_phase, request, first_row, partial, number + 1 == end_item, outputs)
            q_phase ^= 1
        # The combine kernel may take this SM. Not earlier: it would crowd the few idle SMs, and wait there.
        cute.arch.griddepcontrol_launch_dependents()

    def start(self, visible: Int32, first_row: Int32, heads: Int32, hidden_tokens: Int32) -> None:
        self.O.fill(0.0)
        self.S.fill(0.0)  # else the compiler keeps the last item's: a product that overwrites it counts as a reader
        for r in range(2):
            self.m[r] = Float32(NEVER)
            self.l[r] = Float32(0.0)
            token = (first_row + self.row(r)) // heads
            self.limit[r] = visible - cutlass.max(hidden_tokens - token, 0)

    @cute.jit
    def run_even(self, begin: Int32, end: Int32, unmasked: Int32, phase: Int32, p_phase: Int32) -> tuple[Int32, Int32]:
        """Consumer 0 over pages [begin, end) of an item; returns the phases of its slot's mbarriers and of P1's."""
        pairs = (end - begin + 1) // 2
        self.scores(ALL_TILES, phase)
        warpgroup.wait_group(0)
        phase ^= 1
        for pair in cutlass.range(pairs - 1, unroll=1):
            self.even_page((begin + 2 * pair) * PAGE, unmasked)
            self.take_odd_page(p_phase)
            self.scores(LEFT_TILES, phase)
            warpgroup.wait_group(1)  # P1 V1_L is done, the scores go on: the tensor cores always have work queued
            self.release(1)
            self.scores((*RIGHT_TILES, ROPE_TILE), phase, first=False)
            warpgroup.wait_group(0)
            phase ^= 1
            p_phase ^= 1
        self.leave_q()
        self.even_page((begin + 2 * (pairs - 1)) * PAGE, unmasked)
        if (end - begin) % 2 == 0:
            self.take_odd_page(p_phase)
            p_phase ^= 1
            warpgroup.wait_group(0)
            self.release(1)
        return phase, p_phase

    def even_page(self, first_key: Int32, unmasked: Int32) -> None:
        """Softmax of an even page and P0 V0_L, while consumer 1 multiplies Q K1^T."""
        self.row_maximum(first_key, unmasked)
        self.raise_maximum()
        self.exponentiate()
        self.rescale(self.own, in_flight=False)
        self.values(0)
        self.share(P0_READY)
        warpgroup.wait_group(0)
        self.release(0)

    def take_odd_page(self, phase: Int32) -> None:
        """Issue P1 V1_L once consumer 1 has P1."""
        cute.arch.mbarrier_wait(self.mbarriers + P1_READY, phase)
        self.follow(1)
        self.rescale(self.factor, in_flight=False)
        self.values(1)

    @cute.jit
    def run_odd(self, begin: Int32, end: Int32, unmasked: Int32, phase: Int32, p_phase: Int32) -> tuple[Int32, Int32]:
        """Consumer 1 over pages [begin, end) of an item; returns the phases of its slot's mbarriers and of P0's."""
        pages = end - begin
        full_pairs = pages // 2
        order = (
            *RIGHT_TILES,
            *LEFT_TILES,
            ROPE_TILE,
        )  # as they are loaded: consumer 1 itself frees the right half first
        if full_pairs > 0:
            self.scores(order, phase)
            warpgroup.wait_group(0)
            phase ^= 1
            for pair in cutlass.range(full_pairs - 1, unroll=1):
                self.odd_page((begin + 2 * pair + 1) * PAGE, unmasked, p_phase)
                self.scores(order, phase)
                warpgroup.wait_group(0)
                phase ^= 1
                p_phase ^= 1
            self.odd_page((begin + 2 * full_pairs - 1) * PAGE, unmasked, p_phase)
            p_phase ^= 1
        self.leave_q()
        if pages % 2 == 1:  # the last page is an even one
            self.take_even_page(p_phase)
            p_phase ^= 1
            warpgroup.wait_group(0)
            self.release(0)
        return phase, p_phase

    def odd_page(self, first_key: Int32, unmasked: Int32, p_phase: Int32) -> None:
        """P0 V0_R with the softmax of the odd page under it, then P1 V1_R."""
        self.row_maximum(first_key, unmasked)
        self.take_even_page(p_phase)
        self.raise_maximum()
        self.exponentiate()
        self.rescale(self.own, in_flight=True)
        self.values(1)
        self.share(P1_READY)
        warpgroup.wait_group(1)
        self.release(0)
        warpgroup.wait_group(0)
        self.release(1)

    def take_even_page(self, phase: Int32) -> None:
        """Issue P0 V0_R once consumer 0 has P0."""
        cute.arch.mbarrier_wait(self.mbarriers + P0_READY, phase)
        self.follow(0)
        self.rescale(self.factor, in_flight=False)
        self.values(0)
