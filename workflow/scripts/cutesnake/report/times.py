"""All kernels' times side by side, per target and device, with times measured elsewhere beside them."""

from __future__ import annotations

from statistics import geometric_mean
from typing import Any

from cutesnake.evidence.gather import Evidence, Source, first_line
from cutesnake.report.words import DSL_NAMES, Notes, plural, where

Record = dict[str, Any]
Found = dict[str, dict[str, Record]]  # workload -> kernel -> the metrics of its fastest variant


def times(evidence: Evidence, references: list[Record]) -> list[Record]:
    """A table per target and source that timed something: warm-L2 sustained means in us, the fastest of a row marked.

    `references` are entries of `kernels/<operator>/reference_times.yaml`; those of the source's device get a column
    each, unless the source timed their `kernel` itself. They never count as the fastest: they are of another run.
    """
    targets = dict.fromkeys(target for _, target in evidence.decisions)
    tables = []
    for target in targets:
        for source in evidence.sources(target):
            found = _best(evidence, source, target)
            if found:
                timed = {kernel for row in found.values() for kernel in row}
                elsewhere = [r for r in references if r["device"] == source.device and r["kernel"] not in timed]
                tables.append(_table(evidence, source, target, found, elsewhere))
    return tables


def _best(evidence: Evidence, source: Source, target: str) -> Found:
    found: Found = {}
    for entry in evidence.records(source, "timing"):
        case = entry["case"]
        if case["target"] == target and case["workload"] in evidence.workloads:
            row = found.setdefault(case["workload"], {})
            before = row.get(case["kernel"])
            if before is None or entry["metrics"]["hot_us"] < before["hot_us"]:
                row[case["kernel"]] = entry["metrics"]
    return {workload: found[workload] for workload in evidence.workloads if workload in found}


def _table(evidence: Evidence, source: Source, target: str, found: Found, elsewhere: list[Record]) -> Record:
    dsls = {k: d["dsl"] for (k, t), d in evidence.decisions.items() if t == target}
    kernels = {k: dsl for k, dsl in dsls.items() if any(k in row for row in found.values())}
    failed = _failed(evidence, source, target)
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
        **{"target": target, "where": where(evidence.label(source)), "kernels": list(kernels), "rows": rows},
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


def _failed(evidence: Evidence, source: Source, target: str) -> dict[tuple[str, str], str]:
    """(kernel, workload) -> why it was not timed, where the source has a record that says so."""
    entries = (evidence.measured if source.kind == "live" else evidence.recorded).values()
    return {
        (entry["case"]["kernel"], entry["case"]["workload"]): first_line(entry["reason"])
        for entry in entries
        if (entry["stage"], entry["status"], entry["case"]["target"]) == ("timing", "failed", target)
        and (entry["device"] or {}).get("name") in (None, source.device)
    }


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
