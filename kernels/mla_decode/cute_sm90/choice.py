"""Which builds of `cute_sm90` a workload may take, and which is expected to be the fastest: a rule with its numbers.

Fitted to times on an H200 and an H100, and compared with others: docs/archive.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Variant
from kernels.mla_decode.cute_sm90 import layout, plan_layout, schedule
from kernels.mla_decode.cute_sm90.l2 import AHEAD_BYTES, DROPPED_BYTES, LEAST_DROPPED_BYTES
from kernels.mla_decode.cute_sm90.schedule import cost, in_step, merges_aside, splits
from kernels.mla_decode.operator import request_lengths
from kernels.mla_decode.split_kv.plan import Prices

if TYPE_CHECKING:
    from kernels.mla_decode.operator import Workload

PAIRS: dict[str, dict[str, Any]] = {  # what computes a request's row blocks two at a time, or each by itself
    "cluster1": {"cluster": 1},  # single CTAs, launched as clusters of one
    "single": {"cluster": 1, "single": True},  # launched without the attribute of a cluster
    "cluster2": {"cluster": 2},
}
PARTLY_HELD_BYTES = 200_000_000  # of a cache of which the L2 holds enough, from call to call, to be worth a cluster
# What the schedules of two builds cost beside one another. Of a partial result and of merging them as much in either:
# a partial result's price is for as many as there are workers, of which halves have half as many; and a bit, for where
# the two were within 1 % (batch 1, kv 1,024), halves were 4 and 9 % faster warm. Where schedules are made, they cost as
# in schedule.py: at these prices less would be split, which was slower.
CLUSTERS = Prices(item=2.0, merge=2.0, partial=8.5)
HALVES = Prices(item=3.0, merge=2.0, partial=4.0)
HALVES_OF_FEW_ROWS = 1.02  # times what their schedule costs, where a request leaves rows of its row block empty
AHEAD_SAVES = 0.98  # times what their schedule costs, of clusters that ask for pages ahead
WAITING = 0.25  # pages' time, of halves whose combine kernel keeps the next call waiting where that of others does not
MEETING_SAVES = 1.3  # pages' time beside single CTAs, where two pieces are merged by those who compute them
PROCESSORS = 132  # of an H100 or H200 in its SXM form; what runs is planned for the card at hand, in `bind`


def variants(workload: Workload) -> tuple[Variant, ...]:
    """Single CTAs; clusters of two that share page loads, where a request has two row blocks, or halve the keys.

    The cheapest schedule first (schedule.py). Sharing loads costs as much as not sharing them; `_pairs` says which of
    the two comes first then, and how single CTAs are launched.

    Where cutting some requests in two, and none in more, costs no more than what halves would do else, also halves
    whose two pieces meet (`make_met_schedule`): they save the combine kernel, which tells against single CTAs as well.

    The last is the first once more, with a schedule that a kernel on the card makes anew for new lengths (`plan`); with
    a combine kernel, and in clusters where single CTAs without them come first.
    """
    rows = workload.query_tokens * workload.heads
    lengths = request_lengths(workload)
    size = sum(lengths) * layout.WIDTH * 2
    names = _pairs(lengths, rows, size)
    found = [Variant(f"{workload.dtype}_{name}", {"dtype": workload.dtype, **PAIRS[name]}) for name in names]
    halves = Variant(f"{workload.dtype}_halves", {"dtype": workload.dtype, "cluster": 2, "halves": True})
    met = Variant(f"{halves.id}_met", {**halves.params, "meets": True})

    def price(variant: Variant, prices: Prices) -> float:
        kind = (variant.params.get(name, False) for name in ("halves", "meets"))
        return cost(prices, lengths, rows, PROCESSORS, variant.params["cluster"], *kind)

    few = HALVES_OF_FEW_ROWS if rows < layout.ROWS else 1.0
    costs = {variant.id: price(variant, CLUSTERS) for variant in found}
    if size > AHEAD_BYTES and rows > layout.ROWS:
        costs[f"{workload.dtype}_cluster2"] *= AHEAD_SAVES
    found.append(halves)
    costs[halves.id] = few * price(halves, HALVES)
    if (
        0 < costs[found[0].id] - costs[halves.id] < WAITING
        and merges_aside(lengths, rows, PROCESSORS, found[0].params["cluster"])
        and not merges_aside(lengths, rows, PROCESSORS, 2, True)
    ):
        costs[halves.id] += WAITING
    meets = splits(lengths, rows, PROCESSORS, 2, halves=True, meets=True)
    if meets and price(met, schedule.HALVES) <= price(halves, schedule.HALVES):
        found.append(met)
        costs[met.id] = few * price(met, HALVES) - MEETING_SAVES
    found.sort(key=lambda variant: costs[variant.id])
    again = next(variant for variant in found if has_another(variant))
    if found[0] is met:
        again = halves
    if workload.batch <= plan_layout.MOST_REQUESTS and workload.kv_length <= plan_layout.MOST_LENGTH:
        found.append(Variant(f"{again.id}_planned", {**again.params, "planned": True}))
    return tuple(found)


def has_another(variant: Variant) -> bool:
    """Whether a build is also made planned on the card: not where halves meet, nor single CTAs without a cluster."""
    return not {"meets", "single"} & set(variant.params)


def _pairs(lengths: Sequence[int], rows: int, size: int) -> tuple[str, ...]:
    """Single CTAs, and clusters that share page loads where a request has two row blocks; the better one first.

    Clusters draw less power, but the two CTAs wait for each other. They come first where they ask for pages ahead; and
    where workers have several items, and only clusters have the L2 drop pages first (`page_policy`), so that it holds
    a part of the cache from call to call.

    Caches from some size on are read quicker by single CTAs launched without the attribute of a cluster, small ones by
    those launched as clusters of one: the card spreads them in another order.
    """
    if rows <= layout.ROWS:
        return ("cluster1",)
    if size <= LEAST_DROPPED_BYTES:
        return "cluster1", "cluster2"
    held = DROPPED_BYTES < size <= PARTLY_HELD_BYTES and not in_step(lengths, rows, PROCESSORS, 2)
    return ("cluster2", "single") if held or size > AHEAD_BYTES else ("single", "cluster2")
