"""Who computes what in the kernel `cute_sm90`: a balanced split of ragged requests over the CTAs, made on the host.

A *worker* is a CTA, or a cluster of two that share either row blocks or (`halves`) keys; each has a list of work
items. An item is a range of pages of one request for one block of 64 query rows. The split is that of
`split_kv/plan.py`; a request of length 0 has no item, and is merged from no partial results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernels.mla_decode.cute_sm90.layout import ITEM_COLUMNS, PAGE, ROWS
from kernels.mla_decode.split_kv.plan import Prices, Schedule, make_lane, merges_of

# Least squares over the times of 120 plans on the H200, which they give to 4 % (benchmarks/mla_cute_sm90/README.md).
CLUSTERS = Prices(item=2.0, merge=2.0, partial=3.0)  # in units of a page
HALVES = Prices(item=2.75, merge=1.5, partial=2.25)  # of two


def make_schedule(
    lengths: Sequence[int],
    rows: int,
    processors: int,
    cluster: int = 1,
    halves: bool = False,
    prices: Prices | None = None,
) -> Schedule:
    """Split requests of these kv lengths (tokens), each with `rows` query rows, over the device's multiprocessors.

    With `halves` a worker takes two pages in the time of one, and items begin at even pages.
    """
    row_blocks = -(-rows // ROWS)
    blocks = 1 if halves else cluster  # row blocks of a worker
    groups = -(-row_blocks // blocks)
    workers = max(1, processors // (cluster * groups))
    pages = [-(-length // PAGE) for length in lengths]
    unit = 2 if halves else 1
    occupied = [request for request, count in enumerate(pages) if count]
    prices = prices or (HALVES if halves else CLUSTERS)
    lane = make_lane([-(-pages[request] // unit) for request in occupied], workers, prices)
    lane = tuple(tuple(replace(piece, request=occupied[piece.request]) for piece in pieces) for pieces in lane)
    empty = [request for request, count in enumerate(pages) if count == 0]
    items, offsets = [], [0]
    for pieces in lane:
        for group in range(groups):
            for piece in pieces:
                begin, end = unit * piece.begin, min(unit * piece.end, pages[piece.request])
                values = [piece.request, group * blocks, begin, end, piece.partial, lengths[piece.request]]
                items.append(values + [0] * (ITEM_COLUMNS - len(values)))
            offsets.append(len(items))
    merges = merges_of(lane) + [[request, 0, 0, 0] for request in empty]
    return Schedule(lane, items, offsets, merges, sum(merge[2] for merge in merges))
