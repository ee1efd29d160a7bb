"""Estimate the SM clock under a power limit, by a rule fitted to Hopper's clocks.

    python -m benchmarks.prediction.power

    clock = highest * (1 - base - slope * share)

`share` is a kernel's FLOP rate over the GPU's peak of that element type. Base and slope are fitted to the H200's
clocks in all operators but MLA decode, from 30 µs on. No time is fitted. The rule carries over to a B200 if an equal
share of the peak takes an equal share of the power limit: an assumption. The command prints what a fit to today's
records gives, and the rule's errors on fitted and other records.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.prediction.cases import KINDS, ROOT, recorded
from cutesnake.model.catalog import load_operator, make_workload
from cutesnake.planning.devices import read_devices
from cutesnake.stages.predict.validated import HIGHEST_MHZ

SHORTEST_US = 30.0  # shorter calls wait for latencies, not for power
TESTED = "mla_decode"  # left out of the fit
RULE = {"warm": (0.042, 0.347), "cold": (0.066, 0.183)}  # base, slope: the fit of 2026-11-28, 18:53, kept since
NAMES = {"h200": "H200", "h100": "H100 SXM", "b200": "B200"}  # in config/devices.yaml


@dataclass(frozen=True)
class Clock:
    """A recorded clock, over the highest, at a share of the peak."""

    device: str
    operator: str
    kind: str
    share: float
    measured: float


@cache
def peak(device: str, dtype: str) -> float | None:
    """Return the peak FLOP/s of tensor cores, None where the table has no such type."""
    of_type = {"int8": "bf16", "int4": "bf16", "nvfp4": "fp4"}.get(dtype, dtype)  # mixed GEMMs multiply in bf16
    models = read_devices(ROOT / "config/devices.yaml").devices
    rate = next(model for model in models if model.name == NAMES[device]).peak_tflops.get(of_type)
    return rate * 1e12 if rate else None


def clocks() -> Iterator[Clock]:
    """Yield the recorded clocks of kernels that use tensor cores."""
    for case in recorded(ROOT / "recorded"):
        flops = load_operator(case.operator).cost(make_workload(case.operator, case.parameters)).flops
        for figure in case.measured:
            most = peak(figure.device, case.parameters["dtype"])
            if most and figure.microseconds >= SHORTEST_US and flops / most * 1e6 > figure.microseconds / 20:
                share = flops / most / figure.microseconds * 1e6
                yield Clock(figure.device, case.operator, figure.kind, share, figure.clock_mhz / HIGHEST_MHZ)


def fitted(kind: str) -> tuple[float, float]:
    """Return base and slope for warm or cold calls."""
    rows = [row for row in clocks() if (row.kind, row.device) == (kind, "h200") and row.operator != TESTED]
    design = np.array([[1.0, row.share] for row in rows])
    base, slope = np.linalg.lstsq(design, np.array([1 - row.measured for row in rows]), rcond=None)[0]
    return float(base), float(slope)


def limited(kind: str, share: float) -> float:
    """Return the clock over the highest."""
    base, slope = RULE[kind]
    return min(1.0, 1 - base - slope * share)


def errors(rows: Iterable[Clock]) -> list[float]:
    """Return the rule's errors in percent of the recorded clock, the smallest first."""
    return sorted(abs(100 * (limited(row.kind, row.share) / row.measured - 1)) for row in rows)


def settle(kind: str, least_us: float, fastest: float, at: Callable[[float], float]) -> tuple[float, float]:
    """Return the clock, over the highest, that agrees with the rule, and µs there.

    `least_us` is the call's time at the tensor cores' peak, `fastest` its µs at the highest clock. `at` gives its µs at
    a lower one: it is asked once, at the lowest that the rule can give, and µs between are interpolated.
    """
    lowest = limited(kind, least_us / fastest)
    slowest, low, high = at(lowest), lowest, 1.0

    def between(clock: float) -> float:
        return slowest + (fastest - slowest) * (clock - lowest) / (1 - lowest)

    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if limited(kind, least_us / between(middle)) > middle else (low, middle)
    return low, between(low)


def main() -> None:
    rows = list(clocks())
    print("calls, records: base, slope; error of the clock in percent: median, 90th percentile; at the highest clock")
    for kind in KINDS:
        base, slope = fitted(kind)
        for device in ("h200", "h100"):
            for tested in (False, True):
                some = [r for r in rows if (r.kind, r.device, r.operator == TESTED) == (kind, device, tested)]
                of_rule = errors(some)
                without = statistics.median(abs(100 * (1 / r.measured - 1)) for r in some)
                what = f"{kind}, {device}, {TESTED if tested else 'others'}: {len(some)} records"
                print(
                    f"{what}: {base:.3f}, {slope:.3f}; {statistics.median(of_rule):.1f}, "
                    f"{of_rule[9 * len(of_rule) // 10]:.1f}; {without:.1f}"
                )


if __name__ == "__main__":
    main()
