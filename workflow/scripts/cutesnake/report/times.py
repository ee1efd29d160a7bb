"""All kernels' times side by side, per target and device, with times measured elsewhere beside them."""

from __future__ import annotations

import re
from statistics import geometric_mean
from typing import Any

from cutesnake.analysis.compare.speedup import FIGURES, fastest
from cutesnake.model.dsls import PEERS
from cutesnake.report.formatting import DSL_NAMES, Notes, plural, where

Record = dict[str, Any]
Found = dict[str, dict[str, Record]]  # workload -> kernel -> its times


def times(comparison: Record, references: list[Record], notes: Notes) -> list[Record]:
    """A view per target and source that timed something: cold lone calls and warm back-to-back calls, side by side.

    Only workloads with rows in the comparison have one here; where that is not all, `every` has the bare times of all.

    `references` are entries of `kernels/<operator>/reference_times.yaml`; those of the source's device get a column
    among the warm times, which they are, unless the source timed their `kernel` itself. They never count as the
    fastest: they are of another run. Flags and reasons are numbered by `notes`, those of the page.
    """
    shown = {row["workload"] for row in comparison["rows"]}
    return [_table(table, references, notes, shown) for table in comparison["times"]]


def _table(table: Record, references: list[Record], notes: Notes, shown: set[str]) -> Record:
    kernels = table["kernels"]
    rows = {row["workload"]: row["kernels"] for row in table["rows"]}
    elsewhere = [r for r in references if r["device"] == table["device"]["device"] and r["kernel"] not in kernels]
    few = [workload for workload in rows if workload in shown]
    failed = {(entry["kernel"], entry["workload"]): entry["reason"] for entry in table["failed"]}
    return {
        **{"target": table["target"], "where": where(table["device"]), "kernels": list(kernels)},
        "sentences": [_sentence(rows, kernels, name) for name in FIGURES],
        "summary": _summary(rows, kernels, elsewhere),
        "cutile": "cutile" in kernels.values(),
        "peers": _peers(kernels),
        "references": elsewhere,
        "figures": [
            {
                "name": name,
                "rows": [_row(rows, workload, kernels, name, failed, notes) for workload in few],
                "every": _every(rows, kernels, FIGURES[name]) if len(few) < len(rows) else None,
                "count": len(rows),
                "references": [reference["name"] for reference in elsewhere] if name == "warm" else [],
                "other": {w: [r["hot_us"].get(w) for r in elsewhere] if name == "warm" else [] for w in few},
            }
            for name in FIGURES
        ],
    }


def _every(rows: Found, kernels: dict[str, str], key: str) -> Record:
    """The times of all workloads as the page's script takes them: a heading, and a line of cells per workload."""
    return {
        "head": ["Workload", *(f"{kernel} µs" for kernel in kernels)],
        "rows": [
            [workload, *(float(f"{row[kernel][key]:.5g}") if kernel in row else None for kernel in kernels)]
            for workload, row in rows.items()
        ],
    }


def _row(
    rows: Found,
    workload: str,
    kernels: dict[str, str],
    name: str,
    failed: dict[tuple[str, str], str],
    notes: Notes,
) -> Record:
    row, key = rows[workload], FIGURES[name]
    first = fastest(row, key)
    cells = []
    for kernel in kernels:
        if kernel in row:
            time = row[kernel]
            marks = sorted({notes.mark(_kind(flag)) for flag in time["flags"]})
            tflops = time["tflops" if name == "cold" else "hot_tflops"]
            cells.append(
                {"us": time[key], "tflops": tflops, "fastest": kernel == first, "marks": marks, "flags": time["flags"]}
            )
        else:
            reason = failed.get((kernel, workload))
            marks = [notes.mark(reason)] if reason else []
            cells.append({"us": None, "tflops": None, "fastest": False, "marks": marks, "flags": []})
    return {"workload": workload, "cells": cells}


def _kind(flag: str) -> str:
    """A flag without its figures, which differ from time to time: each kind is said once, the figures in the cell."""
    kind = re.sub(r"\d[\d.,]*", "N", flag)
    return kind if kind == flag else f"{kind} (a cell's own figures show when it is pointed at)"


def _sentence(rows: Found, kernels: dict[str, str], name: str) -> str:
    """Who is fastest how often, the most frequent first."""
    wins = [fastest(row, FIGURES[name]) for row in rows.values()]
    order = sorted((kernel for kernel in kernels if kernel in wins), key=lambda kernel: -wins.count(kernel))
    said = [f"{kernel} ({DSL_NAMES[kernels[kernel]]}) on {wins.count(kernel)}" for kernel in order]
    what = {"cold": "in a lone call with a cold L2 cache", "warm": "back to back with a warm L2 cache"}[name]
    return f"Fastest of {plural(len(kernels), 'kernel')} {what}: {', '.join(said)} of {plural(len(rows), 'workload')}."


def _summary(rows: Found, kernels: dict[str, str], elsewhere: list[Record]) -> list[Record]:
    """Per kernel, cold and warm: rows won; its speed against a row's best cuTile kernel, peers and references."""
    return [
        {
            **{"kernel": kernel, "dsl": DSL_NAMES[dsl], "timed": sum(kernel in row for row in rows.values())},
            **{name: _against(rows, kernels, kernel, FIGURES[name]) for name in FIGURES},
            "references": [
                _speed(_times(rows, kernel, FIGURES["warm"]), reference["hot_us"]) for reference in elsewhere
            ],
        }
        for kernel, dsl in kernels.items()
    ]


def _against(rows: Found, kernels: dict[str, str], kernel: str, key: str) -> Record:
    mine = _times(rows, kernel, key)
    tiles = {
        workload: min(times)
        for workload, row in rows.items()
        if (times := [time[key] for name, time in row.items() if kernels[name] == "cutile"])
    }
    return {
        "fastest": sum(fastest(row, key) == kernel for row in rows.values()),
        "cutile": _speed(mine, tiles),
        "peers": [None if peer == kernel else _speed(mine, _times(rows, peer, key)) for peer in _peers(kernels)],
    }


def _peers(kernels: dict[str, str]) -> list[str]:
    """The kernels that a package brings along."""
    return [kernel for kernel, dsl in kernels.items() if dsl in PEERS]


def _times(rows: Found, kernel: str, key: str) -> dict[str, float]:
    return {workload: row[kernel][key] for workload, row in rows.items() if kernel in row}


def _speed(mine: dict[str, float], others: dict[str, float]) -> Record | None:
    """Geometric mean, over the workloads that both have, of the other's time over the kernel's; None without any."""
    ratios = [others[workload] / time for workload, time in mine.items() if workload in others]
    return {"mean": geometric_mean(ratios), "count": len(ratios)} if ratios else None
