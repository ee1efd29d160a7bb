"""GPUs that disagree about the fastest kernel, or the fastest variant of a kernel."""

import itertools
from collections.abc import Iterable, Mapping

from cutesnake.analysis.compare.speedup import CacheState, Kernels, fastest, noise, time_of
from cutesnake.model.records.compare import Agreement, Differing, TimesTable

Both = Mapping[str, tuple[Kernels, Kernels]]  # workload -> times of the kernels that both GPUs timed


def agreement(tables: Iterable[TimesTable]) -> list[Agreement]:
    """Return an entry per target and pair of GPUs with several common kernels or variants.

    Only kernels that both GPUs timed count. On each GPU, its own winner must lead the other GPU's winner by more than
    the noise.
    """
    pairs = itertools.combinations(tables, 2)
    entries = [
        _entry(left, right)
        for left, right in pairs
        if left.target == right.target and left.device.device != right.device.device
    ]
    return [entry for entry in entries if entry.workloads or entry.variants]


def _entry(left: TimesTable, right: TimesTable) -> Agreement:
    there = {row.workload: row.kernels for row in right.rows}
    both = {row.workload: _shared(row.kernels, there[row.workload]) for row in left.rows if row.workload in there}
    return Agreement(
        target=left.target,
        gpus=(left.device.device or "", right.device.device or ""),
        workloads=sum(len(a) > 1 for a, _ in both.values()),
        cold=_kernels(both, "cold"),
        warm=_kernels(both, "warm"),
        variants=_variants(both),
    )


def _shared(a: Kernels, b: Kernels) -> tuple[Kernels, Kernels]:
    shared = [kernel for kernel in a if kernel in b]
    return {kernel: a[kernel] for kernel in shared}, {kernel: b[kernel] for kernel in shared}


def _kernels(both: Both, cache: CacheState) -> list[Differing]:
    """Return the workloads on which the GPUs have different fastest kernels."""
    differing = []
    for workload, (a, b) in both.items():
        if not a:
            continue
        first, second = fastest(a, cache), fastest(b, cache)
        if first != second and _leads(a, first, second, cache) and _leads(b, second, first, cache):
            differing.append(Differing(workload, (first, second)))
    return differing


def _leads(row: Kernels, winner: str, other: str, cache: CacheState) -> bool:
    ratio = time_of(row[other], cache) / time_of(row[winner], cache)
    return 100 * (ratio - 1) > noise(cache, row[winner], row[other])


def _variants(both: Both) -> list[Differing]:
    """Return workloads and kernels on which the GPUs have different fastest warm variants."""
    differing = []
    for workload, (a, b) in both.items():
        for kernel in a:
            one, other = a[kernel].variants, b[kernel].variants
            common = [variant for variant in one if variant in other]
            if len(common) < 2:
                continue
            first, second = min(common, key=one.__getitem__), min(common, key=other.__getitem__)
            limit = 1 + noise("warm", a[kernel], b[kernel]) / 100
            if first != second and one[second] / one[first] > limit and other[first] / other[second] > limit:
                differing.append(Differing(workload, (first, second), kernel))
    return differing
