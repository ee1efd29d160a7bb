"""Who computes what in the kernel `cute_sm100`: a balanced split of ragged requests over pairs of CTAs, on the host.

An item is a range of tiles (128 keys) of one request for one block of 128 query rows. A request in one item is stored
directly; of a split request every item stores a partial result, which the combine kernel merges. A request without
keys has one tile, all hidden, so that its output is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernels.mla_decode.cute_sm100.layout import CTAS, ITEM_COLUMNS, KEYS, ROWS
from kernels.mla_decode.split_kv.plan import Prices, Schedule, make_lane, merges_of

# In units of the time that one tile takes. Not fitted: no card of this kind was at hand.
PRICES = Prices(item=2.0, merge=2.0, partial=0.0)


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
    return Schedule(lane, items, offsets, merges, sum(merge[2] for merge in merges))
