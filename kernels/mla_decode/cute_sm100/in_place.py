"""MLA decode for Blackwell in CuTe DSL: loads where a tile's values take the place of its keys.

Of the values of page p, CTA p already has what it multiplies: the columns 256 p and up of its keys. The other CTA loads
its own columns of that page to the same place, over keys of its own that it does not multiply as values. So a CTA loads
576 columns of one page and 256 of the other, instead of 576 of one and 256 of both: of the cache 1.44 times its size
from the L2 instead of 1.89.

    parts of a slot                  0                            1
    keys of page p in CTA p          columns 0 to 255             256 to 511
    values then in CTA 0             page 0, columns 0 to 255     page 1, 0 to 255
    values then in CTA 1             page 0, columns 256 to 511   page 1, 256 to 511

A part is released once the products with its page's values have read it.
"""

from __future__ import annotations

from dataclasses import dataclass

import cutlass
import cutlass.cute as cute
from cutlass import Int32

from kernels.mla_decode.cute_sm100.layout import SCORE_STAGES
from kernels.mla_decode.cute_sm100.load import Entries, Loader, Pages


@dataclass
class InPlaceLoader(Loader):
    """Fields are those of `Loader`; tile number `count` of a CTA goes to slot count % slots."""

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
        """Keys as many tiles ahead as there are slots, as the products of the tile before release them."""
        slots, tiles = self.layout.slots, end - begin
        for tile in cutlass.range(cutlass.min(tiles, slots), unroll=1):
            self.load_keys(self.pages(entries, tile, length), begin + tile, length, count + tile)
        for tile in cutlass.range(tiles, unroll=1):
            entries = self.look_ahead(entries, request, begin, begin + tile, length)
            self.replace(self.pages(entries, tile, length), begin + tile, length, count + tile)
            filled = tile + slots - 1
            if (tile > 0) & (filled < tiles):
                self.load_keys(self.pages(entries, filled, length), begin + filled, length, count + filled)

    @cute.jit
    def replace(self, pages: Pages, tile: Int32, length: Int32, count: Int32) -> None:
        """This CTA's columns of the other CTA's page, once the scores have read the keys that lie there."""
        other = 1 - self.rank
        index = pages[1]
        if self.rank == 1:
            index = pages[0]
        row = self.first_row(2 * tile + other, length)
        slot = count % self.layout.slots
        ready = self.layout.scores_full + count % SCORE_STAGES
        cute.arch.mbarrier_wait(self.mbarriers + ready, count // SCORE_STAGES % 2)
        parts = self.layout.page_parts
        full, place = self.layout.values_full + 2 * parts * slot, self.layout.parts * slot + parts * other
        self.expect(full, [self.layout.part_boxes] * (2 * parts), ctas=1)
        for n in cutlass.range_constexpr(parts):
            mbarrier = self.mbarriers + full + parts * other + n
            self.load_part(self.kv, row, Int32(0), parts * self.rank + n, index, self.parts, place + n, mbarrier)
