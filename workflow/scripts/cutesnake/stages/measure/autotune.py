"""Autotune stage: find the fastest variant of a kernel on a workload, and its margin.

It times nothing itself: every variant is a case of the timing stage, with a record of its own that is redone when the
variant, the kernel or the device changes. The choice is redone when one of those records changes.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from cutesnake.model import record
from cutesnake.model.records.autotune import Autotune, AutotuneMetrics, TimedVariant
from cutesnake.model.records.common import Choice, Measured, Variant
from cutesnake.model.records.timing import Timing
from cutesnake.stages.measure.case import provenance


def choose(timings: Sequence[Timing]) -> Autotune:
    """Return the autotune record of a kernel and workload, from its timing records.

    The margin is how much longer the second-best takes, in percent; a margin within the spread of the two is no
    decision of the measurement, and is reported so. Status `failed` if no variant could be timed. ValueError for
    records of different kernels, targets, workloads or devices, or of one variant twice.
    """
    _check_equal_conditions(timings)
    rows = sorted(map(_row, timings), key=lambda row: (row.cold_us is None, row.cold_us or 0.0, row.variant))
    timed = [row for row in rows if row.cold_us is not None]
    case, fastest = timings[0].case, timed[0] if timed else None
    return Autotune(
        status="ok" if fastest else "failed",
        reason=None if fastest else f"none of {len(rows)} variants could be timed: {rows[0].reason}",
        provenance=msgspec.convert(provenance(), Measured),
        case=Choice(
            case.operator,
            case.kernel,
            case.dsl,
            case.target,
            Variant(fastest.variant, fastest.params) if fastest else None,
            case.workload,
            case.parameters,
        ),
        device=timings[0].device,
        backend=timings[0].backend,
        metrics=AutotuneMetrics("cold_us", rows, fastest.variant if fastest else None, *_margin(timed)),
    )


def write_choice(timings: Iterable[str | Path], output: str | Path) -> None:
    """Read timing records, write the choice."""
    record.write("autotune", output, choose([record.read("timing", path) for path in timings]))


def _check_equal_conditions(timings: Sequence[Timing]) -> None:
    if not timings:
        raise ValueError("autotune needs at least one timing record")
    for key in ("operator", "kernel", "target", "workload"):
        result = {getattr(entry.case, key) for entry in timings}
        if len(result) > 1:
            raise ValueError(f"autotune was given records of more than one {key}: {', '.join(sorted(result))}")
    if len({entry.device and entry.device.name for entry in timings}) > 1:
        raise ValueError("autotune was given records of more than one device")
    names = [entry.case.variant.id for entry in timings]
    if len(set(names)) < len(names):
        raise ValueError(f"autotune was given a variant twice: {', '.join(sorted(names))}")


def _row(entry: Timing) -> TimedVariant:
    """Return one variant's row; a failed one has its reason and no times."""
    metrics, variant = entry.metrics if entry.status == "ok" else None, entry.case.variant
    times = (metrics.cold_us, metrics.hot_us, metrics.spread_percent) if metrics else (None, None, None)
    return TimedVariant(variant.id, variant.params, entry.status, entry.reason, *times)


def _margin(timed: list[TimedVariant]) -> tuple[float | None, bool]:
    """Return the margin of the fastest variant in percent, and whether it is a decision."""
    if len(timed) < 2:
        return None, bool(timed)
    first, second = timed[:2]
    assert first.cold_us and second.cold_us
    margin = 100 * (second.cold_us / first.cold_us - 1)
    return round(margin, 3), margin > max(first.spread_percent or 0.0, second.spread_percent or 0.0)
