"""MLA decode for Hopper in CuTe DSL: what the two consumer warpgroups do (see cute_sm90_kernel.py for the picture)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Boolean, Float32, Int32, const_expr
from cutlass.cute.nvgpu import warpgroup

from kernels.mla_decode.cute_sm90_layout import (
    BEGIN,
    CONSUMER_THREADS,
    END,
    HALF,
    ITEM_DONE,
    KV_EMPTY,
    KV_FULL,
    LEFT_TILES,
    LENGTH,
    LN_2,
    NEVER,
    P0_READY,
    P1_READY,
    PAGE,
    PARTIAL,
    Q_EMPTY,
    Q_FULL,
    REQUEST,
    RIGHT_TILES,
    ROPE_TILE,
    ROW_BLOCK,
    ROWS,
    TILES,
)


@dataclass
class Consumer:
    """One consumer warpgroup while the kernel is traced; tensors are registers of a thread unless said otherwise.

    A thread holds two rows of every accumulator: `rows[r]`, r = 0 or 1; element i of an accumulator belongs to row
    (i // 2) % 2 and to column 8 * (i // 4) + 2 * (lane % 4) + i % 2 (the wgmma accumulator layout of the PTX ISA).
    """

    index: int  # 0: even pages and O_L; 1: odd pages and O_R
    cluster: int
    thread: Int32  # in the warpgroup
    rank: Int32  # of the CTA in the cluster
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
    maximum: cute.Tensor  # shared [64]: running maximum of the scaled scores, base 2
    scale: tuple[cute.Tensor, cute.Tensor]  # shared [64] each: factor that page 0's and page 1's maximum put on O
    sums: cute.Tensor  # shared [2, 2, 64]: item parity, consumer, row
    mbarriers: Any
    scale_log2: Float32

    def __post_init__(self) -> None:
        qk, pv = self.mma_qk.get_slice(self.thread), self.mma_local.get_slice(self.thread)
        self.S = cute.make_rmem_tensor(qk.partition_shape_C((ROWS, PAGE)), Float32)
        self.O = cute.make_rmem_tensor(pv.partition_shape_C((ROWS, HALF)), Float32)
        # Accumulator and A operand order a row's columns alike, so P needs no shuffle: only a view with K split in four.
        self.P = cute.make_rmem_tensor(self.S.layout, self.dtype)
        self.p_local = cute.make_tensor(self.P.iterator, cute.make_layout(((2, 2, 2), 1, 4), stride=((1, 2, 4), 0, 8)))
        self.m = cute.make_rmem_tensor((2,), Float32)
        self.top = cute.make_rmem_tensor((2,), Float32)
        self.factor = cute.make_rmem_tensor((2,), Float32)
        self.l = cute.make_rmem_tensor((2,), Float32)
        self.limit = cute.make_rmem_tensor((2,), Int32)
        self.lane = self.thread % 32
        self.row0 = (self.thread // 32) * 16 + self.lane // 4

    def row(self, r: int) -> Int32:
        return self.row0 + 8 * r

    # -- matrix products (asynchronous: each ends in a commit) ---------------------------------------------------

    def scores(self, tiles: tuple[int, ...], phase: Int32, first: bool) -> None:
        """S (+)= Q K^T over some 64-column tiles of this consumer's page, each as soon as TMA has delivered it."""
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
        """Mask the keys that a row must not see (only a range's last pages have any), then top = row maximum, scaled."""
        S = self.S  # a name of its own: what a dynamic branch writes must not hang on `self`
        if first_key + PAGE > unmasked_keys:
            column = first_key + 2 * (self.lane % 4)
            for i in cutlass.range_constexpr(32):
                if column + (8 * (i // 4) + i % 2) >= self.limit[(i // 2) % 2]:
                    S[i] = -Float32.inf
        self.reduce_maximum()

    def reduce_maximum(self) -> None:
        for r in range(2):
            top = self.S[2 * r]
            for i in (i for i in range(32) if (i // 2) % 2 == r):
                top = cute.arch.fmax(top, self.S[i])
            for offset in (1, 2):  # the four lanes of a quad share a row
                top = cute.arch.fmax(top, cute.arch.shuffle_sync_bfly(top, offset=offset))
            self.top[r] = top * self.scale_log2

    @cute.jit
    def raise_maximum(self) -> None:
        """Take this page's maximum in: publish the new maximum and the factor it puts on what was summed before."""
        for r in cutlass.range_constexpr(2):
            new = cute.arch.fmax(self.m[r], self.top[r])
            self.factor[r] = cute.math.exp2(self.m[r] - new, fastmath=True)
            self.m[r] = new
            self.l[r] = self.l[r] * self.factor[r]
        maximum, scale = self.maximum, self.scale[self.index]
        if self.lane % 4 == 0:
            for r in cutlass.range_constexpr(2):
                scale[self.row(r)] = self.factor[r]
                maximum[self.row(r)] = self.m[r]

    def exponentiate(self) -> None:
        """P = 2^(S - m), rounded to the dtype; its fp32 sum is added to l."""
        for i in range(32):
            r = (i // 2) % 2
            self.S[i] = cute.math.exp2(self.S[i] * self.scale_log2 - self.m[r], fastmath=True)
        for r in range(2):
            total = self.S[2 * r] + self.S[2 * r + 1]
            for i in range(4 + 2 * r, 32, 4):
                total = total + (self.S[i] + self.S[i + 1])
            self.l[r] = self.l[r] + total
        self.P.store(self.S.load().to(self.dtype))

    def share(self, barrier: int) -> None:
        """Put P into shared memory for the other consumer's tensor cores and say so."""
        copy = self.p_store.get_slice(self.thread)
        cute.copy(self.p_store, copy.retile(self.P), copy.partition_D(self.p_shared))
        cute.arch.fence_proxy("async.shared", space="cta")  # ordinary stores, read by wgmma
        cute.arch.barrier_arrive(barrier_id=barrier, number_of_threads=CONSUMER_THREADS)

    def follow(self, slot: int) -> None:
        """After the other consumer's page raised the maximum: take over maximum and factor."""
        for r in range(2):
            self.m[r] = self.maximum[self.row(r)]
            self.factor[r] = self.scale[slot][self.row(r)]
            self.l[r] = self.l[r] * self.factor[r]

    def rescale(self) -> None:
        for i in range(128):
            self.O[i] = self.O[i] * self.factor[(i // 2) % 2]

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
    def release_q(self) -> None:
        if self.lane == 0:
            cute.arch.mbarrier_arrive(self.mbarriers + Q_EMPTY)

    # -- work items ----------------------------------------------------------------------------------------------

    @cute.jit
    def consume(
        self, items: cute.Tensor, first_item: Int32, end_item: Int32, heads: Int32, hidden_tokens: Int32, outputs: Any
    ) -> None:
        """The work items of this CTA, as one of its two consumers."""
        q_phase, kv_phase = Int32(0), Int32(0)
        for number in cutlass.range(first_item, end_item, unroll=1):
            request, partial = items[number, REQUEST], items[number, PARTIAL]
            begin, end, length = items[number, BEGIN], items[number, END], items[number, LENGTH]
            first_row = (items[number, ROW_BLOCK] + self.rank) * ROWS
            self.start(length, first_row, heads, hidden_tokens)
            cute.arch.mbarrier_wait(self.mbarriers + Q_FULL, q_phase)
            if const_expr(self.index == 0):
                kv_phase = self.run_even(begin, end, length - hidden_tokens, kv_phase)
            else:
                kv_phase = self.run_odd(begin, end, length - hidden_tokens, kv_phase)
            self.finish(q_phase, request, first_row, partial, outputs)
            q_phase ^= 1

    def start(self, length: Int32, first_row: Int32, heads: Int32, hidden_tokens: Int32) -> None:
        self.O.fill(0.0)
        for r in range(2):
            self.m[r] = Float32(NEVER)
            self.l[r] = Float32(0.0)
            token = (first_row + self.row(r)) // heads
            self.limit[r] = length - cutlass.max(hidden_tokens - token, 0)

    @cute.jit
    def run_even(self, begin: Int32, end: Int32, unmasked: Int32, phase: Int32) -> Int32:
        """Consumer 0 over pages [begin, end) of one item; returns the phase of its page slot's mbarriers."""
        pairs = (end - begin + 1) // 2
        self.scores((*LEFT_TILES, *RIGHT_TILES, ROPE_TILE), phase, first=True)
        warpgroup.wait_group(0)
        phase ^= 1
        for pair in cutlass.range(pairs - 1, unroll=1):
            self.even_page((begin + 2 * pair) * PAGE, unmasked)
            cute.arch.barrier(barrier_id=P1_READY, number_of_threads=CONSUMER_THREADS)
            self.follow(1)
            self.rescale()
            self.values(1)
            self.scores(LEFT_TILES, phase, first=True)
            warpgroup.wait_group(1)  # P1 V1_L is done, the scores may go on
            self.release(1)
            self.scores((*RIGHT_TILES, ROPE_TILE), phase, first=False)
            warpgroup.wait_group(0)
            phase ^= 1
        self.release_q()
        self.even_page((begin + 2 * (pairs - 1)) * PAGE, unmasked)
        if (end - begin) % 2 == 0:
            cute.arch.barrier(barrier_id=P1_READY, number_of_threads=CONSUMER_THREADS)
            self.follow(1)
            self.rescale()
            self.values(1)
            warpgroup.wait_group(0)
            self.release(1)
        return phase

    def even_page(self, first_key: Int32, unmasked: Int32) -> None:
        """Softmax of an even page and P0 V0_L, while consumer 1 multiplies Q K1^T and then P0 V0_R."""
        self.row_maximum(first_key, unmasked)
        self.raise_maximum()
        self.exponentiate()
        self.share(P0_READY)
        self.rescale()
        self.values(0)
        warpgroup.wait_group(0)
        self.release(0)

    @cute.jit
    def run_odd(self, begin: Int32, end: Int32, unmasked: Int32, phase: Int32) -> Int32:
        """Consumer 1 over pages [begin, end) of one item; returns the phase of its page slot's mbarriers."""
        pages = end - begin
        full_pairs = pages // 2
        order = (*RIGHT_TILES, *LEFT_TILES, ROPE_TILE)  # the right half is refilled first
        if full_pairs > 0:
            self.scores(order, phase, first=True)
            warpgroup.wait_group(0)
            phase ^= 1
            for pair in cutlass.range(full_pairs - 1, unroll=1):
                self.odd_page((begin + 2 * pair + 1) * PAGE, unmasked)
                self.scores(order, phase, first=True)
                warpgroup.wait_group(0)
                phase ^= 1
            self.odd_page((begin + 2 * full_pairs - 1) * PAGE, unmasked)
        self.release_q()
        if pages % 2 == 1:  # the last page is an even one
            cute.arch.barrier(barrier_id=P0_READY, number_of_threads=CONSUMER_THREADS)
            self.follow(0)
            self.rescale()
            self.values(0)
            warpgroup.wait_group(0)
            self.release(0)
        return phase

    def odd_page(self, first_key: Int32, unmasked: Int32) -> None:
        """P0 V0_R with the softmax of the odd page under it, then P1 V1_R."""
        self.row_maximum(first_key, unmasked)
        cute.arch.barrier(barrier_id=P0_READY, number_of_threads=CONSUMER_THREADS)
        self.follow(0)
        self.rescale()
        self.values(0)
        self.raise_maximum()
        self.exponentiate()
        self.share(P1_READY)
        warpgroup.wait_group(0)
        self.release(0)
        self.rescale()
        self.values(1)
        warpgroup.wait_group(0)
        self.release(1)

    @cute.jit
    def finish(self, parity: Int32, request: Int32, first_row: Int32, partial: Int32, outputs: Any) -> None:
        """Add the two consumers' sums, normalise, store: to the output, or as a partial result if the request is split."""
        out, lse, out_partial, lse_partial = outputs
        sums, factor = self.sums, self.factor
        for r in cutlass.range_constexpr(2):
            for offset in (1, 2):
                self.l[r] = self.l[r] + cute.arch.shuffle_sync_bfly(self.l[r], offset=offset)
        if self.lane % 4 == 0:
            for r in cutlass.range_constexpr(2):
                sums[parity, self.index, self.row(r)] = self.l[r]
        cute.arch.barrier(barrier_id=ITEM_DONE, number_of_threads=CONSUMER_THREADS)
        for r in cutlass.range_constexpr(2):
            row = first_row + self.row(r)
            if row < out.shape[1]:
                total = self.l[r] + sums[parity, 1 - self.index, self.row(r)]
                log2_sum = self.m[r] + cute.math.log2(total, fastmath=True)
                factor[r] = Float32(0.0)  # of a row that saw no key here: out 0, lse -inf
                if total > 0.0:
                    factor[r] = 1.0 / total
                if partial < 0:
                    self.store_row(r, out[request, row, None])
                    if const_expr(self.index == 0):
                        if self.lane % 4 == 0:
                            lse[request, row] = log2_sum * LN_2
                else:
                    self.store_row(r, out_partial[partial, row, None])
                    if const_expr(self.index == 0):
                        if self.lane % 4 == 0:
                            lse_partial[partial, row] = log2_sum

    def store_row(self, r: int, target: cute.Tensor) -> None:
        """target[256 index + ...] = O of row r times its factor; a quad of lanes writes 8 neighbouring columns."""
        pairs = cute.local_tile(target, (2,), (None,))  # (2, 256)
        for octet in range(32):
            value = cute.make_rmem_tensor((2,), target.element_type)
            for c in range(2):
                value[c] = (self.O[4 * octet + 2 * r + c] * self.factor[r]).to(target.element_type)
            cute.autovec_copy(value, pairs[None, HALF // 2 * self.index + 4 * octet + self.lane % 4])
