"""MLA decode for Blackwell in CuTe DSL: the warp that issues the pair's products (see kernel.py for the picture)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32
from cutlass.cute.nvgpu import tcgen05

from kernels.mla_decode.cute_sm100 import layout
from kernels.mla_decode.cute_sm100.fence import after_thread_sync
from kernels.mla_decode.cute_sm100.layout import BOXES, STAGE_BOXES
from kernels.mla_decode.cute_sm100.load import next_stage

BOTH = (1 << layout.CTAS) - 1  # CTAs of the pair, as a mask


@dataclass
class Multiplier:
    """One warp of the pair's leader. Scores of the next tile are issued before the product with the values of this
    one, so that the tensor cores work while the softmax of a tile runs."""

    make_products: Callable[[], tuple[cute.TiledMma, cute.TiledMma]]  # anew at each use: `set` rebinds the atom's value
    q: cute.Tensor  # descriptors (MMA, 1, 4, 9)
    k: cute.Tensor  # descriptors (MMA, 1, 4, 16)
    p: cute.Tensor  # descriptors (MMA, 1, 4, 2): page
    v: cute.Tensor  # descriptors (MMA, 1, 4, 8)
    scores: cute.Tensor  # tensor memory (MMA, 1, 1), of the first stage
    out: cute.Tensor  # tensor memory (MMA, 1, 1), of the first half of the columns
    mbarriers: Any

    @cute.jit
    def run(self, items: cute.Tensor, first_item: Int32, end_item: Int32) -> None:
        stage, phase, q_phase = Int32(0), Int32(0), Int32(0)
        count = Int32(0)  # tiles whose scores have been issued
        for number in cutlass.range(first_item, end_item, unroll=1):
            tiles = items[number, layout.END] - items[number, layout.BEGIN]
            cute.arch.mbarrier_wait(self.mbarriers + layout.Q_FULL, q_phase)
            q_phase ^= 1
            stage, phase = self.issue_scores(count, stage, phase)
            for tile in cutlass.range(1, tiles, unroll=1):
                stage, phase = self.issue_scores(count + tile, stage, phase)
                stage, phase = self.issue_values(count + tile - 1, tile > 1, stage, phase)
            self.commit(layout.Q_EMPTY)
            stage, phase = self.issue_values(count + tiles - 1, tiles > 1, stage, phase)
            count += tiles

    @cute.jit
    def issue_scores(self, count: Int32, stage: Int32, phase: Int32) -> tuple[Int32, Int32]:
        """S = Q K^T of the tile, into its stage of tensor memory.

        The stage is free: P of the tile before last was waited for, and is made after its scores are read.
        """
        place = count % layout.SCORE_STAGES
        scores = cute.make_tensor(self.scores.iterator + layout.SCORE_COLUMNS * place, self.scores.layout)
        qk, _ = self.make_products()
        qk.set(tcgen05.Field.ACCUMULATE, False)
        for n in cutlass.range_constexpr(layout.KEY_STAGES):
            self.wait_for_stage(stage, phase)
            for box in range(STAGE_BOXES * n, min(STAGE_BOXES * (n + 1), BOXES)):
                slot = STAGE_BOXES * stage + box % STAGE_BOXES
                for k in range(4):
                    cute.gemm(qk, scores, self.q[None, None, k, box], self.k[None, None, k, slot], scores)
                    qk.set(tcgen05.Field.ACCUMULATE, True)
            self.commit(layout.KV_EMPTY + stage)
            stage, phase = next_stage(stage, phase)
        self.commit(layout.SCORES_FULL + place)
        return stage, phase

    @cute.jit
    def issue_values(
        self, count: Int32, accumulate: cutlass.Boolean, stage: Int32, phase: Int32
    ) -> tuple[Int32, Int32]:
        """O (+)= P V of the tile: two pages times two halves of the value columns."""
        cute.arch.mbarrier_wait(self.mbarriers + layout.P_FULL, count % 2)
        after_thread_sync()
        _, pv = self.make_products()
        for page in cutlass.range_constexpr(2):
            for half in cutlass.range_constexpr(2):
                self.wait_for_stage(stage, phase)
                out = cute.make_tensor(self.out.iterator + layout.OUT_COLUMNS // 2 * half, self.out.layout)
                pv.set(tcgen05.Field.ACCUMULATE, accumulate if page == 0 else True)
                for k in range(4):
                    cute.gemm(pv, out, self.p[None, None, k, page], self.v[None, None, k, stage], out)
                    pv.set(tcgen05.Field.ACCUMULATE, True)
                self.commit(layout.KV_EMPTY + stage)
                stage, phase = next_stage(stage, phase)
        self.commit(layout.OUT_FULL)
        return stage, phase

    def wait_for_stage(self, stage: Int32, phase: Int32) -> None:
        cute.arch.mbarrier_wait(self.mbarriers + layout.KV_FULL + stage, phase)

    def commit(self, mbarrier: Any) -> None:
        """Signal it in both CTAs once all products issued so far are done."""
        with cute.arch.elect_one():
            tcgen05.commit(self.mbarriers + mbarrier, BOTH, tcgen05.CtaGroup.TWO)
