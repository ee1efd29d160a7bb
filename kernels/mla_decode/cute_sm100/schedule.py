"""Who computes what in the kernel `cute_sm100`: a balanced split of ragged requests over pairs of CTAs, on the host.

An item is a range of tiles (128 keys) of one request for one block of 128 query rows. A request in one item is stored
directly; of a split request every item stores a partial result, which the combine kernel merges. A request without
keys has one tile, all hidden, so that its output is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.mla_decode.cute_sm100.layout import CTAS, ITEM_COLUMNS, KEYS, ROWS
from kernels.mla_decode.split_kv.plan import COMBINE_WARPS, Prices, Schedule, make_lane, merges_of

# In units of the time that one tile takes. Not fitted: no card of this kind was at hand.
PRICES = Prices(item=2.0, merge=2.0, partial=0.0)
COMBINE_CTAS = 5  # of the combine kernel on a multiprocessor, by their registers


@dataclass(frozen=True)
class OneWave(Schedule):
    """A schedule whose merged rows have no more warps each than `most_row_warps`."""

    most_row_warps: int

    @property
    def row_warps(self) -> int:
        return min(super().row_warps, self.most_row_warps)


def make_schedule(
    lengths: Sequence[int],
    rows: int,
    processors: int,
    prices: Prices = PRICES,
) -> Schedule:
    """Split requests of these kv lengths (tokens), each with `rows` query rows, over the device's multiprocessors."""
    row_blocks = -(-rows // ROWS)
    pairs = max(1, processors // (CTAS * row_blocks))
    tiles = [max(1, -(-length // KEYS)) for length in lengths]
    lane = make_lane(tiles, pairs, prices)
    items, offsets = [], [0]
    for pieces in lane:
        for row_block in range(row_blocks):
            for piece in pieces:
                values = [piece.request, row_block, piece.begin, piece.end, piece.partial, lengths[piece.request]]
                items.append(values + [0] * (ITEM_COLUMNS - len(values)))
            offsets.append(len(items))
    merges = merges_of(lane)
    partials, most = sum(merge[2] for merge in merges), _most_row_warps(rows * len(merges), processors)
    return OneWave(lane, items, offsets, merges, partials, most)


def _most_row_warps(rows: int, processors: int) -> int:
    """Warps of the combine kernel that may share a row so that all its CTAs run at once: a second wave of them takes as
    long as the first."""
    return max((n for n in (2, 4, 8) if rows * n <= COMBINE_WARPS * COMBINE_CTAS * processors), default=1)
