"""Read predictions and their measurements from `workflow/validation/`."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from cutesnake.model.paths import ROOT
from cutesnake.stages.predict.bottleneck import Bound, bound

FOLDER = ROOT / "workflow/validation"
VALIDATION = "validation"  # the plot of them, next to the predictions
# What a file's name begins with: families that were looked at while the model was made; those held out until its first
# validation, and known since; those opened once, at the end.
Part = Literal["development", "held_out", "blind"]
HIGHEST_MHZ = 1980.0  # SM clock of the Hopper GPUs that were measured, below which power lowers it


@dataclass(frozen=True)
class ValidatedRow:
    """A prediction and its measurement in µs; `kind` is warm or cold.

    `bound` is None in files that do not have the launches of a prediction. The prediction is for `sm_clock_mhz`, the
    clock of the measurement; None: for the highest.
    """

    device: str
    operator: str
    kernel: str
    kind: str
    measured_us: float
    predicted_us: float
    part: Part
    bound: Bound | None
    sm_clock_mhz: float | None = None

    @property
    def error_percent(self) -> float:
        """Predicted against measured: positive where the prediction is too slow."""
        return 100 * (self.predicted_us / self.measured_us - 1)

    @property
    def error_at_highest_percent(self) -> float:
        """Return the error of a prediction at the highest clock, which power may not allow.

        All time but that of DRAM is taken to scale with the clock.
        """
        slower = 1.0 if self.bound == "DRAM" else min(1.0, (self.sm_clock_mhz or HIGHEST_MHZ) / HIGHEST_MHZ)
        return 100 * (slower * self.predicted_us / self.measured_us - 1)


def files(folder: Path = FOLDER) -> list[Path]:
    """Return the files of a folder with predictions and measurements."""
    return sorted(folder.glob("*.jsonl"))


def read_validated(paths: Iterable[Path | str]) -> list[ValidatedRow]:
    """Return every line with a measured and a predicted time."""
    result = []
    for path in map(Path, paths):
        part = next((part for part in get_args(Part) if path.name.startswith(part)), get_args(Part)[0])
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if "kind" in row and row.get("predicted_us") and row.get("measured_us"):
                result.append(_validated_row(row, part))
    return result


def _validated_row(row: dict[str, Any], part: Part) -> ValidatedRow:
    return ValidatedRow(
        **{key: row[key] for key in ("device", "operator", "kernel", "kind", "measured_us", "predicted_us")},
        part=part,
        sm_clock_mhz=row.get("sm_clock_mhz"),
        bound=bound((launch["us"], launch) for launch in row["launches"]) if row.get("launches") else None,
    )
