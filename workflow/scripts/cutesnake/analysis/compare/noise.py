"""The noise of a time and of a ratio of two times, in percent."""

from dataclasses import dataclass

from cutesnake.analysis.compare.insight import NOISE_PERCENT
from cutesnake.model.records.timing import TimingMetrics
from cutesnake.model.records.verdict import Figure

OTHER_HOST_US = 1.0  # by which launch overheads of one host do not differ, cold


@dataclass(frozen=True)
class Time:
    """The time of a kernel's fastest variant in µs, and its noise in percent."""

    kernel: str
    variant: str
    us: float
    noise: float
    samples: int | None = None
    mhz: float | None = None  # SM clock
    rested_us: float | None = None  # warm, before power or heat lower the clock
    empty_launch_us: float | None = None  # cold, on the same host


def noise(figure: Figure, metrics: TimingMetrics) -> float:
    """Return the noise of a measured time in percent.

    Cold: interquartile range of the cold samples. Warm: the difference between the two warm methods, or the range of
    three bursts if that is larger. The spread of cold samples says nothing about warm times.
    """
    if figure == "cold":
        return metrics.spread_percent
    return max(abs(metrics.difference_percent), metrics.burst_range_percent or 0.0)


def apart(ratio: float) -> float:
    """Return by how many percent the larger of two times exceeds the smaller."""
    return 100 * (max(ratio, 1 / ratio) - 1)


def noise_of_ratio(first: Time, second: Time) -> float:
    """Return the noise of a ratio of two times in percent.

    It grows by the difference of launch overheads if that tells two hosts apart.
    """
    hosts = 0.0
    if first.empty_launch_us is not None and second.empty_launch_us is not None:
        apart_us = abs(first.empty_launch_us - second.empty_launch_us)
        hosts = 100 * apart_us / min(first.us, second.us) if apart_us > OTHER_HOST_US else 0.0
    return max(NOISE_PERCENT, first.noise + second.noise + hosts)
