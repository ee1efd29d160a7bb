"""Who computes what in the kernel `cute_sm100`: a balanced split of ragged requests over pairs of CTAs, on the host.

An item is a range of tiles (128 keys) of one request for one block of 128 query rows. A request in one item is stored
directly; of a split request every item stores a partial result, which the combine kernel merges. A request without
keys has one tile, all hidden, so that its output is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from kernels.mla_decode.cute_sm100.layout import CTAS, FIRST_ITEM, ITEM_COLUMNS, KEYS, ROWS
from kernels.mla_decode.split_kv.plan import COMBINE_WARPS, Prices, Schedule, make_lane, merges_of

# By bytes of an element, in units of the time that a pair takes for a tile: 1.25 and 0.57 us by ptxsim's clock of a
# B200, and about twice that where all pairs have many tiles and DRAM binds. So partial results cost more beside little
# work, of up to LITTLE tiles a pair. Chosen by predictions (README.md): no card of this kind was at hand.
PRICES = {2: Prices(item=3.0, merge=3.5, partial=1.0), 1: Prices(item=4.0, merge=5.0, partial=2.0)}
PRICES_OF_LITTLE = {2: Prices(item=3.0, merge=3.5, partial=2.5), 1: Prices(item=4.0, merge=5.0, partial=4.0)}
LITTLE = 2
COMBINE_CTAS = 3  # of the combine kernel on a multiprocessor, by their registers


@dataclass(frozen=True)
class PairSchedule(Schedule):
    """The schedule of pairs of CTAs, with the combine kernel's warps to a row: as many as run at once."""

    most_row_warps: int

    @property
    def row_warps(self) -> int:
        return self.most_row_warps if self.merges else 0

    @property
    def pairs(self) -> list[list[int]]:
        """What a pair reads first: its first item, and which items are its own."""
        return [
            [*self.items[begin][:FIRST_ITEM], begin, end] if begin < end else [0] * ITEM_COLUMNS
            for begin, end in itertools.pairwise(self.offsets)
        ]


def make_schedule(
    lengths: Sequence[int],
    rows: int,
    processors: int,
    element_bytes: int = 2,
) -> PairSchedule:
    """Split requests of these kv lengths (tokens), each with `rows` query rows, over the device's multiprocessors."""
    row_blocks = -(-rows // ROWS)
    pairs = max(1, processors // (CTAS * row_blocks))
    tiles = [max(1, -(-length // KEYS)) for length in lengths]
    prices = PRICES_OF_LITTLE if sum(tiles) <= LITTLE * pairs else PRICES
    lane = make_lane(tiles, pairs, prices[element_bytes])
    items, offsets = [], [0]
    for pieces in lane:
        for row_block in range(row_blocks):
            for piece in pieces:
                values = [piece.request, row_block, piece.begin, piece.end, piece.partial, lengths[piece.request]]
                items.append(values + [0] * (ITEM_COLUMNS - len(values)))
            offsets.append(len(items))
    merges = merges_of(lane)
    partials, most = sum(merge[2] for merge in merges), _most_row_warps(rows * len(merges), processors)
    return PairSchedule(lane, items, offsets, merges, partials, most)


def _most_row_warps(rows: int, processors: int) -> int:
    """Warps of the combine kernel that may share a row so that all its CTAs run at once: a second wave of them takes as
    long as the first."""
    return max((n for n in (1, 2, 4, 8) if rows * n <= COMBINE_WARPS * COMBINE_CTAS * processors), default=1)
