"""Whether a time changed: the ratio of two measurements, held against the noise of both."""

from __future__ import annotations

from typing import Any

from cutesnake.analysis.compare.insight import NOISE_PERCENT

Record = dict[str, Any]

COARSE_PERCENT = 10.0  # where changes below this would not show, times that look alike are not called equal
FIGURES = {"cold": ("cold_us", "sm_clock_mhz"), "warm": ("hot_us", "hot_sm_clock_mhz")}
VERDICTS = ("slower", "faster", "equal", "cannot tell")
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


def verdict(figure: str, before: Record, now: Record) -> Record:
    """How a figure (`cold` or `warm`) of two timing records' metrics changed, by RULE.

    `ratio` is now over before: above 1, it got slower. `why` says why one cannot tell, else null.
    """
    key, clock = FIGURES[figure]
    noises = [_noise(figure, side) for side in (before, now)]
    limit = None if None in noises else max(NOISE_PERCENT, sum(n for n in noises if n is not None))
    said, why = _judge(before[key], now[key], limit, before.get(clock), now.get(clock))
    return {
        **{"before_us": before[key], "now_us": now[key], "ratio": now[key] / before[key]},
        **{"before_noise_percent": noises[0], "now_noise_percent": noises[1], "limit_percent": limit},
        **{"verdict": said, "why": why},
    }


def apart(ratio: float) -> float:
    """Percent by which the larger of two times exceeds the smaller."""
    return 100 * (max(ratio, 1 / ratio) - 1)


def _judge(
    before: float, now: float, limit: float | None, clock_before: float | None, clock_now: float | None
) -> tuple[str, str | None]:
    if limit is None:
        return "cannot tell", "a noise is not known"
    ratio = now / before
    if apart(ratio) <= limit:
        coarse = f"a change below {limit:.3g} % would not show"
        return ("equal", None) if limit <= COARSE_PERCENT else ("cannot tell", coarse)
    if clock_before and clock_now and apart(ratio * clock_now / clock_before) <= limit:
        return "cannot tell", f"the SM clock explains it: {clock_before:.0f} MHz before, {clock_now:.0f} MHz now"
    return ("slower" if ratio > 1 else "faster"), None


def _noise(figure: str, metrics: Record) -> float | None:
    """Percent; None where a record does not say."""
    spread, between = metrics["spread_percent"], metrics["difference_percent"]
    if spread is None or (figure == "warm" and between is None):
        return None
    return spread if figure == "cold" else max(spread, abs(between))
