"""MLA decode for Blackwell in CuTe DSL: loads and products where a tile's values take the place of its keys.

Of the values of page p, CTA p already has what it multiplies: the columns 256 h + 128 p and up of its keys. The other
CTA loads its own columns of that page to the same place, over keys of its own that it does not multiply as values. So
a CTA loads 576 columns of one page and 256 of the other, instead of 576 of one and 256 of both: of the cache 1.44 times
its size from the L2 instead of 1.89.

    boxes of a slot, 8-bit elements    0            1            2            3            4
    keys of page p in CTA p            0 to 127     128 to 255   256 to 383   384 to 511   rope
    values then in CTA 0               page 0       page 1       page 0       page 1
    of the columns                     0 to 127     0 to 127     256 to 383   256 to 383
    values then in CTA 1               page 0       page 1       page 0       page 1
    of the columns                     128 to 255   128 to 255   384 to 511   384 to 511

Of 16 bits a box has half as many columns, and each of these is two. A slot is released unit by unit (a page and a half
of the columns), in the order of the products.
"""

from __future__ import annotations

from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
from cutlass import Int32
from cutlass.cute.nvgpu import tcgen05

from kernels.mla_decode.cute_sm100.fence import after_thread_sync
from kernels.mla_decode.cute_sm100.layout import (
    BEGIN,
    BOX_STEPS,
    END,
    LENGTH,
    OUT_COLUMNS,
    REQUEST,
    ROW_BLOCK,
    SCORE_COLUMNS,
    SCORE_STAGES,
    UNITS,
)
from kernels.mla_decode.cute_sm100.load import Loader
from kernels.mla_decode.cute_sm100.product import Multiplier


