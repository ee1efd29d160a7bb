"""MLA decode for Blackwell in CuTe DSL: the warp that loads (see kernel.py for the picture)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32
from cutlass.cute.nvgpu import cpasync

from kernels.mla_decode.cute_sm100.layout import (
    BEGIN,
    BOX_BYTES,
    CTA_ROWS,
    CTAS,
    END,
    LATENT,
    LENGTH,
    PAGE,
    REQUEST,
    ROW_BLOCK,
    Layout,
)

Pages = tuple[Int32, Int32]  # where the cache has the two pages of a tile


@dataclass(frozen=True)
class Source:
    """A tensor that is loaded: 64 rows of a part of the latent columns at once, or of the rope's."""

    part: cute.CopyAtom
    part_tma: cute.Tensor  # coordinates (rows, columns of a box, boxes, outer)
    rope: cute.CopyAtom
    rope_tma: cute.Tensor  # coordinates (rows, 576, outer)


@dataclass
class Loader:
    """One warp of each CTA. Keys: this CTA's page of a tile. Values: both pages, this CTA's half of the columns.

    Every copy signals the mbarrier of the pair's leader, which expects the bytes of both CTAs.
    """

    layout: Layout
    q: Source
    kv: Source
    q_parts: cute.Tensor  # shared (64, box, part_boxes, parts)
    q_rope: cute.Tensor  # shared (64, box)
    parts: cute.Tensor  # shared (64, box, part_boxes, parts of all slots)
    ropes: cute.Tensor  # shared (64, box, slots)
    page_table: cute.Tensor
    rank: Int32  # of this CTA in its pair
    mbarriers: Any

    @cute.jit
    def run(self, items: cute.Tensor, first_item: Int32, end_item: Int32, first: tuple[Int32, ...]) -> None:
        """Every load of this CTA's work items, each as soon as the memory it goes to has been read.

        `first` has the first item's request, row block, begin, end and length.
        """
        count, q_phase = Int32(0), Int32(1)  # a fresh mbarrier lets a wait for phase 1 pass
        next_request, next_block, next_begin, next_end, next_length = first
        # All before this overlaps the end of the kernel before this one in the stream. What that may have written is
        # read from here on, and the other warps write nothing before they have got something that was loaded here.
        cute.arch.griddepcontrol_wait()
        for number in cutlass.range(first_item, end_item, unroll=1):
            request, row_block = next_request, next_block
            begin, end, length = next_begin, next_end, next_length
            here, ahead = self.pages(request, begin, length), self.pages(request, begin + 1, length)
            self.load_q(request, row_block, q_phase)
            q_phase ^= 1
            following = cutlass.min(number + 1, end_item - 1)
            next_request, next_block = items[following, REQUEST], items[following, ROW_BLOCK]
            next_begin, next_end, next_length = items[following, BEGIN], items[following, END], items[following, LENGTH]
            self.load_tiles(request, begin, end, length, count, here, ahead)
            count += end - begin
        # The pair's products still release slots of this CTA: it must not end before.
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.q_empty, q_phase)
        for _ in cutlass.range_constexpr(self.layout.slots):
            for part in cutlass.range_constexpr(self.layout.parts):
                self.wait_for_part(count, part)
            count += 1

    @cute.jit
    def load_tiles(
        self, request: Int32, begin: Int32, end: Int32, length: Int32, count: Int32, here: Pages, ahead: Pages
    ) -> None:
        """The keys of a tile, then the values of the one before. Page numbers are fetched a tile ahead: those of the
        first two are given."""
        self.load_keys(here, begin, length, count)
        for tile in cutlass.range(begin + 1, end, unroll=1):
            later = self.pages(request, tile + 1, length)
            self.load_keys(ahead, tile, length, count + tile - begin)
            self.load_values(here, tile - 1, length, count + tile - 1 - begin)
            here, ahead = ahead, later
        self.load_values(here, end - 1, length, count + end - 1 - begin)

    def wait_for_part(self, count: Int32, part: Any) -> None:
        """The products of the tile that was in the slot of tile `count` before have read it."""
        slot, phase = count % self.layout.slots, (count // self.layout.slots + 1) % 2
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.free + self.layout.parts * slot + part, phase)

    @cute.jit
    def expect(self, mbarrier: Any, boxes: cutlass.Constexpr, ctas: cutlass.Constexpr = CTAS) -> None:
        """The leader expects `boxes` from each CTA. The other CTA's may be counted before, but not two phases ahead."""
        if self.rank == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(self.mbarriers + mbarrier, ctas * boxes * BOX_BYTES)

    @cute.jit
    def load_q(self, request: Int32, row_block: Int32, phase: Int32) -> None:
        """This CTA's 64 rows, once the scores of the item before have read its memory."""
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.q_empty, phase)
        self.expect(self.layout.q_full, self.layout.boxes)
        mbarrier = self.mbarriers + self.layout.q_full
        block = CTAS * row_block + self.rank
        for part in cutlass.range_constexpr(self.layout.key_parts):
            self.load_part(self.q, Int32(0), block, part, request, self.q_parts, part, mbarrier)
        self.load_rope(self.q, Int32(0), block, request, self.q_rope, mbarrier)

    @cute.jit
    def load_keys(self, pages: Pages, tile: Int32, length: Int32, count: Int32) -> None:
        """This CTA's page of a tile, all 576 columns."""
        index = pages[0]
        if self.rank == 1:
            index = pages[1]
        row = self.first_row(2 * tile + self.rank, length)
        slot = count % self.layout.slots
        for part in cutlass.range_constexpr(self.layout.key_parts):
            full = self.layout.keys_full + self.layout.key_parts * slot + part
            self.wait_for_part(count, part)
            self.expect(full, len(self.layout.key_boxes(slot, part)))
            place = self.layout.parts * slot + part
            self.load_part(self.kv, row, Int32(0), part, index, self.parts, place, self.mbarriers + full)
            if cutlass.const_expr(part == self.layout.key_parts - 1):
                self.load_rope(self.kv, row, Int32(0), index, self.ropes[None, None, slot], self.mbarriers + full)

    @cute.jit
    def load_values(self, pages: Pages, tile: Int32, length: Int32, count: Int32) -> None:
        """Both pages of a tile, this CTA's half of the columns."""
        slot, page_parts = count % self.layout.slots, self.layout.page_parts
        for page in cutlass.range_constexpr(2):
            row = self.first_row(2 * tile + page, length)
            for n in cutlass.range_constexpr(page_parts):
                part = self.layout.values_part(page) + n
                full = self.layout.values_full + page_parts * (2 * slot + page) + n
                self.wait_for_part(count, part)
                self.expect(full, self.layout.part_boxes)
                columns, place = page_parts * self.rank + n, self.layout.parts * slot + part
                self.load_part(self.kv, row, Int32(0), columns, pages[page], self.parts, place, self.mbarriers + full)

    @cute.jit
    def pages(self, request: Int32, tile: Int32, length: Int32) -> Pages:
        """Of a tile. Entries past the request's end are not looked at."""
        first, second = Int32(0), Int32(0)
        if length > 2 * PAGE * tile:
            first = self.page_table[request, 2 * tile]
        if length > 2 * PAGE * tile + PAGE:
            second = self.page_table[request, 2 * tile + 1]
        return first, second

    def first_row(self, page: Int32, length: Int32) -> Int32:
        """Of the box of a page, from the page's own first row: 0, or negative where the request fills it in part.

        TMA fills rows before the page with zeros, so nothing that lies past the request's end is ever read, and the
        keys come last in the box. A page past the end is all zeros.
        """
        return cutlass.min(cutlass.max(length - PAGE * page, 0), PAGE) - PAGE

    def load_part(
        self,
        source: Source,
        row: Int32,
        block: Int32,
        columns: Int32,
        outer: Int32,
        shared: cute.Tensor,
        place: Int32,
        mbarrier: Any,
    ) -> None:
        """64 rows of a part of the latent columns by one instruction."""
        shifted = cute.domain_offset((row, 0, 0, 0), source.part_tma)
        tiles = cute.local_tile(shifted, (CTA_ROWS, self.layout.box, self.layout.part_boxes), (None, None, None, None))
        target, origin = cpasync.tma_partition(
            source.part, 0, cute.make_layout(1), cute.group_modes(shared, 0, 3), cute.group_modes(tiles, 0, 3)
        )
        cute.copy(source.part, origin[None, block, 0, columns, outer], target[None, place], tma_bar_ptr=mbarrier)

    def load_rope(
        self, source: Source, row: Int32, block: Int32, outer: Int32, shared: cute.Tensor, mbarrier: Any
    ) -> None:
        """64 rows of the rope's columns; of 8-bit elements the box is half outside, and zero there."""
        shifted = cute.domain_offset((row, 0, 0), source.rope_tma)
        tiles = cute.local_tile(shifted, (CTA_ROWS, self.layout.box), (None, None, None))
        target, origin = cpasync.tma_partition(
            source.rope, 0, cute.make_layout(1), cute.group_modes(shared, 0, 2), cute.group_modes(tiles, 0, 2)
        )
        cute.copy(source.rope, origin[None, block, LATENT // self.layout.box, outer], target, tma_bar_ptr=mbarrier)
