"""All kernels' times side by side, per target and device, with times measured elsewhere beside them."""

from __future__ import annotations

from statistics import geometric_mean
from typing import Any

from cutesnake.report.words import DSL_NAMES, Notes, plural, where

Record = dict[str, Any]
Found = dict[str, dict[str, Record]]  # workload -> kernel -> its times


def times(comparison: Record, references: list[Record]) -> list[Record]:
    """A view per target and source that timed something: warm-L2 sustained means in us, the fastest of a row marked.

    `references` are entries of `kernels/<operator>/reference_times.yaml`; those of the source's device get a column
    each, unless the source timed their `kernel` itself. They never count as the fastest: they are of another run.
    """
    return [_table(table, references) for table in comparison["times"]]


def _table(table: Record, references: list[Record]) -> Record:
    kernels = table["kernels"]
    found = {row["workload"]: row["kernels"] for row in table["rows"]}
    device = table["device"]["device"]
    elsewhere = [r for r in references if r["device"] == device and r["kernel"] not in kernels]
    failed = {(entry["kernel"], entry["workload"]): entry["reason"] for entry in table["failed"]}
    notes = Notes()
    rows = []
    for workload, row in found.items():
        fastest = _fastest(row)
        cells = [
            _cell(row[kernel], kernel == fastest, notes)
            if kernel in row
            else _no_cell(failed.get((kernel, workload)), notes)
            for kernel in kernels
        ]
        rows.append({"workload": workload, "cells": cells, "other": [r["hot_us"].get(workload) for r in elsewhere]})
    return {
        **{"target": table["target"], "where": where(table["device"]), "kernels": list(kernels), "rows": rows},
        **{"references": elsewhere, "notes": notes.texts, "sentence": _sentence(found, kernels)},
        "summary": _summary(found, kernels, elsewhere),
        "cutile": "cutile" in kernels.values(),
        "peers": _peers(kernels),
    }


def _cell(metrics: Record, fastest: bool, notes: Notes) -> Record:
    marks = sorted(notes.mark(flag) for flag in metrics["flags"])
    return {"us": metrics["hot_us"], "tflops": metrics["hot_tflops"], "fastest": fastest, "marks": marks}


def _no_cell(reason: str | None, notes: Notes) -> Record:
    marks = [notes.mark(reason)] if reason else []
    return {"us": None, "tflops": None, "fastest": False, "marks": marks}


def _fastest(row: dict[str, Record]) -> str:
    return min(row, key=lambda kernel: row[kernel]["hot_us"])


def _sentence(found: Found, kernels: dict[str, str]) -> str:
    """Who is fastest how often, the most frequent first."""
    wins = [_fastest(row) for row in found.values()]
    order = sorted((kernel for kernel in kernels if kernel in wins), key=lambda kernel: -wins.count(kernel))
    said = [f"{kernel} ({DSL_NAMES[kernels[kernel]]}) on {wins.count(kernel)}" for kernel in order]
    of = f"{plural(len(kernels), 'kernel')} with a warm L2 cache"
    return f"Fastest of {of}: {', '.join(said)} of {plural(len(found), 'workload')}."


def _summary(found: Found, kernels: dict[str, str], elsewhere: list[Record]) -> list[Record]:
    """Per kernel: rows timed and won; its speed against a row's best cuTile kernel, each peer and each reference."""
    wins = [_fastest(row) for row in found.values()]
    cutile = {
        workload: min(metrics["hot_us"] for kernel, metrics in row.items() if kernels[kernel] == "cutile")
        for workload, row in found.items()
        if any(kernels[kernel] == "cutile" for kernel in row)
    }
    return [
        {
            **{"kernel": kernel, "dsl": DSL_NAMES[dsl], "fastest": wins.count(kernel)},
            "timed": sum(kernel in row for row in found.values()),
            "cutile": _speed(found, kernel, cutile),
            "peers": [
                None if peer == kernel else _speed(found, kernel, _times(found, peer)) for peer in _peers(kernels)
            ],
            "references": [_speed(found, kernel, reference["hot_us"]) for reference in elsewhere],
        }
        for kernel, dsl in kernels.items()
    ]


def _peers(kernels: dict[str, str]) -> list[str]:
    """The kernels that a package brings along, in neither DSL."""
    return [kernel for kernel, dsl in kernels.items() if dsl == "cuda"]


def _times(found: Found, kernel: str) -> dict[str, float]:
    return {workload: row[kernel]["hot_us"] for workload, row in found.items() if kernel in row}


def _speed(found: Found, kernel: str, others: dict[str, float]) -> Record | None:
    """Geometric mean, over the workloads that both have, of the other's time over the kernel's; None without any."""
    ratios = [others[w] / row[kernel]["hot_us"] for w, row in found.items() if kernel in row and w in others]
    return {"mean": geometric_mean(ratios), "count": len(ratios)} if ratios else None
