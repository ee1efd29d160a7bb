"""Recorded speedups of every operator in one file, for pages that are not built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from cutesnake.model import record
from cutesnake.model.records.compare import Compare, Speedup
from cutesnake.model.records.verdict import Decision, TargetVerdict, Verdicts

NAME = "operators.json"


class SummaryError(ValueError):
    """One-line error: a damaged summary."""


class OperatorSummary(msgspec.Struct, frozen=True):
    """Measured speedups of an operator, from recorded sets only, and its verdicts without their details."""

    operator: str
    speedups: list[Speedup]
    verdicts: list[TargetVerdict] = []


def write_summary(
    comparisons: Iterable[Compare], file: Path | str, verdicts: Mapping[str, Verdicts] | None = None
) -> None:
    """Write the recorded speedups and verdicts of all operators, without measurements of this machine."""
    rows = [summarize(one, (verdicts or {}).get(one.operator)) for one in comparisons]
    text = msgspec.json.format(msgspec.json.encode(rows), indent=1)
    record.write_text(file, text.decode() + "\n")


def summarize(comparison: Compare, verdicts: Verdicts | None) -> OperatorSummary:
    """Return what other pages show of an operator."""
    recorded = [one for one in verdicts.targets if one.device.kind != "live"] if verdicts else []
    return OperatorSummary(comparison.operator, recorded_speedups(comparison), [_brief(one) for one in recorded])


def _brief(verdict: TargetVerdict) -> TargetVerdict:
    """Return a verdict without its pairs and causes."""

    def without(decision: Decision | None) -> Decision | None:
        return decision and replace(decision, pairs=[])

    flags = [replace(flag, evidence=[]) for flag in verdict.flags]
    warm, cold = without(verdict.warm), without(verdict.cold)
    return replace(verdict, warm=warm, cold=cold, flags=flags, warm_slower=[], explained=[])


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
