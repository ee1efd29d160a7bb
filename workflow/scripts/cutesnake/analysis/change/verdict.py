"""Verdict on a time: ratio of two measurements compared with their noise."""

from __future__ import annotations

from typing import Literal

from cutesnake.analysis.compare.insight import NOISE_PERCENT
from cutesnake.model.records.change import Judged, Verdict
from cutesnake.model.records.timing import TimingMetrics

COARSE_PERCENT = 10.0  # where changes below this would not show, times that look alike are not called equal
Figure = Literal["cold", "warm"]
FIGURES: tuple[Figure, ...] = ("cold", "warm")
VERDICTS: tuple[Verdict, ...] = ("slower", "faster", "equal", "cannot tell")
RULE = (
    f"Times differ if they are further apart than the noise of both, added, and than {NOISE_PERCENT:g} %. The noise of "
    "a cold time is the interquartile range of its samples over their median; that of a warm one is the same figure or "
    "the difference between its two ways of measuring, whichever is larger.",
    "The verdict is «cannot tell» where times differ but, counted in cycles of the SM clock of each run, no longer do; "
    f"where they do not differ but the limit is above {COARSE_PERCENT:g} %, so that a change would not have shown; and "
    "where a figure is missing.",
    "The noise is that of samples within a run. What differs from run to run without the code (another card of the "
    f"same name, its temperature, its neighbours) is covered by the {NOISE_PERCENT:g} % only: of many cases a few can "
    "cross the limit with nothing changed. One that matters is worth measuring again.",
)


def verdict(figure: Figure, before: TimingMetrics, now: TimingMetrics) -> Judged:
    """Return the verdict on a time of two timing records, by RULE."""
    (old, clock_before), (new, clock_now) = _time(figure, before), _time(figure, now)
    noises = _noise(figure, before), _noise(figure, now)
    limit = max(NOISE_PERCENT, sum(noises))
    said, why = _judge(old, new, limit, clock_before, clock_now)
    return Judged(old, new, new / old, *noises, limit, said, why)


def _time(figure: Figure, metrics: TimingMetrics) -> tuple[float, float | None]:
    """Return the time and its SM clock in MHz."""
    if figure == "cold":
        return metrics.cold_us, metrics.sm_clock_mhz
    return metrics.hot_us, metrics.hot_sm_clock_mhz


def apart(ratio: float) -> float:
    """Return the percentage by which the larger of two times exceeds the smaller."""
    return 100 * (max(ratio, 1 / ratio) - 1)


def _judge(
    before: float, now: float, limit: float, clock_before: float | None, clock_now: float | None
) -> tuple[Verdict, str | None]:
    ratio = now / before
    if apart(ratio) <= limit:
        coarse = f"a change below {limit:.3g} % would not show"
        return ("equal", None) if limit <= COARSE_PERCENT else ("cannot tell", coarse)
    if clock_before and clock_now and apart(ratio * clock_now / clock_before) <= limit:
        return "cannot tell", f"the SM clock explains it: {clock_before:.0f} MHz before, {clock_now:.0f} MHz now"
    return ("slower" if ratio > 1 else "faster"), None


def _noise(figure: Figure, metrics: TimingMetrics) -> float:
    """Return the noise in percent."""
    spread = metrics.spread_percent
    return spread if figure == "cold" else max(spread, abs(metrics.difference_percent))
