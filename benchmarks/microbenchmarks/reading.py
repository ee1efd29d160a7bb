"""What a benchmark reports, and how stamps become a reading."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.microbenchmarks.kernel import STAMPS


@dataclass(frozen=True)
class Reading:
    """Median, minimum and maximum of several repetitions, and further values.

    `sm_clock_mhz` is %clock64 over %globaltimer inside the timed loops; None where no own kernel was timed so.
    """

    value: float
    low: float
    high: float
    repetitions: int
    sm_clock_mhz: float | None
    also: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Iterable[float], also: dict[str, Any] | None = None, left_out: int = 0) -> Reading:
        """Return the reading of repetitions; its range leaves some out at either end."""
        order = sorted(values)
        return cls(statistics.median(order), order[left_out], order[-1 - left_out], len(order), None, also or {})


@dataclass(frozen=True)
class Benchmark:
    """One figure to measure: `measure` is given the GPU and returns the reading in `unit`."""

    name: str
    parameters: dict[str, Any]
    unit: str
    measure: Callable[[Any], Reading]

    def record(self, reading: Reading | None, error: str | None = None) -> dict[str, Any]:
        """Return the row of the results file; numbers have six significant digits."""
        row: dict[str, Any] = {"name": self.name, "parameters": self.parameters, "unit": self.unit}
        if reading is not None:
            row |= {key: _rounded(value) for key, value in asdict(reading).items()}
        return row | {"error": error}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    return value


@dataclass(frozen=True)
class Run:
    """One launch's stamps (CTAs, warps, STAMPS), 0 for warps without."""

    stamps: np.ndarray

    @classmethod
    def of(cls, message: Sequence[int], ctas: int, warps: int) -> Run:
        return cls(np.asarray(message, dtype=np.uint64).reshape(ctas, warps, STAMPS).astype(np.int64))

    @property
    def cycles(self) -> float:
        """Return the median over working CTAs of last end minus first start."""
        return float(np.median([rows[:, 1].max() - rows[:, 0].min() for rows in self._working()]))

    @property
    def nanoseconds(self) -> float:
        """First start to last end on the whole GPU."""
        rows = np.concatenate(self._working())
        return float(rows[:, 3].max() - rows[:, 2].min())

    @property
    def clock_mhz(self) -> float:
        """Median over the warps of clock cycles per microsecond of the global timer."""
        rows = np.concatenate(self._working())
        spans = np.maximum(rows[:, 3] - rows[:, 2], 1)
        return float(np.median((rows[:, 1] - rows[:, 0]) / spans) * 1000)

    def _working(self) -> list[np.ndarray]:
        result = [cta[cta[:, 1] > 0] for cta in self.stamps]
        working = [rows for rows in result if len(rows)]
        if not working:
            raise ValueError("no warp wrote its stamps: the kernel did not run")
        return working


def slope_reading(
    pairs: Sequence[tuple[Run, Run]],
    times: tuple[int, int],
    per_iteration: float,
    *,
    bytes_per_iteration: float = 0.0,
    rate: bool = False,
) -> Reading:
    """Return cycles per operation from runs with few and many iterations.

    `times` are the iterations. With `rate` it returns operations per cycle. `per_iteration` counts operations (or
    bytes) of one SM; `bytes_per_iteration`, bytes of the whole GPU, adds GB/s by the global timer and the cycles of a
    byte at the measured clock.
    """
    few, many = times
    steps = [(b.cycles - a.cycles) / (many - few) for a, b in pairs]
    values = [per_iteration / step if rate else step / per_iteration for step in steps]
    clock = statistics.median(b.clock_mhz for _, b in pairs)
    also: dict[str, Any] = {}
    if bytes_per_iteration:
        seconds = [(b.nanoseconds - a.nanoseconds) / (many - few) for a, b in pairs]
        also["gb_per_s"] = statistics.median(bytes_per_iteration / second for second in seconds)
    return Reading(statistics.median(values), min(values), max(values), len(values), clock, also)
