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
    ITEM_COLUMNS,
    LATENT,
    LENGTH,
    PAGE,
    REQUEST,
    ROW_BLOCK,
    WARP_LANES,
    Layout,
)

Pages = tuple[Int32, Int32]  # where the cache has the two pages of a tile
Entries = tuple[Int32, Int32]  # of the page table, a lane's share of as many tiles, by turns
TILES_AHEAD = WARP_LANES // 2
FEW_TILES = 2  # of an item, from which on DRAM binds more than what waits for its last keys


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
        moved = Int32(0)  # tiles whose values went where keys were: the last, if any
        next_request, next_block, next_begin, next_end, next_length = first
        # All before this overlaps the end of the kernel before this one in the stream. What that may have written is
        # read from here on, and the other warps write nothing before they have got something that was loaded here.
        cute.arch.griddepcontrol_wait()
        for number in cutlass.range(first_item, end_item, unroll=1):
            request, row_block = next_request, next_block
            begin, end, length = next_begin, next_end, next_length
            entries = self.lookup(request, begin, length), self.lookup(request, begin + TILES_AHEAD, length)
            # A column in each lane, as the pages are: the first keys need not wait for them. And before Q is asked for.
            following = items[cutlass.min(number + 1, end_item - 1), cute.arch.lane_idx() % ITEM_COLUMNS]
            self.load_q(request, row_block, q_phase)
            q_phase ^= 1
            is_last = number + 1 == end_item
            moved = Int32(select_(is_last & (end - begin > 1), 1, 0))
            self.load_tiles(request, begin, end, length, count, entries, is_last)
            count += end - begin
            next_request, next_block, next_begin, next_end, next_length = (
                cute.arch.shuffle_sync(following, column) for column in (REQUEST, ROW_BLOCK, BEGIN, END, LENGTH)
            )
        cute.arch.cluster_arrive_relaxed()  # see kernel.py
        # The pair's products still release slots of this CTA: it must not end before.
        if cutlass.const_expr(self.layout.moves):  # the last values were released where keys are
            tiles = count - Int32(select_(first_item < end_item, 1, 0))  # that out_full is signalled for
            cute.arch.mbarrier_wait(self.mbarriers + self.layout.out_full, (tiles - 1) & 1)
            for part in cutlass.range_constexpr(self.layout.parts):
                self.wait_for_part(count + moved if part < self.layout.key_parts else count - moved, part)
        else:
            for _ in cutlass.range_constexpr(self.layout.slots):
                for part in cutlass.range_constexpr(self.layout.parts):
                    self.wait_for_part(count, part)
                count += 1
        # Where pairs merge, this comes with a result's last store.
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.q_empty, q_phase)

    @cute.jit
    def load_tiles(
        self,
        request: Int32,
        begin: Int32,
        end: Int32,
        length: Int32,
        count: Int32,
        entries: Entries,
        is_last: cutlass.Boolean,
    ) -> None:
        """In the order in which products release the memory: the keys of a tile, then the values of the one before.

        In a single slot the memory of an item's first values is free before that of its second keys. They come first
        then, unless the item is short: its second keys would come later, and they have to be there first in the end.
        """
        tiles = end - begin
        for n in cutlass.range(tiles + 1, unroll=1):
            if n < tiles:
                self.load_keys(self.pages(entries, n, length), begin + n, length, count + n)
            has_values = n > 0
            if cutlass.const_expr(self.layout.slots == 1):
                has_values ^= (tiles > FEW_TILES) & (n < 2)
            if has_values:
                before = cutlass.max(n - 1, 0)
                entries = self.look_ahead(entries, request, begin, begin + before, length)
                pages, moves = self.pages(entries, before, length), is_last & (before > 0) & (before == tiles - 1)
                self.load_values(pages, begin + before, length, count + before, moves)

    def wait_for_part(self, count: Int32, part: Any) -> None:
        """The products of the tile that was in the slot of tile `count` before have read it."""
        slot, phase = count % self.layout.slots, (count // self.layout.slots + 1) % 2
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.free + self.layout.parts * slot + part, phase)

    @cute.jit
    def expect(self, mbarrier: Any, boxes: cutlass.Constexpr, ctas: cutlass.Constexpr = CTAS) -> None:
        """The leader expects so many boxes from each CTA, at this mbarrier and those that follow it, `boxes` for each.

        The other CTA's may be counted before, but not two phases ahead."""
        if self.rank == 0:
            with cute.arch.elect_one():
                for n in cutlass.range_constexpr(len(boxes)):
                    cute.arch.mbarrier_arrive_and_expect_tx(self.mbarriers + mbarrier + n, ctas * boxes[n] * BOX_BYTES)

    @cute.jit
    def load_q(self, request: Int32, row_block: Int32, phase: Int32) -> None:
        """This CTA's 64 rows, once the scores of the item before have read its memory; the rope with the first part."""
        cute.arch.mbarrier_wait(self.mbarriers + self.layout.q_empty, phase)
        block = CTAS * row_block + self.rank
        waits, mbarrier = self.layout.q_waits, self.mbarriers + self.layout.q_full
        boxes = (self.layout.boxes - 1) // waits
        self.expect(self.layout.q_full, [boxes + 1, *[boxes] * (waits - 1)])
        self.load_rope(self.q, Int32(0), block, request, self.q_rope, mbarrier)
        for part in cutlass.range(self.layout.key_parts, unroll=1):
            self.load_part(self.q, Int32(0), block, part, request, self.q_parts, part, mbarrier + part % waits)

    @cute.jit
    def load_keys(self, pages: Pages, tile: Int32, length: Int32, count: Int32) -> None:
        """This CTA's page of a tile, all 576 columns."""
        index = pages[0]
        if self.rank == 1:
            index = pages[1]
        row = self.first_row(2 * tile + self.rank, length)
        slot = count % self.layout.slots
        for part in cutlass.range(self.layout.key_parts, unroll=1):
            full = self.layout.keys_full + self.layout.key_parts * slot + part
            mbarrier = self.mbarriers + full
            self.wait_for_part(count, part)
            if part == 0:
                self.expect(full, [self.layout.part_boxes + 1])
                self.load_rope(self.kv, row, Int32(0), index, self.ropes[None, None, slot], mbarrier)
            else:
                self.expect(full, [self.layout.part_boxes])
            self.load_part(self.kv, row, Int32(0), part, index, self.parts, self.layout.parts * slot + part, mbarrier)

    @cute.jit
    def load_values(self, pages: Pages, tile: Int32, length: Int32, count: Int32, moves: cutlass.Boolean) -> None:
        """Both pages of a tile, this CTA's half of the columns. Those of a CTA's last tile may go where its keys were,
        as if they were those of one more tile."""
        slot, page_parts = count % self.layout.slots, self.layout.page_parts
        first, all_full = self.layout.values_part(0), self.layout.values_full
        if cutlass.const_expr(self.layout.moves):
            first, all_full = Int32(select_(moves, 0, first)), Int32(select_(moves, self.layout.keys_full, all_full))
            count += Int32(select_(moves, 1, 0))
        for n in cutlass.range(2 * page_parts, unroll=1):
            page, columns = self.layout.page_and_columns(n)
            index = Int32(select_(page == 0, *pages))
            row = self.first_row(2 * tile + page, length)
            part, full = first + n, all_full + 2 * page_parts * slot + n
            self.wait_for_part(count, part)
            self.expect(full, [self.layout.part_boxes])
            columns, place = page_parts * self.rank + columns, self.layout.parts * slot + part
            self.load_part(self.kv, row, Int32(0), columns, index, self.parts, place, self.mbarriers + full)

    def lookup(self, request: Int32, tile: Int32, length: Int32) -> Int32:
        """The pages of the next tiles from this one on, one in each lane.

        So they are not in uniform registers, where ptxas would wait for them at once. Entries past the request's end
        are not looked at: the last page stands for those, of which nothing is read (`first_row`).
        """
        last = cutlass.max(length - 1, 0) // PAGE
        return self.page_table[request, cutlass.min(2 * tile + cute.arch.lane_idx(), last)]

    @cute.jit
    def look_ahead(self, entries: Entries, request: Int32, begin: Int32, tile: Int32, length: Int32) -> Entries:
        """With new entries in place of those that all come before this tile, which is the last to be loaded of all."""
        even, odd = entries
        turn = (tile - begin) // TILES_AHEAD
        if ((tile - begin) % TILES_AHEAD == 0) & (turn > 0):
            found = self.lookup(request, tile + TILES_AHEAD, length)
            if turn % 2 == 0:
                odd = found
            else:
                even = found
        return even, odd

    def pages(self, entries: Entries, offset: Int32, length: Int32) -> Pages:
        """Of the item's tile number `offset`. Of a request without keys the entries may be anything: then 0."""
        lane = 2 * (offset % TILES_AHEAD)
        found = Int32(select_(offset // TILES_AHEAD % 2 == 0, *entries))
        return tuple(Int32(select_(length > 0, cute.arch.shuffle_sync(found, lane + page), 0)) for page in range(2))

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
