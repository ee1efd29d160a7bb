"""Comparison tables: one per operator, target and device, grouped by workload and kernel pair."""

from __future__ import annotations

from typing import Any

from cutesnake.analysis.compare.insight import number
from cutesnake.analysis.compare.selected_workloads import pair_of, table_of
from cutesnake.model.kept_builds import is_kept
from cutesnake.model.records.compare import Baseline, Cell, Compare, CompareRow, CompareTable, MetricColumn
from cutesnake.report.formatting import DSL_NAMES, Notes, plural, signed, slug, where

View = dict[str, Any]  # data of a template
DSLS = ("cutile", "cute")
OPTIONAL = ("hot_duration_us", "plan_cold_us", "plan_us")  # columns that are shown only with values
MOST_UNMEASURED = 40  # workloads in a table without measurements; the CSV file has all
MARKS = {"static": "s", "predicted": "p"}  # after values that were not measured
TIMES = "\N{MULTIPLICATION SIGN}"
Repeated = dict[tuple[str, str, str], View]  # kernels, rule, sentence -> its id and number of rows


def tables(comparison: Compare, notes: Notes) -> list[View]:
    """Return the views of an operator's tables, measured ones first.

    `notes` is the page's list of reasons; cells refer to it by number.
    """
    rows: dict[tuple, list[CompareRow]] = {}
    for row in comparison.rows:
        rows.setdefault(table_of(row), []).append(row)
    views = [
        _table(comparison, table, rows.get(table_of(table), []), notes, str(place))
        for place, table in enumerate(comparison.tables)
    ]
    return sorted(views, key=lambda table: not table["measured"])


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
    """Select at most MOST_UNMEASURED workloads for a table without measurements.

    All predicted workloads are kept; the others are picked evenly, since their rows hold much the same static values.
    """
    every = list(workloads)
    if len(every) <= MOST_UNMEASURED:
        return set(every)
    predicted = {name for name, rows in workloads.items() if _also_predicted(rows)}
    return predicted | {every[place * (len(every) - 1) // (MOST_UNMEASURED - 1)] for place in range(MOST_UNMEASURED)}


def _also_predicted(rows: list[CompareRow]) -> str:
    cells = (cell for row in rows for side in (row.cutile, row.cute) for cell in side.cells.values())
    return ", with times predicted by ptxsim" * any(cell.kind == "predicted" for cell in cells)


def _count(every: int, shown: int) -> str:
    return plural(every, "workload") if shown == every else f"{number(shown)} of {plural(every, 'workload')}"


def _workload(pairs: list[CompareRow], metrics: list[MetricColumn], notes: Notes, repeated: Repeated) -> View:
    """Return a workload's summary line (fastest pair), all its pairs and its baselines."""
    best = min(pairs, key=_duration)
    speedup = next((i.sentence for i in best.insights if i.rule == "M1"), None)
    return {
        "workload": best.workload,
        "kernels": _kernels(best),
        "cells": [_delta(best, m.key, notes) for m in metrics],
        "speedup": speedup,
        "pairs": [_pair(row, metrics, notes, repeated) for row in pairs],
        "baselines": [_baseline(entry, metrics, notes) for entry in best.baselines],
    }


def _duration(row: CompareRow) -> tuple[int, float]:
    """Sort key of a pair: number of missing times, then the sum of known times."""
    cells = [side.cells["duration_us"] for side in (row.cutile, row.cute)]
    times = [cell.value or 0.0 for cell in cells if cell.kind in ("measured", "recorded", "predicted")]
    return len(DSLS) - len(times), sum(times)


def _any_known(rows: list[CompareRow], key: str) -> bool:
    cells = (side.cells for row in rows for side in (row.cutile, row.cute))
    others = (other.cells for row in rows for other in row.baselines)
    return any(key in side_cells and side_cells[key].kind != "missing" for side_cells in (*cells, *others))


def _kernels(row: CompareRow) -> str:
    """Return a row's kernel names as text."""
    return _names(*pair_of(row))


def _names(*kernels: str | None) -> str:
    return " vs ".join(filter(None, kernels)) or "no kernel in either DSL"


def _repeated(table: CompareTable, prefix: str) -> Repeated:
    """Return the static sentences that several rows share, each with an id for links."""
    several = [
        ((_names(pair.cutile, pair.cute), counted.rule, counted.sentence), counted.rows)
        for pair in table.said
        for counted in pair.sentences
    ]
    return {key: {"id": f"shared-{prefix}-{place}", "rows": rows} for place, (key, rows) in enumerate(several)}


def _boxes(table: CompareTable, repeated: Repeated) -> list[View]:
    """Return repeated insights per kernel pair, each with its number of rows."""
    counts = {_names(pair.cutile, pair.cute): pair.rows for pair in table.said}
    return [
        {
            "kernels": kernels,
            "insights": [
                {
                    **{"id": box["id"], "rule": rule, "sentence": sentence},
                    "rows": "every row" if box["rows"] == count else f"{box['rows']} of {count} rows",
                }
                for (who, rule, sentence), box in repeated.items()
                if who == kernels
            ],
        }
        for kernels, count in counts.items()
        if any(who == kernels for who, _, _ in repeated)
    ]


def _pair(row: CompareRow, metrics: list[MetricColumn], notes: Notes, repeated: Repeated) -> View:
    labelled = [(repeated.get((_kernels(row), i.rule, i.sentence)), i) for i in row.insights]
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
        "insights": [insight for box, insight in labelled if box is None],
        "shared": [{"rule": insight.rule, "id": box["id"]} for box, insight in labelled if box],
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
    """Format a value; KB keeps one decimal, since allocation steps are below three digits."""
    return f"{value:.1f}".removesuffix(".0") if unit == "KB" else number(value)


def _rounded(value: float) -> float:
    """Round to six digits, the precision for sorting and copying."""
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() else short


def _delta(row: CompareRow, key: str, notes: Notes) -> View:
    """Return CuTe minus cuTile, or for times the speedup of CuTe over cuTile."""
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
