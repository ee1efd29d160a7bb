"""Times of an operator's kernels side by side, per target and device: lone cold calls and warm back-to-back ones."""

from __future__ import annotations

from cutesnake.analysis.evidence.gather import Evidence, Record, Source, first_line


def times(evidence: Evidence) -> list[Record]:
    """A table per target and source that timed something; of a kernel's variants the fastest, cold and warm.

    `rows` hold per kernel `cold_us` (median of lone calls, L2 flushed before each) and `hot_us` (mean over back-to-back
    calls), each with its variant, its TFLOP/s and the flags of both records; `variants` all warm times.
    """
    targets = dict.fromkeys(target for _, target in evidence.decisions)
    tables = (_table(evidence, source, target) for target in targets for source in evidence.sources(target))
    return [table for table in tables if table["rows"]]


def _table(evidence: Evidence, source: Source, target: str) -> Record:
    found: dict[str, dict[str, list[Record]]] = {}
    for entry in evidence.records(source, "timing"):
        case = entry["case"]
        if case["target"] == target and case["workload"] in evidence.workloads:
            found.setdefault(case["workload"], {}).setdefault(case["kernel"], []).append(entry)
    dsls = {kernel: d["dsl"] for (kernel, where), d in evidence.decisions.items() if where == target}
    rows: list[Record] = [
        {
            "workload": workload,
            "floor_us": (evidence.floor(workload, target, source.device) or {}).get("floor_us"),
            "kernels": {kernel: _best(found[workload][kernel]) for kernel in dsls if kernel in found[workload]},
        }
        for workload in evidence.workloads
        if workload in found
    ]
    return {
        "target": target,
        "device": evidence.label(source, "timing"),
        "kernels": {kernel: dsl for kernel, dsl in dsls.items() if any(kernel in row["kernels"] for row in rows)},
        "rows": rows,
        "failed": _failed(evidence, source, target),
    }


def _best(entries: list[Record]) -> Record:
    """The fastest variant of a kernel on a workload, when cold and when warm: they need not be the same."""
    cold = min(entries, key=lambda entry: entry["metrics"]["cold_us"])
    warm = min(entries, key=lambda entry: entry["metrics"]["hot_us"])
    return {
        "cold_us": cold["metrics"]["cold_us"],
        "cold_variant": cold["case"]["variant"]["id"],
        "spread_percent": cold["metrics"]["spread_percent"],
        "tflops": cold["metrics"]["tflops"],
        "hot_us": warm["metrics"]["hot_us"],
        "hot_variant": warm["case"]["variant"]["id"],
        "hot_tflops": warm["metrics"]["hot_tflops"],
        "variants": {e["case"]["variant"]["id"]: e["metrics"]["hot_us"] for e in entries},
        "flags": list(dict.fromkeys([*cold["metrics"]["flags"], *warm["metrics"]["flags"]])),
    }


def _failed(evidence: Evidence, source: Source, target: str) -> list[Record]:
    """Cases whose timing failed on the source, with the reason."""
    entries = (evidence.measured if source.kind == "live" else evidence.recorded).values()
    return [
        {
            "kernel": entry["case"]["kernel"],
            "workload": entry["case"]["workload"],
            "reason": first_line(entry["reason"]),
        }
        for entry in entries
        if (entry["stage"], entry["status"], entry["case"]["target"]) == ("timing", "failed", target)
        and (entry["device"] or {}).get("name") in (None, source.device)
    ]
