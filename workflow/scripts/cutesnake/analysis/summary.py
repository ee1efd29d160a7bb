"""Recorded speedups of every operator in one file, for pages that are not built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from cutesnake.model import record
from cutesnake.model.records.compare import Compare, Speedup

NAME = "operators.json"


class SummaryError(ValueError):
    """One-line error: a damaged summary."""


class OperatorSummary(msgspec.Struct, frozen=True):
    """Measured speedups of an operator, from recorded sets only."""

    operator: str
    speedups: list[Speedup]


def write_summary(comparisons: Iterable[Compare], file: Path | str) -> None:
    """Write the recorded speedups of all operators, without measurements of this machine."""
    rows = [OperatorSummary(one.operator, recorded_speedups(one)) for one in comparisons]
    text = msgspec.json.format(msgspec.json.encode(rows), indent=1)
    record.write_text(file, text.decode() + "\n")


def recorded_speedups(comparison: Compare) -> list[Speedup]:
    """Return the speedups from recorded sets with both DSLs timed."""
    return [one for one in comparison.speedups if one.device.kind == "recorded" and one.warm and one.cold]


def read_summary(file: Path | str) -> Mapping[str, OperatorSummary]:
    """Return the summary by operator; raise SummaryError."""
    try:
        rows = msgspec.json.decode(Path(file).read_bytes(), type=list[OperatorSummary])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise SummaryError(f"{file}: {error}; restore it from git") from None
    return {row.operator: row for row in rows}
