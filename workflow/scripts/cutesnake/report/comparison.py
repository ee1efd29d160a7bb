"""The comparison tables: one per operator, target and device, a group of lines per workload and pair of kernels."""

from __future__ import annotations

from typing import Any

from cutesnake.insight import number
from cutesnake.report.words import DSL_NAMES, Notes, plural, signed, slug, where

Record = dict[str, Any]
DSLS = ("cutile", "cute")
TIMES = "\N{MULTIPLICATION SIGN}"
Common = dict[tuple[str, str], tuple[int, list[Record]]]


def tables(comparison: Record) -> list[Record]:
    """Views of the tables of one operator, measured ones first."""
    groups: dict[tuple, list[Record]] = {}
    for row in comparison["rows"]:
        device = row["device"]
        groups.setdefault((row["target"], *device.values()), []).append(row)
    found = [_table(comparison, rows) for rows in groups.values()]
    return sorted(found, key=lambda table: not table["measured"])


def _table(comparison: Record, rows: list[Record]) -> Record:
    first = rows[0]
    device = first["device"]
    metrics = [m for m in comparison["metrics"] if m["key"] != "hot_duration_us" or _any_hot(rows)]
    notes = Notes()
    common = _common(rows)
    return {
        "id": slug("compare", comparison["operator"], first["target"], device["kind"], device["device"] or ""),
        "operator": comparison["operator"],
        "target": first["target"],
        "where": where(device),
        "measured": device["kind"] != "none",
        "metrics": metrics,
        "groups": [_group(row, metrics, notes, common) for row in rows],
        "common": _merged(common),
        "notes": notes.texts,
        "count": plural(len({row["workload"] for row in rows}), "workload"),
    }


def _merged(common: Common) -> list[Record]:
    """Shared insights, once for all pairs of builds of the same kernels that share the same ones."""
    found: list[Record] = []
    for (kernels, builds), (_, said) in common.items():
        same = next((entry for entry in found if (entry["kernels"], entry["insights"]) == (kernels, said)), None)
        if same:
            same["builds"].append(builds)
        elif said:
            found.append({"kernels": kernels, "builds": [builds], "insights": said})
    return found


def _any_hot(rows: list[Record]) -> bool:
    return any(row[dsl]["cells"]["hot_duration_us"]["kind"] != "missing" for row in rows for dsl in DSLS)


def _pair(row: Record) -> tuple[str, str]:
    """The kernels of a row, and the variants that were built of them."""
    present = [row[dsl] for dsl in DSLS if row[dsl]["kernel"]]
    kernels = " beside ".join(side["kernel"] for side in present) or "no kernel in either DSL"
    return kernels, " and ".join(dict.fromkeys(side["variant"] for side in present))


def _common(rows: list[Record]) -> Common:
    """Per pair of builds: how many rows it has, and the insights that every one of them shares if there are several."""
    found: Common = {}
    for row in rows:
        pair = _pair(row)
        count, shared = found.get(pair, (0, row["insights"]))
        found[pair] = (count + 1, [said for said in shared if said in row["insights"]])
    return {pair: (count, shared if count > 1 else []) for pair, (count, shared) in found.items()}


def _group(row: Record, metrics: list[Record], notes: Notes, common: Common) -> Record:
    shared = common[_pair(row)][1]
    lines = [
        {
            "name": {"cutile": "cuTile", "cute": "CuTe"}[dsl],
            "kernel": row[dsl]["kernel"],
            "none": None if row[dsl]["kernel"] else notes.mark(row[dsl]["reason"]),
            "class": dsl,
            "cells": [_cell(row[dsl]["cells"][m["key"]], notes) for m in metrics],
        }
        for dsl in DSLS
    ]
    lines.append(
        {
            "name": "Delta",
            "kernel": "",
            "none": None,
            "class": "delta",
            "cells": [_delta(row, m["key"], notes) for m in metrics],
        }
    )
    lines += [_baseline(entry, metrics) for entry in row["baselines"]]
    return {
        "workload": row["workload"],
        "lines": lines,
        "insights": [said for said in row["insights"] if said not in shared],
        "shared": [said["rule"] for said in shared],
    }


def _cell(cell: Record, notes: Notes) -> Record:
    note = notes.mark(cell["reason"]) if cell["reason"] else None
    if cell["kind"] == "missing":
        return {"text": "none", "class": "missing", "value": None, "note": note, "static": False}
    bound = "≥ " if cell["unit"] == "µs" and cell["kind"] == "static" else ""
    return {
        "text": bound + _text(cell["value"], cell["unit"]),
        "class": cell["kind"],
        "value": cell["value"],
        "note": note,
        "static": cell["kind"] == "static",
    }


def _text(value: float, unit: str = "") -> str:
    """KB to a tenth, as shared memory is allotted in smaller steps than three digits show."""
    return f"{value:.1f}".removesuffix(".0") if unit == "KB" else number(value)


def _delta(row: Record, key: str, notes: Notes) -> Record:
    """CuTe minus cuTile; for a time how many times as fast CuTe is."""
    cell = row["delta"][key]
    if cell["kind"] == "missing":
        note = notes.mark(cell["reason"])
        return {"text": "none", "class": "missing", "value": None, "note": note, "static": False}
    if cell["unit"] == "µs":
        left, right = (row[dsl]["cells"][key]["value"] for dsl in DSLS)
        text, value = f"{left / right:.2f}{TIMES}", left / right
    else:
        value = cell["value"]
        text = signed(value, _text(abs(value), cell["unit"]))
    return {"text": text, "class": "delta", "value": value, "note": None, "static": cell["kind"] == "static"}


def _baseline(entry: Record, metrics: list[Record]) -> Record:
    cells = [_cell(entry["duration_us"], Notes()) for m in metrics if m["key"] == "duration_us"]
    return {"name": DSL_NAMES[entry["dsl"]], "kernel": entry["kernel"], "none": None, "class": "base", "cells": cells}
