"""Comparison tables per target and device: a row per workload, kernels folded."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cutesnake.analysis.compare.insight import NOISE_PERCENT, number
from cutesnake.analysis.compare.selected_workloads import pair_of, table_of
from cutesnake.model.records.compare import (
    Baseline,
    Cell,
    Compare,
    CompareRow,
    CompareSide,
    CompareTable,
    Insight,
    MetricColumn,
)
from cutesnake.report.formatting import DSL_NAMES, Notes, plural, short, slug, where

View = dict[str, Any]  # data of a template
DSLS = ("cute", "cutile")  # in the order of the columns
FIGURES = {"duration_us": "Cold", "hot_duration_us": "Warm"}  # metric of a time -> heading of its columns
MOST_UNMEASURED = 12  # workloads in a table without measurements; the CSV file has all
MARKS = {"static": "\N{DAGGER}", "predicted": "\N{ALMOST EQUAL TO}"}  # after values that were not measured
RATIO = "M1"  # the rule that states a speedup, which the row shows as a number
TIMES = "\N{MULTIPLICATION SIGN}"
NONE = "\N{EN DASH}"
KNOWN = ("measured", "recorded", "predicted")
Repeated = dict[tuple[str, str, str], int]  # kernels, rule, sentence -> its number of rows


@dataclass
class RowVerdict:
    """A row's faster DSL per kind of time, and why."""

    winners: dict[str, str | None] = field(default_factory=dict)  # warm, cold -> cute, cutile or None
    limits: dict[str, str] = field(default_factory=dict)  # warm, cold -> the difference from which on one is faster
    within: str = ""  # what that is
    label: str | None = None
    sentence: str | None = None


Rows = Callable[[str, str | None, str], RowVerdict | None]  # target, device, workload -> verdict


def tables(comparison: Compare, notes: Notes, verdicts: Rows = lambda *_: None) -> list[View]:
    """Return the views of an operator's tables, measured ones first.

    `notes` is the page's list of reasons; rows refer to it by number. `verdicts` explains a workload's speedup.
    """
    rows: dict[tuple, list[CompareRow]] = {}
    for row in comparison.rows:
        rows.setdefault(table_of(row), []).append(row)
    views = [_table(comparison, table, rows.get(table_of(table), []), notes, verdicts) for table in comparison.tables]
    return sorted(views, key=lambda table: not table["measured"])


def _table(comparison: Compare, table: CompareTable, rows: list[CompareRow], notes: Notes, verdicts: Rows) -> View:
    device = table.device
    repeated = _repeated(table)
    workloads: dict[str, list[CompareRow]] = {}
    for row in rows:
        workloads.setdefault(row.workload, []).append(row)
    shown = _foremost(workloads) if device.kind == "none" else set(workloads)
    workloads = {name: pairs for name, pairs in workloads.items() if name in shown}
    seen = [row for pairs in workloads.values() for row in pairs]
    times = [m for m in comparison.metrics if m.key in FIGURES and _known(seen, m.key)]
    others = [m for m in comparison.metrics if m.key not in FIGURES]
    shares = [m for m in others if _known(seen, m.key)]
    marks = _Marks(seen)
    prefix = slug(short(device.device) if device.device else table.target)

    def verdict(workload: str) -> RowVerdict:
        return verdicts(table.target, device.device, workload) or RowVerdict()

    return {
        "id": slug("compare", comparison.operator, table.target, device.kind, device.device or ""),
        "target": table.target,
        "where": where(device) + _also_predicted(seen),
        "measured": device.kind != "none",
        "times": [FIGURES[m.key] for m in times],
        "shares": [{"column": m, "mark": marks.heading(m.key)} for m in shares],
        "hidden": [m.name for m in others if m not in shares and m.key not in ("plan_cold_us", "plan_us")],
        "workloads": [
            _workload(pairs, f"{prefix}-{name}", times, shares, marks, notes, repeated, verdict(name))
            for name, pairs in workloads.items()
        ],
        "common": _boxes(table, repeated),
        "count": _count(table.workloads, len(shown)) + _in_both(workloads.values(), times),
    }


