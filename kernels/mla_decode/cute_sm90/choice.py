"""Choose the builds of `cute_sm90` for a workload, the presumably fastest first.

Fitted to times on an H200 and an H100, and compared with others: docs/archive.md.
"""

from collections.abc import Sequence
from typing import Any

from cutesnake.model.contract import Variant
from kernels.mla_decode.cute_sm90 import layout
from kernels.mla_decode.cute_sm90.l2 import MAX_EVICT_BYTES, MIN_EVICT_BYTES, PREFETCH_BYTES
from kernels.mla_decode.cute_sm90.schedule import combine_fits_idle, cost, make_schedule, splits
from kernels.mla_decode.operator import Workload, request_lengths
from kernels.mla_decode.split_kv.plan import Prices

PAIRS: dict[str, dict[str, Any]] = {  # how a request's row blocks are computed: two at a time, or each by itself
    "cluster1": {"cluster": 1},  # single CTAs, launched as clusters of one
    "single": {"cluster": 1, "single": True},  # launched without the attribute of a cluster
    "cluster2": {"cluster": 2},
}
# Prices at which the schedules of builds are compared (unit: the time of a page, or of two with split KV). Fitted on an
# H200 to the times of all builds, warm and cold, of 870 random uniform workloads, and on an H100, too, to the groups of
# groups.py (benchmarks/mla_cute_sm90). Speedups below 1.04 warm and 1.03 cold counted three times as much as others.
# Schedules are made at the prices in schedule.py: at these, less would be split, which was slower.
CLUSTERS = Prices(item=1.0, merge=5.0, partial=4.25)
SPLIT_KV = Prices(item=4.25, merge=0.75, partial=3.0)
MERGING = Prices(item=4.75, merge=1.25, partial=0.0)
SPLIT_KV_FACTOR = 1.03  # on the cost of split KV where several clusters, one per row block, load a page
WAIT_COST = 1.0  # pages' time, of split KV whose combine kernel delays the next call, unlike with third-party kernels
MOST_TILES = 3  # per worker, for clusters to beat single CTAs while L2 keeps a part of the cache
SMS = 132  # of an H100 or H200 SXM; `bind` plans for the GPU that runs


def variants(workload: Workload) -> tuple[Variant, ...]:
    """Return the builds: single CTAs, clusters of two that share page loads, and split KV.

    The cheapest schedule first (schedule.py). Sharing loads costs as much as not sharing them; `_pairs` says which of
    the two comes first then, and how single CTAs are launched.

    Where splitting some requests in two, and none in more, costs no more than split KV would otherwise, also split KV
    with the in-kernel merge (`make_merging_schedule`): it saves the combine kernel.

    The last is the first once more, with a schedule that a kernel on the GPU makes for new lengths (`plan`); with a
    combine kernel, and in clusters where single CTAs without them come first.
    """
    rows = workload.query_tokens * workload.heads
    lengths = request_lengths(workload)
    size = sum(lengths) * layout.WIDTH * 2
    names = _pairs(lengths, rows, size)
    result = [Variant(f"{workload.dtype}_{name}", {"dtype": workload.dtype, **PAIRS[name]}) for name in names]
    split_kv = Variant(f"{workload.dtype}_halves", {"dtype": workload.dtype, "cluster": 2, "halves": True})
    merging = Variant(f"{split_kv.id}_met", {**split_kv.params, "meets": True})

    def price(variant: Variant, prices: Prices) -> float:
        halves, meets = (variant.params.get(name, False) for name in ("halves", "meets"))
        factor = SPLIT_KV_FACTOR if halves and rows > layout.ROWS and size > MIN_EVICT_BYTES else 1.0
        return factor * cost(prices, lengths, rows, SMS, variant.params["cluster"], halves, meets)

    costs = {variant.id: price(variant, CLUSTERS) for variant in result}
    result.append(split_kv)
    costs[split_kv.id] = price(split_kv, SPLIT_KV)
    if (
        0 < costs[result[0].id] - costs[split_kv.id] < WAIT_COST
        and combine_fits_idle(lengths, rows, SMS, result[0].params["cluster"])
        and not combine_fits_idle(lengths, rows, SMS, 2, True)
    ):
        costs[split_kv.id] += WAIT_COST
    costs[merging.id] = price(merging, MERGING)
    if costs[merging.id] <= costs[split_kv.id] and splits(lengths, rows, SMS, 2, split_kv=True, merge_in_kernel=True):
        result.append(merging)
    result.sort(key=lambda variant: costs[variant.id])
    again = next(variant for variant in result if has_another(variant))
    if result[0] is merging:
        again = split_kv
    if workload.batch <= layout.MAX_REQUESTS and workload.kv_length <= layout.MAX_LENGTH:
        result.append(Variant(f"{again.id}_planned", {**again.params, "planned": True}))
    return tuple(result)


def has_another(variant: Variant) -> bool:
    """Return whether a build also exists planned on the GPU."""
    return not {"meets", "single"} & set(variant.params)


def _pairs(lengths: Sequence[int], rows: int, size: int) -> tuple[str, ...]:
    """Rank single CTAs and clusters that share page loads (of two row blocks a request).

    Clusters draw less power, but the two CTAs wait for each other. They come first where they prefetch pages; and where
    workers have several, but few work tiles and only clusters have L2 evict pages first (`page_policy`), so that it
    keeps a part of the cache between calls.

    Large caches are read faster by single CTAs launched without the attribute of a cluster, small ones by those
    launched as clusters of one: the GPU spreads them in another order.
    """
    if rows <= layout.ROWS:
        return ("cluster1",)
    if size <= MIN_EVICT_BYTES:
        return "cluster1", "cluster2"
    tiles = max(map(len, make_schedule(lengths, rows, SMS, 2).worker_group))
    partly_resident = size > MAX_EVICT_BYTES and 1 < tiles <= MOST_TILES
    return ("cluster2", "single") if partly_resident or size > PREFETCH_BYTES else ("single", "cluster2")
