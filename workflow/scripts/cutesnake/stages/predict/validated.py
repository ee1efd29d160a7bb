"""Predictions beside measurements, as `workflow/validation/` keeps them: `predict.py` and `unmeasured.py` make them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from cutesnake.model.paths import ROOT
from cutesnake.stages.predict.bottleneck import Bound, bound

FOLDER = ROOT / "workflow/validation"
VALIDATION = "validation"  # the picture of them, whose place is beside the predictions
# What a file's name begins with: families that were looked at while the model was made; those held out until its first
# validation, and known since; those opened once, at the end.
Part = Literal["development", "held_out", "blind"]


@dataclass(frozen=True)
class Held:
    """A prediction beside its measurement, in microseconds; `kind` is warm or cold.

    `bound` is None in files that do not have the launches of a prediction.
    """

    device: str
    operator: str
    kernel: str
    kind: str
    measured_us: float
    predicted_us: float
    part: Part
    bound: Bound | None

    @property
    def error_percent(self) -> float:
        """Predicted against measured: positive where the prediction is too slow."""
        return 100 * (self.predicted_us / self.measured_us - 1)


def files(folder: Path = FOLDER) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def read_held(paths: Iterable[Path | str]) -> list[Held]:
    """Every line that has a measured and a predicted time; files of other things have none."""
    found = []
    for path in map(Path, paths):
        part = next((part for part in get_args(Part) if path.name.startswith(part)), get_args(Part)[0])
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if "kind" in row and row.get("predicted_us") and row.get("measured_us"):
                found.append(_held(row, part))
    return found


def _held(row: dict[str, Any], part: Part) -> Held:
    return Held(
        **{key: row[key] for key in ("device", "operator", "kernel", "kind", "measured_us", "predicted_us")},
        part=part,
        bound=bound((launch["us"], launch) for launch in row["launches"]) if row.get("launches") else None,
    )
