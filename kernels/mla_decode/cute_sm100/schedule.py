"""Who computes what in the kernel `cute_sm100`: a balanced split of ragged requests over pairs of CTAs, on the host.

An item is a range of tiles (128 keys) of one request for one block of 128 query rows. A request in one item is stored
directly; of a split request every item stores a partial result, which the combine kernel merges. A request without
keys has one tile, all hidden, so that its output is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernels.mla_decode.cute_sm100.layout import CTAS, ITEM_COLUMNS, KEYS, ROWS
from kernels.mla_decode.split_kv.plan import Schedule, make_lane, merges_of

# In units of the time that one tile takes. Not fitted: no card of this kind was at hand.
ITEM_TILES = 2.0  # per item: first loads, the last store
MERGE_TILES = 2.0  # once, if any request is split: the combine kernel


def make_schedule(
    lengths: Sequence[int],
    rows: int,
    processors: int,
    item_tiles: float = ITEM_TILES,
    merge_tiles: float = MERGE_TILES,
) -> Schedule:
    """Split requests of these kv lengths (tokens), each with `rows` query rows, over the device's multiprocessors."""
    row_blocks = -(-rows // ROWS)
    pairs = max(1, processors // (CTAS * row_blocks))
    tiles = [max(1, -(-length // KEYS)) for length in lengths]
    lane = make_lane(tiles, pairs, item_tiles, merge_tiles)
    items, offsets = [], [0]
    for pieces in lane:
        for row_block in range(row_blocks):
            for piece in pieces:
                values = [piece.request, row_block, piece.begin, piece.end, piece.partial, lengths[piece.request]]
                items.append(values + [0] * (ITEM_COLUMNS - len(values)))
            offsets.append(len(items))
    merges = merges_of(lane)
    return Schedule(lane, items, offsets, merges, sum(merge[2] for merge in merges))
