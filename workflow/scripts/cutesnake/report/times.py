"""All kernels' times side by side, per target and device, with times measured elsewhere beside them."""

from __future__ import annotations

from typing import Any

from cutesnake.evidence import Evidence, Source
from cutesnake.report.words import where

Record = dict[str, Any]


def times(evidence: Evidence, references: list[Record]) -> list[Record]:
    """A table per target and source that timed something: warm-L2 medians in us, the fastest kernel of a row marked.

    `references` are entries of `kernels/<operator>/reference_times.yaml`; those of the source's device get a column
    each. They never count as the fastest: they were not measured in the same run.
    """
    targets = dict.fromkeys(target for _, target in evidence.decisions)
    tables = []
    for target in targets:
        for source in evidence.sources(target):
            found = _best(evidence, source, target)
            if found:
                elsewhere = [r for r in references if r["device"] == source.device]
                tables.append(_table(evidence, source, target, found, elsewhere))
    return tables


def _best(evidence: Evidence, source: Source, target: str) -> dict[str, dict[str, Record]]:
    """workload -> kernel -> the metrics of its fastest variant."""
    found: dict[str, dict[str, Record]] = {}
    for entry in evidence.records(source, "timing"):
        case = entry["case"]
        if case["target"] == target and case["workload"] in evidence.workloads:
            row = found.setdefault(case["workload"], {})
            before = row.get(case["kernel"])
            if before is None or entry["metrics"]["hot_us"] < before["hot_us"]:
                row[case["kernel"]] = entry["metrics"]
    return found


def _table(
    evidence: Evidence,
    source: Source,
    target: str,
    found: dict[str, dict[str, Record]],
    elsewhere: list[Record],
) -> Record:
    kernels = [k for k, t in evidence.decisions if t == target and any(k in row for row in found.values())]
    rows = []
    for workload in evidence.workloads:
        if workload in found:
            row = found[workload]
            fastest = min(row, key=lambda kernel: row[kernel]["hot_us"])
            cells = [
                {
                    "us": row[kernel]["hot_us"] if kernel in row else None,
                    "tflops": row[kernel]["hot_tflops"] if kernel in row else None,
                    "fastest": kernel == fastest,
                    "flags": row[kernel]["flags"] if kernel in row else [],
                }
                for kernel in kernels
            ]
            rows.append({"workload": workload, "cells": cells, "other": [r["hot_us"].get(workload) for r in elsewhere]})
    label = where(evidence.label(source))
    return {"target": target, "where": label, "kernels": kernels, "rows": rows, "references": elsewhere}
