"""Warm times that are longer than cold ones, with the clocks that explain them."""

from cutesnake.analysis.evidence.gather import Evidence, Source
from cutesnake.model.records.measurement import variant_id
from cutesnake.model.records.timing import TimingMetrics
from cutesnake.model.records.verdict import WarmSlower

LEAST_PERCENT = 2.0
CLOCK_FELL = 0.98
POWER = "power"  # in a reported reason


def power_limited(metrics: TimingMetrics) -> bool:
    """Return whether the GPU reported its power limit."""
    return any(POWER in reason for reason in metrics.throttle_reasons)


def warm_slower(evidence: Evidence, source: Source, target: str) -> list[WarmSlower]:
    """Return times that are longer warm than cold, the largest difference first."""
    paths = {id(entry): path for path, entry in (*evidence.measured.items(), *evidence.recorded.items())}
    result = []
    for entry in evidence.records(source, "timing"):
        metrics = entry.metrics
        if metrics is None or entry.case.target != target:
            continue
        percent = 100 * (metrics.hot_us / metrics.cold_us - 1)
        if percent <= LEAST_PERCENT:
            continue
        clock, limited = metrics.hot_sm_clock_mhz, power_limited(metrics)
        fell = limited if clock is None else clock < CLOCK_FELL * metrics.sm_clock_mhz
        result.append(
            WarmSlower(
                workload=entry.case.workload,
                kernel=entry.case.kernel,
                variant=variant_id(entry.case),
                warm_us=metrics.hot_us,
                cold_us=metrics.cold_us,
                percent=percent,
                warm_mhz=clock,
                cold_mhz=metrics.sm_clock_mhz,
                rested_us=metrics.burst_us,
                cause="unknown" if not fell else "power limit" if limited else "clock",
                evidence=paths.get(id(entry), ""),
            )
        )
    return sorted(result, key=lambda one: -one.percent)
