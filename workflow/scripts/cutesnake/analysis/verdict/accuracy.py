"""How often predictions agreed with a GPU, from the files of workflow/validation/."""

import itertools
import json
import statistics
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cutesnake.analysis.compare.noise import apart
from cutesnake.model.records.verdict import Accuracy, Figure
from cutesnake.stages.predict.validated import files, read_validated

CLEAR_PERCENT = 10.0


def accuracy(
    figure: Figure, operator: str = "", dsls: Mapping[str, str] | None = None, paths: Iterable[Path] | None = None
) -> Accuracy:
    """Count errors and rightly named faster kernels, of families outside the model's fit.

    Errors are those at the highest clock, as a GPU without a measured clock is predicted. `dsls` names the DSL of the
    operator's kernels; how far predictions favour a DSL counts all families.
    """
    every = {path: _rows(path, figure) for path in (files() if paths is None else paths)}
    used = [path for path in every if not path.name.startswith("development")]
    rows = [row for path in used for row in every[path]]
    errors = [abs(row.error_at_highest_percent) for row in read_validated(used) if row.kind == figure]
    pairs = list(_pairs(rows))
    clear = [right for percent, right in pairs if percent > CLEAR_PERCENT]
    of_operator = [row for part in every.values() for row in part if row["operator"] == operator]
    leanings = list(_leanings(of_operator, dsls or {}))
    return Accuracy(
        devices=sorted({row["device"].upper() for row in rows}),
        cases=len(rows),
        median_error_percent=statistics.median(errors) if errors else None,
        nine_in_ten_percent=statistics.quantiles(errors, n=10, method="inclusive")[-1] if len(errors) > 1 else None,
        pairs=len(pairs),
        right=sum(right for _, right in pairs),
        clear_percent=CLEAR_PERCENT,
        clear=len(clear),
        clear_right=sum(clear),
        sources=[f"workflow/validation/{path.name}" for path in used],
        leaning=statistics.median(leanings) if leanings else None,
        leaning_cases=len(leanings),
    )


def _rows(path: Path, figure: Figure) -> list[dict[str, Any]]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row.get("kind") == figure and row.get("predicted_us") and row.get("measured_us")]


def _leanings(rows: Iterable[dict[str, Any]], dsls: Mapping[str, str]) -> Iterable[float]:
    """Yield predicted over measured ratios of cuTile's time to CuTe's, per workload."""
    for sides in _fastest(rows, lambda row: dsls.get(row["kernel"], "")):
        if "cute" in sides and "cutile" in sides:
            errors = [sides[dsl]["predicted_us"] / sides[dsl]["measured_us"] for dsl in ("cutile", "cute")]
            yield errors[0] / errors[1]


def _pairs(rows: Iterable[dict[str, Any]]) -> Iterable[tuple[float, bool]]:
    """Yield differences of two kernels' predictions, and whether their order is right."""
    for kernels in _fastest(rows, lambda row: row["kernel"]):
        for one, other in itertools.combinations(kernels.values(), 2):
            predicted = one["predicted_us"] / other["predicted_us"]
            yield apart(predicted), (predicted > 1) == (one["measured_us"] > other["measured_us"])


def _fastest(
    rows: Iterable[dict[str, Any]], side: Callable[[dict[str, Any]], str]
) -> Iterable[dict[str, dict[str, Any]]]:
    """Return each side's row of the shortest measured time, per device, operator and workload."""
    groups: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for row in rows:
        sides = groups.setdefault((row["device"], row["operator"], row["workload"]), {})
        name = side(row)
        if name not in sides or row["measured_us"] < sides[name]["measured_us"]:
            sides[name] = row
    return groups.values()
