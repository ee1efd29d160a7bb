"""The comparison tables: one per operator, target and device, a group of lines per workload and pair of kernels."""

from __future__ import annotations

from typing import Any

from cutesnake.analysis.compare.insight import number
from cutesnake.analysis.compare.selected_workloads import pair_of, table_of
from cutesnake.model.kept_builds import is_kept
from cutesnake.model.records.compare import Baseline, Cell, Compare, CompareRow, CompareTable, MetricColumn
from cutesnake.report.formatting import DSL_NAMES, Notes, plural, signed, slug, where

View = dict[str, Any]  # what a template shows
DSLS = ("cutile", "cute")
OPTIONAL = ("hot_duration_us", "plan_cold_us", "plan_us")  # columns of a table only where some row has the figure
MOST_UNMEASURED = 40  # workloads in a table without a measurement; the CSV file has all
MARKS = {"static": "s", "predicted": "p"}  # behind figures that nobody measured
TIMES = "\N{MULTIPLICATION SIGN}"
Repeated = dict[tuple[str, str, str], View]  # kernels, rule, sentence -> what the box above the table says


def tables(comparison: Compare, notes: Notes) -> list[View]:
    """Views of the tables of one operator, measured ones first.

    Reasons are numbered by `notes`, those of the page.
    """
    rows: dict[tuple, list[CompareRow]] = {}
    for row in comparison.rows:
        rows.setdefault(table_of(row), []).append(row)
    found = [
        _table(comparison, table, rows.get(table_of(table), []), notes, str(place))
        for place, table in enumerate(comparison.tables)
    ]
    return sorted(found, key=lambda table: not table["measured"])


def _table(comparison: Compare, table: CompareTable, rows: list[CompareRow], notes: Notes, place: str) -> View:
    device = table.device
    metrics = [m for m in comparison.metrics if m.key not in OPTIONAL or _any_known(rows, m.key)]
    name = slug("compare", comparison.operator, table.target, device.kind, device.device or "")
    repeated = _repeated(table, place)
    workloads: dict[str, list[CompareRow]] = {}
    for row in rows:
        workloads.setdefault(row.workload, []).append(row)
    shown = _foremost(workloads) if device.kind == "none" else set(workloads)
    return {
        "id": name,
        "operator": comparison.operator,
        "target": table.target,
        "where": where(device) + _also_predicted(rows),
        "measured": device.kind != "none",
        "metrics": metrics,
        "workloads": [_workload(pairs, metrics, notes, repeated) for name, pairs in workloads.items() if name in shown],
        "common": _boxes(table, repeated),
        "count": _count(table.workloads, len(shown)),
    }


