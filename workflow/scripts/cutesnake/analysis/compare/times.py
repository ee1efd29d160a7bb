"""Times of an operator's kernels per target and device, cold and warm."""

from cutesnake.analysis.compare.noise import noise
from cutesnake.analysis.evidence.gather import Evidence, Source
from cutesnake.model.records.compare import KernelTime, TimesRow, TimesTable
from cutesnake.model.records.measurement import variant_id
from cutesnake.model.records.timing import Timing


def times(evidence: Evidence) -> list[TimesTable]:
    """Return a table per target and source with times; of each kernel the fastest variant.

    `rows` hold `cold_us` (median of single calls, L2 flushed before each) and `hot_us` (mean over back-to-back calls)
    per kernel, each with variant and flags. `variants` holds all warm times.
    """
    targets = dict.fromkeys(target for _, target in evidence.decisions)
    tables = (_table(evidence, source, target) for target in targets for source in evidence.sources(target))
    return [table for table in tables if table.rows]


def _table(evidence: Evidence, source: Source, target: str) -> TimesTable:
    timings: dict[str, dict[str, list[Timing]]] = {}
    for entry in evidence.records(source, "timing"):
        case = entry.case
        if case.target == target and case.workload in evidence.workloads:
            timings.setdefault(case.workload, {}).setdefault(case.kernel, []).append(entry)
    dsls = {kernel: d.dsl for (kernel, where), d in evidence.decisions.items() if where == target}
    rows = [
        TimesRow(
            workload,
            floor.floor_us if (floor := evidence.floor(workload, target, source.device)) else None,
            {kernel: best(timings[workload][kernel]) for kernel in dsls if kernel in timings[workload]},
        )
        for workload in evidence.workloads
        if workload in timings
    ]
    timed = {kernel: dsl for kernel, dsl in dsls.items() if any(kernel in row.kernels for row in rows)}
    return TimesTable(target, evidence.label(source, "timing"), timed, rows)


def best(entries: list[Timing]) -> KernelTime:
    """Return the fastest variant of a kernel on a workload, separately cold and warm."""
    metrics = {variant_id(entry.case): entry.metrics for entry in entries if entry.metrics}
    cold = min(metrics, key=lambda variant: metrics[variant].cold_us)
    warm = min(metrics, key=lambda variant: metrics[variant].hot_us)
    return KernelTime(
        cold_us=metrics[cold].cold_us,
        cold_variant=cold,
        spread_percent=metrics[cold].spread_percent,
        empty_launch_us=metrics[cold].empty_launch_us,
        hot_us=metrics[warm].hot_us,
        hot_variant=warm,
        hot_noise_percent=noise("warm", metrics[warm]),
        variants={variant: one.hot_us for variant, one in metrics.items()},
        flags=list(dict.fromkeys([*metrics[cold].flags, *metrics[warm].flags])),
    )
