"""MLA decode for Blackwell in CuTe DSL: the warp that issues the pair's products (see kernel.py for the picture)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32
from cutlass.cute.nvgpu import tcgen05
from cutlass.cutlass_dsl import select_

from kernels.mla_decode.cute_sm100.layout import (
    BEGIN,
    BOX_STEPS,
    CTAS,
    END,
    OUT_COLUMNS,
    SCORE_COLUMNS,
    SCORE_STAGES,
    Layout,
)
from kernels.tcgen05.fence import after_thread_sync

BOTH = (1 << CTAS) - 1  # CTAs of a cluster's first pair, as a mask


@dataclass
class Multiplier:
    """One warp of the pair's leader. Scores of the next tile are issued before the product with the values of this
    one, so that the tensor cores work while the softmax of a tile runs."""

    layout: Layout
    make_products: Callable[[], tuple[cute.TiledMma, cute.TiledMma]]  # anew at each use: `set` rebinds the atom's value
    q: cute.Tensor  # descriptors (MMA, 1, steps of a box, boxes)
    k: cute.Tensor  # descriptors (MMA, 1, steps of a box, boxes of all slots and the ropes behind them)
    p: cute.Tensor  # descriptors (MMA, 1, steps of a box, boxes)
    v: cute.Tensor  # descriptors (MMA, 1, steps of a unit, units of all slots)
    scores: cute.Tensor  # tensor memory (MMA, 1, 1), of the first stage
    out: cute.Tensor  # tensor memory (MMA, 1, 1), of the first half of the columns
    mbarriers: Any
    ctas: Any  # of the pair, as a mask of the cluster's

    @cute.jit
    def run(self, items: cute.Tensor, first_item: Int32, end_item: Int32) -> None:
        q_phase = Int32(0)
        count = Int32(0)  # tiles of the items before
        for number in cutlass.range(first_item, end_item, unroll=1):
            tiles = items[number, END] - items[number, BEGIN]
            if cutlass.const_expr(not self.layout.early):
                self.wait_for_q(True, 0, q_phase)
            q_phase ^= 1
            for n in cutlass.range(tiles + 1, unroll=1):
                if n < tiles:
                    self.issue_scores(count + n, n == 0, n == tiles - 1, q_phase ^ 1)
                if n > 0:
                    self.issue_values(count + n - 1, n > 1, (n == tiles) & (number + 1 == end_item))
            count += tiles

    @cute.jit
    def issue_scores(self, count: Int32, is_first: cutlass.Boolean, is_last: cutlass.Boolean, q_phase: Int32) -> None:
        """S = Q K^T of the tile, into its stage of tensor memory. After an item's last, the next Q may be loaded.

        An item's first tile waits for Q, too: part by part, so that products run while the rest is under way.

        The stage is free: P of the tile before last was waited for, and is made after its scores are read.
        """
        place = count % SCORE_STAGES
        scores = cute.make_tensor(self.scores.iterator + SCORE_COLUMNS * place, self.scores.layout)
        slot, phase = self.slot_of(count)
        for part in cutlass.range(self.layout.key_parts, unroll=1):  # straight code runs short of uniform registers
            if cutlass.const_expr(self.layout.early):
                self.wait_for_q(is_first, part, q_phase)
            full = self.layout.keys_full + self.layout.key_parts * slot + part
            cute.arch.mbarrier_wait(self.mbarriers + full, phase)
            if part == 0:
                self.multiply_keys(scores, *self.layout.rope_boxes(slot), self.layout.rope_steps, False)
            for q_box, k_box in self.layout.key_boxes(slot, part):
                self.multiply_keys(scores, q_box, k_box, BOX_STEPS, True)
            if cutlass.const_expr(not self.layout.in_place):
                self.commit(self.layout.free + self.layout.parts * slot + part)
        self.commit(self.layout.scores_full + place)
        if is_last:
            self.commit(self.layout.q_empty)

    @cute.jit
    def wait_for_q(self, is_first: cutlass.Boolean, part: Int32, phase: Int32) -> None:
        if is_first:
            cute.arch.mbarrier_wait(self.mbarriers + self.layout.q_full + part, phase)

    def multiply_keys(self, scores: cute.Tensor, q_box: Any, k_box: Any, steps: int, accumulate: bool) -> None:
        """S (+)= Q K^T over the columns of a box."""
        qk, _ = self.make_products()
        qk.set(tcgen05.Field.ACCUMULATE, accumulate)
        for k in range(steps):
            cute.gemm(qk, scores, self.q[None, None, k, q_box], self.k[None, None, k, k_box], scores)
            qk.set(tcgen05.Field.ACCUMULATE, True)

    @cute.jit
    def issue_values(self, count: Int32, accumulate: cutlass.Boolean, is_last: cutlass.Boolean) -> None:
        """O (+)= P V of the tile: two halves of each CTA's value columns times two pages. Of the last tile the first
        half is announced when it is complete, so that it is stored under the products of the other."""
        slot, phase = self.slot_of(count)
        first, all_full = self.layout.values_part(0), self.layout.values_full
        p_full, p_phase, p_box = self.layout.p_full, count % 2, 0
        if cutlass.const_expr(self.layout.moves):
            moved = is_last & accumulate  # its values: where it is not alone
            phase = Int32(select_(moved, phase ^ 1, phase))
            first = Int32(select_(moved, 0, first))
            all_full = self.layout.keys_full + first  # a slot's mbarriers stand as its parts do
            p_full, p_phase = Int32(select_(is_last, self.layout.p_last, p_full)), Int32(select_(is_last, 0, p_phase))
            p_box = Int32(select_(is_last, self.layout.p_last_box, 0))
        cute.arch.mbarrier_wait(self.mbarriers + p_full, p_phase)
        after_thread_sync()
        page_parts, part_units, steps = self.layout.page_parts, self.layout.part_units, self.layout.unit_steps
        by_part, parts = cutlass.const_expr(self.layout.by_part), 2 * page_parts
        start = first if by_part else 0
        for number in cutlass.range(start, start + parts, unroll=1):
            part, n = (number, number % parts) if by_part else (first + number, number)
            page, columns = self.layout.page_and_columns(n)
            cute.arch.mbarrier_wait(self.mbarriers + all_full + 2 * page_parts * slot + n, phase)
            _, pv = self.make_products()
            for unit in cutlass.range_constexpr(part_units):
                half = part_units * columns + unit
                place = part_units * (self.layout.parts * slot + part) + unit
                out = cute.make_tensor(self.out.iterator + OUT_COLUMNS // 2 * half, self.out.layout)
                pv.set(tcgen05.Field.ACCUMULATE, accumulate | (page > 0))
                for k in cutlass.range_constexpr(steps):
                    step = steps * page + k
                    p = self.p[None, None, step % BOX_STEPS, p_box + step // BOX_STEPS]
                    cute.gemm(pv, out, p, self.v[None, None, k, place], out)
                    pv.set(tcgen05.Field.ACCUMULATE, True)
                if cutlass.const_expr(unit == 0 and self.layout.halves):
                    is_half = is_last & (n == 1)
                    if is_half:
                        self.commit(self.layout.out_half)
            self.commit(self.layout.free + self.layout.parts * slot + part)
        out_full = self.layout.out_full
        if cutlass.const_expr(self.layout.moves):
            out_full = Int32(select_(is_last, self.layout.out_last, out_full))
        self.commit(out_full)

    def slot_of(self, count: Int32) -> tuple[Int32, Int32]:
        """Of a tile, and the phase of its mbarriers there."""
        return count % self.layout.slots, count // self.layout.slots % 2

    def commit(self, mbarrier: Any) -> None:
        """Signal it in both CTAs once all products issued so far are done."""
        with cute.arch.elect_one():
            tcgen05.commit(self.mbarriers + mbarrier, self.ctas, tcgen05.CtaGroup.TWO)
