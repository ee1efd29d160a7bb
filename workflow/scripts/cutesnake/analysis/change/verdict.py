"""Verdict on a time: ratio of two measurements compared with their noise."""

from cutesnake.analysis.compare.insight import NOISE_PERCENT
from cutesnake.analysis.compare.noise import apart
from cutesnake.analysis.compare.speedup import CacheState
from cutesnake.model.records.change import Judged, Verdict
from cutesnake.model.records.timing import TimingMetrics

COARSE_PERCENT = 10.0  # with a higher noise limit, similar times do not count as equal
RULE = (
    f"Times differ if their difference exceeds the sum of their noises and {NOISE_PERCENT:g} %. The noise of a cold "
    "time is the interquartile range of its samples ÷ their median. The noise of a warm time is the larger of that "
    "value and the difference between two measurement methods.",
    "The verdict is «cannot tell» in three cases: times differ, but not in SM clock cycles; times do not differ, but "
    f"the limit exceeds {COARSE_PERCENT:g} %; or a value is missing.",
    "The noise covers samples within one run. Differences between runs (another GPU of that name, temperature, "
    f"neighbours) are covered by the {NOISE_PERCENT:g} % only. Of many cases, a few can exceed the limit without a "
    "change. Measure important cases again.",
)


def verdict(cache: CacheState, before: TimingMetrics, now: TimingMetrics) -> Judged:
    """Return the verdict on a time of two timing records, by RULE."""
    (old, clock_before), (new, clock_now) = _time(cache, before), _time(cache, now)
    noises = _noise(cache, before), _noise(cache, now)
    limit = max(NOISE_PERCENT, sum(noises))
    outcome, why = _judge(old, new, limit, clock_before, clock_now)
    return Judged(old, new, new / old, *noises, limit, outcome, why)


def _time(cache: CacheState, metrics: TimingMetrics) -> tuple[float, float | None]:
    """Return the time and its SM clock in MHz."""
    if cache == "cold":
        return metrics.cold_us, metrics.sm_clock_mhz
    return metrics.hot_us, metrics.hot_sm_clock_mhz


def _judge(
    before: float, now: float, limit: float, clock_before: float | None, clock_now: float | None
) -> tuple[Verdict, str | None]:
    ratio = now / before
    if apart(ratio) <= limit:
        coarse = f"a change below {limit:.3g} % is not detectable"
        return ("equal", None) if limit <= COARSE_PERCENT else ("cannot tell", coarse)
    if clock_before and clock_now and apart(ratio * clock_now / clock_before) <= limit:
        return "cannot tell", f"explained by the SM clock: {clock_before:.0f} MHz before, {clock_now:.0f} MHz now"
    return ("slower" if ratio > 1 else "faster"), None


def _noise(cache: CacheState, metrics: TimingMetrics) -> float:
    """Return the noise in percent."""
    spread = metrics.spread_percent
    return spread if cache == "cold" else max(spread, abs(metrics.difference_percent))