def _foremost(workloads: dict[str, list[CompareRow]]) -> set[str]:
    """Select the workloads of a table without measurements: the predicted ones, else MOST_UNMEASURED.

    These are picked evenly, since their rows hold much the same static values.
    """
    every = list(workloads)
    if len(every) <= MOST_UNMEASURED:
        return set(every)
    if predicted := {name for name, rows in workloads.items() if _also_predicted(rows)}:
        return predicted
    return {every[place * (len(every) - 1) // (MOST_UNMEASURED - 1)] for place in range(MOST_UNMEASURED)}


def _also_predicted(rows: list[CompareRow]) -> str:
    cells = (cell for row in rows for side in (row.cutile, row.cute) for cell in side.cells.values())
    return ", with times predicted by ptxsim" * any(cell.kind == "predicted" for cell in cells)


def _count(every: int, shown: int) -> str:
    return plural(every, "workload") if shown == every else f"{number(shown)} of {plural(every, 'workload')}"


def _in_both(workloads: Iterable[list[CompareRow]], times: Sequence[MetricColumn]) -> str:
    """Return how many workloads have a time of both DSLs, unless all or none have."""
    every = [
        any(all((cell := _fastest(pairs, dsl, m.key)) and cell.kind in KNOWN for dsl in DSLS) for m in times)
        for pairs in workloads
    ]
    return f", {number(sum(every))} with times of both DSLs" if any(every) and not all(every) else ""


def _cells_of(rows: Iterable[CompareRow], key: str) -> Iterable[Cell]:
    """Yield all cells of a metric that have a value."""
    for row in rows:
        for cells in (row.cutile.cells, row.cute.cells, *(other.cells for other in row.baselines)):
            if key in cells and cells[key].kind != "missing":
                yield cells[key]


def _known(rows: list[CompareRow], key: str) -> bool:
    return any(True for _ in _cells_of(rows, key))


def _mark_of(cell: Cell) -> str:
    return "" if cell.unit == "µs" else MARKS.get(cell.kind, "")  # a time's sign is before it


class _Marks:
    """Marks of a table's values; a column's common mark is in its heading."""

    def __init__(self, rows: list[CompareRow]) -> None:
        self.rows = rows
        self.headings: dict[str, str] = {}

    def heading(self, key: str) -> str:
        """Return the mark of a column."""
        if key not in self.headings:
            marks = {_mark_of(cell) for cell in _cells_of(self.rows, key)}
            self.headings[key] = marks.pop() if len(marks) == 1 else ""
        return self.headings[key]

    def of(self, key: str, *cells: Cell) -> str:
        """Return the mark of some cells of a column."""
        if self.heading(key):
            return ""
        return "".join(sorted({letter for cell in cells if cell.kind != "missing" for letter in _mark_of(cell)}))


def _workload(
    pairs: list[CompareRow],
    place: str,
    times: list[MetricColumn],
    shares: list[MetricColumn],
    marks: _Marks,
    notes: Notes,
    repeated: Repeated,
    verdict: RowVerdict,
) -> View:
    """Return a workload's row, the rows of its kernels, and insights per pair of kernels."""
    best = min(pairs, key=_duration)
    kernels = _kernels(pairs)
    cells: list[View] = []
    for metric in times:
        sides = [_fastest(pairs, dsl, metric.key) for dsl in DSLS]
        cells += [_time(side) for side in sides]
        figure = FIGURES[metric.key].lower()
        cells.append(_ratio(sides[0], sides[1], verdict.winners.get(figure, ""), verdict.limits.get(figure)))
    for metric in shares:
        both = [best.cute.cells[metric.key], best.cutile.cells[metric.key]]
        kinds = [marks.of(metric.key, cell) for cell in both]
        cells.append(_both(both, kinds))
    own = _insights(best, repeated)
    return {
        "workload": best.workload,
        "id": place,
        "cells": cells,
        "label": verdict.label,
        "insight": verdict.sentence,
        "kernels": [_kernel(one, kernels, times, shares, marks, notes) for one in kernels],
        "missing": [
            {"dsl": DSL_NAMES[dsl], "note": notes.mark(side.reason or "")}
            for dsl, side in (("cute", best.cute), ("cutile", best.cutile))
            if side.kernel is None
        ],
        "insights": own,
    }


def _duration(row: CompareRow) -> tuple[int, float]:
    """Sort key of a pair: number of missing times, then the sum of known times."""
    cells = [side.cells["duration_us"] for side in (row.cutile, row.cute)]
    times = [cell.value or 0.0 for cell in cells if cell.kind in KNOWN]
    return len(DSLS) - len(times), sum(times)


def _fastest(pairs: list[CompareRow], dsl: str, key: str) -> Cell | None:
    """Return the time of a DSL's fastest kernel, or a bound, or None."""
    cells = [getattr(row, dsl).cells[key] for row in pairs]
    timed = [cell for cell in cells if cell.kind in KNOWN]
    return min(timed or [cell for cell in cells if cell.kind == "static"], key=lambda cell: cell.value, default=None)


def _time(cell: Cell | None) -> View:
    if cell is None or cell.value is None:
        return {"text": NONE, "class": "missing", "value": None, "mark": ""}
    bound = {"static": "≥ ", "predicted": "≈ "}.get(cell.kind, "")
    return {"text": bound + number(cell.value), "class": "", "value": _rounded(cell.value), "mark": ""}


def _ratio(cute: Cell | None, cutile: Cell | None, winner: str | None, limit: str | None) -> View:
    """Return the DSL with the shorter time and its speedup; none without both times.

    `winner` is the faster DSL by the verdict's rule, None if the times count as equal, or "" if it has no verdict.
    `limit` says up to which difference they do. The value, for sorting, is cuTile time over CuTe time.
    """
    if not (cute and cutile and cute.value and cutile.value and {cute.kind, cutile.kind} <= set(KNOWN)):
        return {"text": NONE, "class": "missing", "value": None, "mark": ""}
    ratio = cutile.value / cute.value
    about = "≈ " * ("predicted" in (cute.kind, cutile.kind))
    if winner == "":
        apart = max(ratio, 1 / ratio) > 1 + NOISE_PERCENT / 100
        winner = ("cute" if ratio > 1 else "cutile") if apart else None
    return {
        "text": f"{about}{'CuTe' if ratio > 1 else 'cuTile'} {max(ratio, 1 / ratio):.2f}{TIMES}",
        "class": f"ratio {winner or ''}".strip(),
        "value": _rounded(ratio),
        "mark": "",
        "title": limit and f"counts from {limit} on",
    }


def _both(cells: list[Cell], marks: list[str]) -> View:
    """Return both values in one cell, CuTe first, and a mark that they share."""
    if all(cell.value is None for cell in cells):
        return {"text": NONE, "class": "missing", "value": None, "mark": ""}
    texts = [NONE if cell.value is None else _text(cell.value, cell.unit) for cell in cells]
    value = next(cell.value for cell in cells if cell.value is not None)
    if len(set(marks)) > 1:  # one side is measured, the other one is not
        texts = [f"{text} {mark}".rstrip() for text, mark in zip(texts, marks, strict=True)]
    mark = marks[0] if len(set(marks)) == 1 else ""
    return {"text": " / ".join(texts), "class": "both", "value": _rounded(value), "mark": mark}


Kernel = tuple[str, str, CompareSide | Baseline]  # DSL, its name's class, the side of a row


def _kernels(pairs: list[CompareRow]) -> list[Kernel]:
    """Return each kernel of a workload once, CuTe kernels first, then cuTile ones and others."""
    kernels: dict[str, Kernel] = {}
    for dsl in DSLS:
        for row in pairs:
            side = getattr(row, dsl)
            if side.kernel is not None:
                kernels.setdefault(side.kernel, (dsl, dsl, side))
    for other in pairs[0].baselines:
        kernels.setdefault(other.kernel, (other.dsl, "base", other))
    return list(kernels.values())


def _kernel(
    kernel: Kernel,
    every: list[Kernel],
    times: list[MetricColumn],
    shares: list[MetricColumn],
    marks: _Marks,
    notes: Notes,
) -> View:
    dsl, look, side = kernel
    cells: list[View] = []
    reasons: list[str] = []
    for metric in [*times, *shares]:
        cell = side.cells.get(metric.key)
        if cell is None:
            cells.append({"text": NONE, "relative": None, "mark": ""})
            continue
        if cell.reason and (cell.value is not None or metric in times):  # Coverage says why shares are missing
            reasons.append(cell.reason)
        if cell.value is None:
            cells.append({"text": NONE, "relative": None, "mark": ""})
            continue
        bound = {"static": "≥ " if cell.unit == "µs" else "", "predicted": "≈ "}.get(cell.kind, "")
        text = bound + _text(cell.value, cell.unit)
        cells.append({"text": text, "relative": _relative(cell, every, metric.key), "mark": marks.of(metric.key, cell)})
    if isinstance(side, CompareSide) and side.reason:
        reasons.append(side.reason)
    return {
        **{"kernel": side.kernel, "dsl": DSL_NAMES[dsl], "class": look},
        "variant": getattr(side, "variant", None),
        "times": cells[: len(times)],
        "shares": cells[len(times) :],
        "notes": [notes.mark(reason) for reason in dict.fromkeys(reasons)],
    }


def _relative(cell: Cell, every: list[Kernel], key: str) -> str:
    """Return a time as a multiple of the fastest kernel's, or nothing for a bound."""
    cells = (side.cells.get(key) for _, _, side in every)
    known = [one.value for one in cells if one and one.value and one.kind in KNOWN]
    if cell.kind not in KNOWN or not known or cell.value is None:
        return NONE
    return "fastest" if cell.value <= min(known) else f"{cell.value / min(known):.2f}"


def _text(value: float, unit: str = "") -> str:
    """Format a value; KB keeps one decimal, since allocation steps are below three digits."""
    return f"{value:.1f}".removesuffix(".0") if unit == "KB" else number(value)


def _rounded(value: float) -> float:
    """Round to six digits, the precision for sorting and copying."""
    brief = float(f"{value:.6g}")
    return int(brief) if brief.is_integer() else brief


def _names(*kernels: str | None) -> str:
    return " vs ".join(filter(None, kernels)) or "no kernel in either DSL"


def _repeated(table: CompareTable) -> Repeated:
    """Return the static sentences that several rows share, each with its number of rows."""
    return {
        (_names(pair.cutile, pair.cute), counted.rule, counted.sentence): counted.rows
        for pair in table.shared_sentences
        for counted in pair.sentences
    }


def _boxes(table: CompareTable, repeated: Repeated) -> list[View]:
    """Return repeated insights per kernel pair, each with its number of rows."""
    counts = {_names(pair.cutile, pair.cute): pair.rows for pair in table.shared_sentences}
    return [
        {
            "kernels": kernels,
            "insights": [
                {
                    **{"rule": rule, "sentence": sentence},
                    "rows": "every row" if rows == count else f"{rows} of {count} rows",
                }
                for (who, rule, sentence), rows in repeated.items()
                if who == kernels
            ],
        }
        for kernels, count in counts.items()
        if any(who == kernels for who, _, _ in repeated)
    ]


def _insights(row: CompareRow, repeated: Repeated) -> list[Insight]:
    """Return the insights of a pair of kernels that no other row repeats."""
    kernels = _names(*pair_of(row))
    return [
        insight
        for insight in row.insights
        if insight.rule != RATIO and (kernels, insight.rule, insight.sentence) not in repeated
    ]
