"""MLA decode for Blackwell in CuTe DSL: the warp that issues the pair's products (see kernel.py for the picture)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32
from cutlass.cute.nvgpu import tcgen05

from kernels.mla_decode.cute_sm100.fence import after_thread_sync
from kernels.mla_decode.cute_sm100.layout import (
    BEGIN,
    BOX_STEPS,
    CTAS,
    END,
    OUT_COLUMNS,
    SCORE_COLUMNS,
    SCORE_STAGES,
    STAGE_BOXES,
    Layout,
)
from kernels.mla_decode.cute_sm100.load import next_stage

BOTH = (1 << CTAS) - 1  # CTAs of the pair, as a mask


@dataclass
class Multiplier:
    """One warp of the pair's leader. Scores of the next tile are issued before the product with the values of this
    one, so that the tensor cores work while the softmax of a tile runs."""

    layout: Layout
    make_products: Callable[[], tuple[cute.TiledMma, cute.TiledMma]]  # anew at each use: `set` rebinds the atom's value
    q: cute.Tensor  # descriptors (MMA, 1, steps of a box, boxes)
    k: cute.Tensor  # descriptors (MMA, 1, steps of a box, boxes of the ring)
    p: cute.Tensor  # descriptors (MMA, 1, steps of a box, boxes)
    p_ring: cute.Tensor  # descriptors (MMA, 1, steps of a box, boxes of the ring): of P that lies in a slot
    v: cute.Tensor  # descriptors (MMA, 1, steps of a unit, units of the ring)
    scores: cute.Tensor  # tensor memory (MMA, 1, 1), of the first stage
    out: cute.Tensor  # tensor memory (MMA, 1, 1), of the first half of the columns
    mbarriers: Any

    @cute.jit
    def run(self, items: cute.Tensor, first_item: Int32, end_item: Int32) -> None:
        stage, phase, q_phase = Int32(0), Int32(0), Int32(0)
        count = Int32(0)  # tiles of the items before
        for number in cutlass.range(first_item, end_item, unroll=1):
            tiles = items[number, END] - items[number, BEGIN]
            cute.arch.mbarrier_wait(self.mbarriers + self.layout.q_full, q_phase)
            q_phase ^= 1
            stage, phase = self.issue_scores(count, tiles == 1, stage, phase)
            for tile in cutlass.range(1, tiles, unroll=1):
                stage, phase = self.issue_scores(count + tile, tile == tiles - 1, stage, phase)
                stage, phase = self.issue_values(count + tile - 1, tile > 1, stage, phase)
            stage, phase = self.issue_values(count + tiles - 1, tiles > 1, stage, phase)
            count += tiles

    @cute.jit
    def issue_scores(self, count: Int32, is_last: cutlass.Boolean, stage: Int32, phase: Int32) -> tuple[Int32, Int32]:
        """S = Q K^T of the tile, into its stage of tensor memory. After an item's last, the next Q may be loaded.

        The stage is free: P of the tile before last was waited for, and is made after its scores are read.
        """
        place = count % SCORE_STAGES
        scores = cute.make_tensor(self.scores.iterator + SCORE_COLUMNS * place, self.scores.layout)
        qk, _ = self.make_products()
        qk.set(tcgen05.Field.ACCUMULATE, False)
        stage_steps = STAGE_BOXES * BOX_STEPS
        for first in cutlass.range_constexpr(0, self.layout.key_steps, stage_steps):
            self.wait_for_stage(stage, phase)
            for step in cutlass.range_constexpr(first, min(first + stage_steps, self.layout.key_steps)):
                box, k = divmod(step, BOX_STEPS)
                slot = STAGE_BOXES * stage + box % STAGE_BOXES
                cute.gemm(qk, scores, self.q[None, None, k, box], self.k[None, None, k, slot], scores)
                qk.set(tcgen05.Field.ACCUMULATE, True)
            self.commit(self.layout.kv_empty + stage)
            stage, phase = next_stage(stage, phase, self.layout.stages)
        self.commit(self.layout.scores_full + place)
        if is_last:
            self.commit(self.layout.q_empty)
        return stage, phase

    @cute.jit
    def issue_values(
        self, count: Int32, accumulate: cutlass.Boolean, stage: Int32, phase: Int32
    ) -> tuple[Int32, Int32]:
        """O (+)= P V of the tile: two pages times two halves of the value columns."""
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.p_full, count % 2)
        after_thread_sync()
        _, pv = self.make_products()
        stage_units = STAGE_BOXES // self.layout.unit_boxes
        for n in cutlass.range_constexpr(self.layout.value_stages):
            self.wait_for_stage(stage, phase)
            for place in cutlass.range_constexpr(stage_units):
                page, half = divmod(stage_units * n + place, 2)
                out = cute.make_tensor(self.out.iterator + OUT_COLUMNS // 2 * half, self.out.layout)
                pv.set(tcgen05.Field.ACCUMULATE, accumulate if page == 0 else True)
                for k in cutlass.range_constexpr(self.layout.unit_steps):
                    p_box, p_step = divmod(self.layout.unit_steps * page + k, BOX_STEPS)
                    p, v = self.p[None, None, p_step, p_box], self.v[None, None, k, stage_units * stage + place]
                    cute.gemm(pv, out, p, v, out)
                    pv.set(tcgen05.Field.ACCUMULATE, True)
            self.commit(self.layout.kv_empty + stage)
            stage, phase = next_stage(stage, phase, self.layout.stages)
        self.commit(self.layout.out_full)
        return stage, phase

    def wait_for_stage(self, stage: Int32, phase: Int32) -> None:
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.kv_full + stage, phase)

    def commit(self, mbarrier: Any) -> None:
        """Signal it in both CTAs once all products issued so far are done."""
        with cute.arch.elect_one():
            tcgen05.commit(self.mbarriers + mbarrier, BOTH, tcgen05.CtaGroup.TWO)
