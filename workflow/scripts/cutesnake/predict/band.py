"""How far a prediction may be off: the error that the same clock made where a card had measured.

The rows come from `benchmarks/prediction/`, where predictions are held against the recorded sets.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutesnake.places import ROOT

ROWS = ROOT / "benchmarks/prediction"
LEAST_ROWS = 5  # of an operator, to speak for it alone
UNMEASURED = 2.0  # a card whose table is not all measured gets a band this many times as wide


@dataclass(frozen=True)
class Band:
    """`percent` either way, and in words what it rests on; None where nothing was ever held against a card."""

    percent: float | None
    words: str


def read_rows(folder: Path = ROWS) -> list[dict[str, Any]]:
    """Rows with a measured and a predicted time, of all files of the folder."""
    lines = (line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines())
    rows = (json.loads(line) for line in lines)
    return [row for row in rows if row.get("predicted_us") and row.get("measured_us")]


def band(operator: str, kind: str, all_measured: bool, rows: Iterable[dict[str, Any]]) -> Band:
    """The 90th percentile of the errors of `kind` (warm or cold) of the operator's kernels, else of all kernels."""
    same = [row for row in rows if row["kind"] == kind]
    mine = [row for row in same if row["operator"] == operator]
    chosen = mine if len(mine) >= LEAST_ROWS else same
    if len(chosen) < LEAST_ROWS:
        return Band(None, "no prediction of this kind was ever held against a card: how far it is off is not known")
    errors = [100 * abs(row["predicted_us"] / row["measured_us"] - 1) for row in chosen]
    percent = statistics.quantiles(errors, n=10, method="inclusive")[-1]
    whose = f"of {operator}" if chosen is mine else "of all operators"
    said = f"{len(chosen)} {kind} predictions {whose} for Hopper cards"
    words = f"nine in ten of {said} were off by less than {percent:.0f} %"
    if all_measured:
        return Band(percent, words)
    return Band(UNMEASURED * percent, f"{words}; twice that, since not all of this card's parameters are measured")
