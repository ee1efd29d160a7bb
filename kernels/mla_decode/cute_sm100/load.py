"""MLA decode for Blackwell in CuTe DSL: the warp that loads (see kernel.py for the picture)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32
from cutlass.cute.nvgpu import cpasync
from cutlass.cutlass_dsl import select_

from kernels.mla_decode.cute_sm100.layout import (
    BEGIN,
    BOX_BYTES,
    CTA_ROWS,
    CTAS,
    END,
    HALF,
    LENGTH,
    PAGE,
    REQUEST,
    ROW_BLOCK,
    STAGE_BOXES,
    Layout,
)


def next_stage(stage: Int32, phase: Int32, stages: int) -> tuple[Int32, Int32]:
    """Of the ring, and the phase of its mbarriers there."""
    last = stage == stages - 1
    return Int32(select_(last, Int32(0), stage + 1)), Int32(select_(last, phase ^ 1, phase))


@dataclass
class Loader:
    """One warp of each CTA. Keys: this CTA's page of a tile. Values: both pages, this CTA's part of the columns.

    Every copy signals the mbarrier of the pair's leader, which expects the bytes of both CTAs.
    """

    layout: Layout
    tma_q: cute.CopyAtom
    tma_kv: cute.CopyAtom
    q_tma: cute.Tensor  # coordinates (rows, 576, batch)
    kv_tma: cute.Tensor  # coordinates (64, 576, pages)
    q_boxes: cute.Tensor  # shared (64, box, boxes)
    kv_boxes: cute.Tensor  # shared (64, box, boxes of the ring)
    page_table: cute.Tensor
    rank: Int32  # of this CTA in its pair
    mbarriers: Any

    @cute.jit
    def run(self, items: cute.Tensor, first_item: Int32, end_item: Int32) -> None:
        """Every load of this CTA's work items, each as soon as the memory it goes to has been read."""
        stage, phase, q_phase = Int32(0), Int32(1), Int32(1)  # a fresh mbarrier lets a wait for phase 1 pass
        next_request, next_block = items[first_item, REQUEST], items[first_item, ROW_BLOCK]
        next_begin, next_end, next_length = items[first_item, BEGIN], items[first_item, END], items[first_item, LENGTH]
        # All before this overlaps the end of the kernel before this one in the stream. What that may have written is
        # read from here on, and the other warps write nothing before they have got something that was loaded here.
        cute.arch.griddepcontrol_wait()
        for number in cutlass.range(first_item, end_item, unroll=1):
            request, row_block = next_request, next_block
            begin, end, length = next_begin, next_end, next_length
            self.load_q(request, row_block, q_phase)
            q_phase ^= 1
            following = cutlass.min(number + 1, end_item - 1)
            next_request, next_block = items[following, REQUEST], items[following, ROW_BLOCK]
            next_begin, next_end, next_length = items[following, BEGIN], items[following, END], items[following, LENGTH]
            stage, phase = self.load_keys(request, begin, length, stage, phase)
            for tile in cutlass.range(begin + 1, end, unroll=1):
                stage, phase = self.load_keys(request, tile, length, stage, phase)
                stage, phase = self.load_values(request, tile - 1, length, stage, phase)
            stage, phase = self.load_values(request, end - 1, length, stage, phase)
        # The pair's products still release stages of this CTA: it must not end before.
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.q_empty, q_phase)
        for _ in cutlass.range_constexpr(self.layout.stages):
            cute.arch.mbarrier_wait(self.mbarriers + self.layout.kv_empty + stage, phase)
            stage, phase = next_stage(stage, phase, self.layout.stages)

    @cute.jit
    def load_q(self, request: Int32, row_block: Int32, phase: Int32) -> None:
        """This CTA's 64 rows, once the scores of the item before have read its memory."""
        gQ = cute.local_tile(self.q_tma, (CTA_ROWS, self.layout.box), (None, None, None))  # (64, box, blocks, boxes, b)
        shared, source = cpasync.tma_partition(
            self.tma_q, 0, cute.make_layout(1), cute.group_modes(self.q_boxes, 0, 2), cute.group_modes(gQ, 0, 2)
        )
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.q_empty, phase)
        self.expect(self.layout.q_full, self.layout.boxes)
        for box in cutlass.range_constexpr(self.layout.boxes):
            cute.copy(
                self.tma_q,
                source[None, CTAS * row_block + self.rank, box, request],
                shared[None, box],
                tma_bar_ptr=self.mbarriers + self.layout.q_full,
            )

    @cute.jit
    def load_keys(self, request: Int32, tile: Int32, length: Int32, stage: Int32, phase: Int32) -> tuple[Int32, Int32]:
        """This CTA's page of a tile, all 576 columns."""
        shared, source = self.page(request, 2 * tile + self.rank, length)
        for n in cutlass.range_constexpr(self.layout.key_stages):
            boxes = range(STAGE_BOXES * n, min(STAGE_BOXES * (n + 1), self.layout.boxes))
            self.acquire(stage, phase, len(boxes))
            for place, box in enumerate(boxes):
                self.load_box(source[None, 0, box, 0], shared[None, STAGE_BOXES * stage + place], stage)
            stage, phase = next_stage(stage, phase, self.layout.stages)
        return stage, phase

    @cute.jit
    def load_values(
        self, request: Int32, tile: Int32, length: Int32, stage: Int32, phase: Int32
    ) -> tuple[Int32, Int32]:
        """Both pages of a tile: of each half of the value columns this CTA's 128."""
        unit_boxes, page_stages = self.layout.unit_boxes, self.layout.value_stages // 2
        for page in cutlass.range_constexpr(2):
            shared, source = self.page(request, 2 * tile + page, length)
            for n in cutlass.range_constexpr(page_stages):
                self.acquire(stage, phase, STAGE_BOXES)
                for place in cutlass.range_constexpr(STAGE_BOXES):
                    half, part = divmod(STAGE_BOXES * n + place, unit_boxes)
                    box = HALF // self.layout.box * half + unit_boxes * self.rank + part
                    self.load_box(source[None, 0, box, 0], shared[None, STAGE_BOXES * stage + place], stage)
                stage, phase = next_stage(stage, phase, self.layout.stages)
        return stage, phase

    @cute.jit
    def page(self, request: Int32, number: Int32, length: Int32) -> tuple[cute.Tensor, cute.Tensor]:
        """Target and source boxes of page `number` of a request, of which TMA fetches the rows that hold its keys.

        The box begins before the page's first row by as many rows as the request leaves empty: TMA fills those with
        zeros, so nothing that lies past the request's end is ever read, and the keys come last in the box. A page past
        the end is all zeros, and its entry in the page table is not looked at.
        """
        keys = cutlass.min(cutlass.max(length - PAGE * number, 0), PAGE)
        index = Int32(0)
        if keys > 0:
            index = self.page_table[request, number]
        shifted = cute.domain_offset((keys - PAGE, 0, index), self.kv_tma)
        tiles = cute.local_tile(shifted, (PAGE, self.layout.box), (None, None, None))  # (64, box, 1, boxes, pages)
        return cpasync.tma_partition(
            self.tma_kv, 0, cute.make_layout(1), cute.group_modes(self.kv_boxes, 0, 2), cute.group_modes(tiles, 0, 2)
        )

    def acquire(self, stage: Int32, phase: Int32, boxes: int) -> None:
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.kv_empty + stage, phase)
        self.expect(self.layout.kv_full + stage, boxes)

    def load_box(self, source: cute.Tensor, target: cute.Tensor, stage: Int32) -> None:
        cute.copy(self.tma_kv, source, target, tma_bar_ptr=self.mbarriers + self.layout.kv_full + stage)

    @cute.jit
    def expect(self, mbarrier: Any, boxes: cutlass.Constexpr, ctas: cutlass.Constexpr = CTAS) -> None:
        """The leader expects `boxes` from each CTA. The other CTA's may be counted before, but not two phases ahead."""
        if self.rank == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(self.mbarriers + mbarrier, ctas * boxes * BOX_BYTES)
