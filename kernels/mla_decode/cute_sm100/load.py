"""MLA decode for Blackwell in CuTe DSL: the warp that loads (see kernel.py for the picture)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32
from cutlass.cute.nvgpu import cpasync

from kernels.mla_decode.cute_sm100 import layout
from kernels.mla_decode.cute_sm100.layout import BOX, BOXES, PAGE, STAGE_BOXES, STAGES


def next_stage(stage: Int32, phase: Int32) -> tuple[Int32, Int32]:
    """Of the ring, and the phase of its mbarriers there."""
    following = stage + 1
    return following % STAGES, phase ^ (following // STAGES)


@dataclass
class Loader:
    """One warp of each CTA. Keys: this CTA's page of a tile. Values: both pages, this CTA's part of the columns.

    Every copy signals the mbarrier of the pair's leader, which expects the bytes of both CTAs.
    """

    tma_q: cute.CopyAtom
    tma_kv: cute.CopyAtom
    q_tma: cute.Tensor  # coordinates (rows, 576, batch)
    kv_tma: cute.Tensor  # coordinates (64, 576, pages)
    q_boxes: cute.Tensor  # shared (64, 64, 9)
    kv_boxes: cute.Tensor  # shared (64, 64, 16)
    page_table: cute.Tensor
    rank: Int32  # of this CTA in its pair
    mbarriers: Any

    @cute.jit
    def run(self, items: cute.Tensor, first_item: Int32, end_item: Int32) -> None:
        """Every load of this CTA's work items, each as soon as the memory it goes to has been read."""
        gQ = cute.local_tile(self.q_tma, (layout.CTA_ROWS, BOX), (None, None, None))  # (64, 64, row blocks, 9, batch)
        q_shared, q_global = cpasync.tma_partition(
            self.tma_q, 0, cute.make_layout(1), cute.group_modes(self.q_boxes, 0, 2), cute.group_modes(gQ, 0, 2)
        )
        stage, phase, q_phase = Int32(0), Int32(1), Int32(1)  # a fresh mbarrier lets a wait for phase 1 pass
        # All before this overlaps the end of the kernel before this one in the stream. What that may have written is
        # read from here on, and the other warps write nothing before they have got something that was loaded here.
        cute.arch.griddepcontrol_wait()
        for number in cutlass.range(first_item, end_item, unroll=1):
            request, length = items[number, layout.REQUEST], items[number, layout.LENGTH]
            begin, end = items[number, layout.BEGIN], items[number, layout.END]
            cute.arch.mbarrier_wait(self.mbarriers + layout.Q_EMPTY, q_phase)
            q_phase ^= 1
            self.expect(layout.Q_FULL, BOXES)
            for box in cutlass.range_constexpr(BOXES):
                cute.copy(
                    self.tma_q,
                    q_global[None, 2 * items[number, layout.ROW_BLOCK] + self.rank, box, request],
                    q_shared[None, box],
                    tma_bar_ptr=self.mbarriers + layout.Q_FULL,
                )
            stage, phase = self.load_keys(request, begin, length, stage, phase)
            for tile in cutlass.range(begin + 1, end, unroll=1):
                stage, phase = self.load_keys(request, tile, length, stage, phase)
                stage, phase = self.load_values(request, tile - 1, length, stage, phase)
            stage, phase = self.load_values(request, end - 1, length, stage, phase)
        # The pair's products still release stages of this CTA: it must not end before.
        cute.arch.mbarrier_wait(self.mbarriers + layout.Q_EMPTY, q_phase)
        for _ in cutlass.range_constexpr(STAGES):
            cute.arch.mbarrier_wait(self.mbarriers + layout.KV_EMPTY + stage, phase)
            stage, phase = next_stage(stage, phase)

    @cute.jit
    def load_keys(self, request: Int32, tile: Int32, length: Int32, stage: Int32, phase: Int32) -> tuple[Int32, Int32]:
        """This CTA's page of a tile, all 576 columns."""
        shared, source = self.page(request, 2 * tile + self.rank, length)
        for n in cutlass.range_constexpr(layout.KEY_STAGES):
            boxes = tuple(range(STAGE_BOXES * n, min(STAGE_BOXES * (n + 1), BOXES)))
            cute.arch.mbarrier_wait(self.mbarriers + layout.KV_EMPTY + stage, phase)
            self.expect(layout.KV_FULL + stage, len(boxes))
            for place, box in enumerate(boxes):
                self.load_box(source[None, 0, box, 0], shared[None, STAGE_BOXES * stage + place], stage)
            stage, phase = next_stage(stage, phase)
        return stage, phase

    @cute.jit
    def load_values(
        self, request: Int32, tile: Int32, length: Int32, stage: Int32, phase: Int32
    ) -> tuple[Int32, Int32]:
        """Both pages of a tile: of each half of the value columns this CTA's 128."""
        for number in cutlass.range_constexpr(2):
            shared, source = self.page(request, 2 * tile + number, length)
            for half in cutlass.range_constexpr(2):
                cute.arch.mbarrier_wait(self.mbarriers + layout.KV_EMPTY + stage, phase)
                self.expect(layout.KV_FULL + stage, STAGE_BOXES)
                for place in cutlass.range_constexpr(STAGE_BOXES):
                    box = layout.HALF // BOX * half + STAGE_BOXES * self.rank + place
                    self.load_box(source[None, 0, box, 0], shared[None, STAGE_BOXES * stage + place], stage)
                stage, phase = next_stage(stage, phase)
        return stage, phase

    @cute.jit
    def page(self, request: Int32, number: Int32, length: Int32) -> tuple[cute.Tensor, cute.Tensor]:
        """Source and target boxes of page `number` of a request, of which TMA fetches the rows that hold its keys.

        The box begins before the page's first row by as many rows as the request leaves empty: TMA fills those with
        zeros, so nothing that lies past the request's end is ever read, and the keys come last in the box. A page past
        the end is all zeros, and its entry in the page table is not looked at.
        """
        keys = cutlass.min(cutlass.max(length - PAGE * number, 0), PAGE)
        index = Int32(0)
        if keys > 0:
            index = self.page_table[request, number]
        shifted = cute.domain_offset((keys - PAGE, 0, index), self.kv_tma)
        tiles = cute.local_tile(shifted, (PAGE, BOX), (None, None, None))  # (64, 64, 1, 9, pages)
        return cpasync.tma_partition(
            self.tma_kv, 0, cute.make_layout(1), cute.group_modes(self.kv_boxes, 0, 2), cute.group_modes(tiles, 0, 2)
        )

    def load_box(self, source: cute.Tensor, target: cute.Tensor, stage: Int32) -> None:
        cute.copy(self.tma_kv, source, target, tma_bar_ptr=self.mbarriers + layout.KV_FULL + stage)

    @cute.jit
    def expect(self, mbarrier: Any, boxes: cutlass.Constexpr) -> None:
        """The leader expects `boxes` from each CTA. The other CTA's may be counted before, but not two phases ahead."""
        if self.rank == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(
                    self.mbarriers + mbarrier, layout.CTAS * boxes * layout.BOX_BYTES
                )