@dataclass
class InPlaceLoader(Loader):
    """Fields are those of `Loader`; tile number `count` of a CTA goes to slot count % slots."""

    @cute.jit
    def run(self, items: cute.Tensor, first_item: Int32, end_item: Int32) -> None:
        slots = self.layout.stages
        q_phase, count = Int32(1), Int32(0)
        next_request, next_block = items[first_item, REQUEST], items[first_item, ROW_BLOCK]
        next_begin, next_end, next_length = items[first_item, BEGIN], items[first_item, END], items[first_item, LENGTH]
        cute.arch.griddepcontrol_wait()  # see Loader.run
        for number in cutlass.range(first_item, end_item, unroll=1):
            request, row_block = next_request, next_block
            begin, end, length = next_begin, next_end, next_length
            self.load_q(request, row_block, q_phase)
            q_phase ^= 1
            following = cutlass.min(number + 1, end_item - 1)
            next_request, next_block = items[following, REQUEST], items[following, ROW_BLOCK]
            next_begin, next_end, next_length = items[following, BEGIN], items[following, END], items[following, LENGTH]
            tiles = end - begin
            for tile in cutlass.range(cutlass.min(tiles, slots), unroll=1):
                self.fill(request, begin + tile, length, count + tile)
            for tile in cutlass.range(tiles, unroll=1):
                self.replace(request, begin + tile, length, count + tile)
                # As the products of the tile before release it.
                following_tile = tile + slots - 1
                if (tile > 0) & (following_tile < tiles):
                    self.fill(request, begin + following_tile, length, count + following_tile)
            count += tiles
        # The pair's products still release slots of this CTA: it must not end before.
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.q_empty, q_phase)
        for _ in cutlass.range_constexpr(slots):
            for unit in cutlass.range_constexpr(UNITS):
                self.wait_for_unit(count, unit)
            count += 1

    def wait_for_unit(self, count: Int32, unit: int) -> None:
        """The products of the tile that was in the slot of tile `count` before have read it."""
        slot, phase = count % self.layout.stages, (count // self.layout.stages + 1) % 2
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.unit_free + UNITS * slot + unit, phase)

    @cute.jit
    def fill(self, request: Int32, tile: Int32, length: Int32, count: Int32) -> None:
        """This CTA's page of a tile, all 576 columns."""
        shared, source = self.page(request, 2 * tile + self.rank, length)
        slot = count % self.layout.stages
        for unit in cutlass.range_constexpr(UNITS):
            boxes = self.layout.released_boxes(unit)
            full = self.layout.keys_full + UNITS * slot + unit
            self.wait_for_unit(count, unit)
            self.expect(full, len(boxes))
            for box in boxes:
                target = shared[None, self.layout.boxes * slot + box]
                cute.copy(self.tma_kv, source[None, 0, box, 0], target, tma_bar_ptr=self.mbarriers + full)

    @cute.jit
    def replace(self, request: Int32, tile: Int32, length: Int32, count: Int32) -> None:
        """This CTA's columns of the other CTA's page, once the scores have read the keys that lie there."""
        other = 1 - self.rank
        shared, source = self.page(request, 2 * tile + other, length)
        slot = count % self.layout.stages
        ready = self.layout.scores_full + count % SCORE_STAGES
        cute.arch.mbarrier_wait(self.mbarriers + ready, count // SCORE_STAGES % 2)
        full = self.layout.values_full + 2 * slot
        unit_boxes = self.layout.unit_boxes
        self.expect(full, 2 * unit_boxes, ctas=1)
        self.expect(full + 1, 2 * unit_boxes, ctas=1)
        for n in cutlass.range_constexpr(2 * unit_boxes):
            half, part = divmod(n, unit_boxes)
            target = shared[None, self.layout.boxes * slot + self.layout.unit_box(other, half) + part]
            values = source[None, 0, self.layout.unit_box(self.rank, half) + part, 0]
            cute.copy(self.tma_kv, values, target, tma_bar_ptr=self.mbarriers + full + other)


@dataclass
class InPlaceMultiplier(Multiplier):
    """Fields are those of `Multiplier`; slot and phase follow from the number of the tile."""

    def p_of(self, page: int, k: int, slot: Int32) -> cute.Tensor:
        box, step = divmod(self.layout.unit_steps * page + k, BOX_STEPS)
        if self.layout.p_in_slot and page == 1:
            return self.p_ring[None, None, step, self.layout.boxes * slot + self.layout.boxes - 1]
        return self.p[None, None, step, box]

    @cute.jit
    def issue_scores(self, count: Int32, is_last: cutlass.Boolean, stage: Int32, phase: Int32) -> tuple[Int32, Int32]:
        place = count % SCORE_STAGES
        scores = cute.make_tensor(self.scores.iterator + SCORE_COLUMNS * place, self.scores.layout)
        slot, turn = count % self.layout.stages, count // self.layout.stages % 2
        qk, _ = self.make_products()
        qk.set(tcgen05.Field.ACCUMULATE, False)
        for unit in cutlass.range_constexpr(UNITS):
            cute.arch.mbarrier_wait(self.mbarriers + self.layout.keys_full + UNITS * slot + unit, turn)
            for box in self.layout.released_boxes(unit):
                for k in cutlass.range_constexpr(min(BOX_STEPS, self.layout.key_steps - BOX_STEPS * box)):
                    keys = self.k[None, None, k, self.layout.boxes * slot + box]
                    cute.gemm(qk, scores, self.q[None, None, k, box], keys, scores)
                    qk.set(tcgen05.Field.ACCUMULATE, True)
        self.commit(self.layout.scores_full + place)
        if is_last:
            self.commit(self.layout.q_empty)
        return stage, phase

    @cute.jit
    def issue_values(
        self, count: Int32, accumulate: cutlass.Boolean, stage: Int32, phase: Int32
    ) -> tuple[Int32, Int32]:
        slot, turn = count % self.layout.stages, count // self.layout.stages % 2
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.p_full, count % 2)
        after_thread_sync()
        _, pv = self.make_products()
        for page in cutlass.range_constexpr(2):
            cute.arch.mbarrier_wait(self.mbarriers + self.layout.values_full + 2 * slot + page, turn)
            for half in cutlass.range_constexpr(2):
                out = cute.make_tensor(self.out.iterator + OUT_COLUMNS // 2 * half, self.out.layout)
                box = self.layout.boxes * slot + self.layout.unit_box(page, half)
                pv.set(tcgen05.Field.ACCUMULATE, accumulate if page == 0 else True)
                for k in cutlass.range_constexpr(self.layout.unit_steps):
                    cute.gemm(pv, out, self.p_of(page, k, slot), self.v[None, None, k, box], out)
                    pv.set(tcgen05.Field.ACCUMULATE, True)
                self.commit(self.layout.unit_free + UNITS * slot + 2 * page + half)
        self.commit(self.layout.out_full)
        return stage, phase
