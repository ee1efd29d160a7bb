"""Recorded verdicts of every operator in one file, for pages that are not built."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from cutesnake.model import record
from cutesnake.model.records.compare import Compare
from cutesnake.model.records.verdict import TargetVerdict

NAME = "operators.json"
DIGITS = 4


class SummaryError(ValueError):
    """One-line error: a damaged summary."""


class OperatorSummary(msgspec.Struct, frozen=True):
    """Verdicts of an operator, without their details."""

    operator: str
    verdicts: list[TargetVerdict] = []


def write_summary(comparisons: Iterable[Compare], file: Path | str) -> None:
    """Write the verdicts of all operators, without measurements of this machine."""
    rows = [
        OperatorSummary(one.operator, [verdict for verdict in one.verdicts if verdict.device.kind != "live"])
        for one in comparisons
    ]
    # Fewer digits than kept records have, so that a comparison of those hardly ever gives another file.
    few = record.rounded(msgspec.to_builtins(rows), DIGITS)
    text = msgspec.json.format(msgspec.json.encode(few), indent=1)
    record.write_text(file, text.decode() + "\n")


def read_summary(file: Path | str) -> Mapping[str, OperatorSummary]:
    """Return the summary by operator; raise SummaryError."""
    try:
        rows = msgspec.json.decode(Path(file).read_bytes(), type=list[OperatorSummary])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise SummaryError(f"{file}: {error}; restore it from git") from None
    return {row.operator: row for row in rows}