def _foremost(workloads: dict[str, list[CompareRow]]) -> set[str]:
    """Where nothing was measured one workload's row is much like another's: those with a prediction, and evenly picked
    ones, MOST_UNMEASURED at most."""
    every = list(workloads)
    if len(every) <= MOST_UNMEASURED:
        return set(every)
    predicted = {name for name, rows in workloads.items() if _also_predicted(rows)}
    return predicted | {every[place * (len(every) - 1) // (MOST_UNMEASURED - 1)] for place in range(MOST_UNMEASURED)}


def _also_predicted(rows: list[CompareRow]) -> str:
    cells = (cell for row in rows for side in (row.cutile, row.cute) for cell in side.cells.values())
    return ", and times that ptxsim predicts" * any(cell.kind == "predicted" for cell in cells)


def _count(every: int, shown: int) -> str:
    return plural(every, "workload") if shown == every else f"{number(shown)} of {plural(every, 'workload')}"


def _workload(pairs: list[CompareRow], metrics: list[MetricColumn], notes: Notes, repeated: Repeated) -> View:
    """What a workload's folded line shows, the difference of the fastest pair, and all its pairs and baselines."""
    best = min(pairs, key=_duration)
    said = next((i.sentence for i in best.insights if i.rule == "M1"), None)
    return {
        "workload": best.workload,
        "kernels": _kernels(best),
        "cells": [_delta(best, m.key, notes) for m in metrics],
        "said": said,
        "pairs": [_pair(row, metrics, notes, repeated) for row in pairs],
        "baselines": [_baseline(entry, metrics, notes) for entry in best.baselines],
    }


def _duration(row: CompareRow) -> tuple[int, float]:
    """How many times of a pair are missing, and the sum of those that were measured or predicted: the smallest is that
    of the fastest kernels."""
    cells = [side.cells["duration_us"] for side in (row.cutile, row.cute)]
    times = [cell.value or 0.0 for cell in cells if cell.kind in ("measured", "recorded", "predicted")]
    return len(DSLS) - len(times), sum(times)


def _any_known(rows: list[CompareRow], key: str) -> bool:
    cells = (side.cells for row in rows for side in (row.cutile, row.cute))
    others = (other.cells for row in rows for other in row.baselines)
    return any(key in found and found[key].kind != "missing" for found in (*cells, *others))


def _kernels(row: CompareRow) -> str:
    """The kernels of a row by name."""
    return _names(*pair_of(row))


def _names(*kernels: str | None) -> str:
    return " beside ".join(filter(None, kernels)) or "no kernel in either DSL"


def _repeated(table: CompareTable, prefix: str) -> Repeated:
    """What is said of the compiled code in several rows of the same kernels: said once, with an id to refer to."""
    several = [
        ((_names(pair.cutile, pair.cute), said.rule, said.sentence), said.rows)
        for pair in table.said
        for said in pair.sentences
    ]
    return {key: {"id": f"said-{prefix}-{place}", "rows": rows} for place, (key, rows) in enumerate(several)}


def _boxes(table: CompareTable, repeated: Repeated) -> list[View]:
    """Repeated insights per pair of kernels, each with the number of rows that it holds for."""
    counts = {_names(pair.cutile, pair.cute): pair.rows for pair in table.said}
    return [
        {
            "kernels": kernels,
            "insights": [
                {
                    **{"id": found["id"], "rule": rule, "sentence": sentence},
                    "rows": "every row" if found["rows"] == count else f"{found['rows']} of {count} rows",
                }
                for (who, rule, sentence), found in repeated.items()
                if who == kernels
            ],
        }
        for kernels, count in counts.items()
        if any(who == kernels for who, _, _ in repeated)
    ]


def _pair(row: CompareRow, metrics: list[MetricColumn], notes: Notes, repeated: Repeated) -> View:
    said = [(repeated.get((_kernels(row), i.rule, i.sentence)), i) for i in row.insights]
    lines = [
        {
            "name": {"cutile": "cuTile", "cute": "CuTe"}[dsl],
            "kernel": side.kernel,
            "none": None if side.kernel else notes.mark(side.reason or ""),
            "class": dsl,
            "cells": [_cell(side.cells[m.key], notes) for m in metrics],
        }
        for dsl, side in zip(DSLS, (row.cutile, row.cute), strict=True)
    ]
    lines.append(
        {
            **{"name": "Delta", "kernel": "", "none": None, "class": "delta"},
            "cells": [_delta(row, m.key, notes) for m in metrics],
        }
    )
    return {
        "kernels": _kernels(row),
        "lines": lines,
        "insights": [insight for box, insight in said if box is None],
        "shared": [{"rule": insight.rule, "id": box["id"]} for box, insight in said if box],
    }


def _cell(cell: Cell, notes: Notes) -> View:
    note = notes.mark(cell.reason) if cell.reason else None
    if cell.value is None:
        return {"text": "none", "class": "missing", "value": None, "note": note, "mark": ""}
    bound = {"static": "≥ " if cell.unit == "µs" else "", "predicted": "≈ "}.get(cell.kind, "")
    return {
        "text": bound + _text(cell.value, cell.unit),
        "class": cell.kind,
        "value": _rounded(cell.value),
        "note": note,
        "mark": MARKS.get(cell.kind, "") + "r" * is_kept(cell.source or ""),
    }


def _text(value: float, unit: str = "") -> str:
    """KB to a tenth, as shared memory is allotted in smaller steps than three digits show."""
    return f"{value:.1f}".removesuffix(".0") if unit == "KB" else number(value)


def _rounded(value: float) -> float:
    """What sorting and copying take: more digits than any measurement has."""
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short


def _delta(row: CompareRow, key: str, notes: Notes) -> View:
    """CuTe minus cuTile; for a time how many times as fast CuTe is."""
    cell = row.delta[key]
    if cell.value is None:
        note = notes.mark(cell.reason or "")
        return {"text": "none", "class": "missing", "value": None, "note": note, "mark": ""}
    if cell.unit == "µs":
        left, right = row.cutile.cells[key].value, row.cute.cells[key].value
        assert left is not None and right is not None  # or the difference would be missing
        text, value = f"{left / right:.2f}{TIMES}", left / right
    else:
        value = cell.value
        text = signed(value, _text(abs(value), cell.unit))
    return {"text": text, "class": "delta", "value": _rounded(value), "note": None, "mark": MARKS.get(cell.kind, "")}


def _baseline(entry: Baseline, metrics: list[MetricColumn], notes: Notes) -> View:
    cells = [_cell(entry.cells[m.key], notes) for m in metrics if m.key in entry.cells]
    return {"name": DSL_NAMES[entry.dsl], "kernel": entry.kernel, "none": None, "class": "base", "cells": cells}
