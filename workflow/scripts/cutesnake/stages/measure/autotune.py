"""Autotune stage: find the fastest variant of a kernel on a workload, and its margin.

It times nothing itself: every variant is a case of the timing stage, with a record of its own that is redone when the
variant, the kernel or the device changes. The choice is redone when one of those records changes.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cutesnake.model import record
from cutesnake.stages.measure.case import provenance

CRITERION = "cold_us"


def choose(timings: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the autotune record of a kernel and workload, from its timing records.

    The margin is how much longer the second-best takes, in percent; a margin within the spread of the two is no
    decision of the measurement, and is reported so. Status `failed` if no variant could be timed. ValueError for
    records of different kernels, targets, workloads or devices, or of one variant twice.
    """
    _check_equal_conditions(timings)
    rows = sorted((_row(entry) for entry in timings), key=lambda r: (r[CRITERION] is None, r[CRITERION], r["variant"]))
    timed = [row for row in rows if row[CRITERION] is not None]
    case = timings[0]["case"]
    return {
        "stage": "autotune",
        "status": "ok" if timed else "failed",
        "reason": None if timed else f"none of {len(rows)} variants could be timed: {rows[0]['reason']}",
        "provenance": provenance(),
        "case": {
            **{key: case[key] for key in ("operator", "kernel", "dsl", "target", "workload", "parameters")},
            "variant": {"id": timed[0]["variant"], "params": timed[0]["params"]} if timed else None,
        },
        "device": timings[0]["device"],
        "backend": timings[0]["backend"],
        "metrics": {"criterion": CRITERION, "variants": rows, **_choice(timed)},
    }


def write_choice(timings: Iterable[str | Path], output: str | Path) -> None:
    """Read timing records, write the choice."""
    record.write("autotune", output, choose([record.plain(record.read("timing", path)) for path in timings]))


def _check_equal_conditions(timings: Sequence[dict[str, Any]]) -> None:
    if not timings:
        raise ValueError("autotune needs at least one timing record")
    for key in ("operator", "kernel", "target", "workload"):
        result = {entry["case"][key] for entry in timings}
        if len(result) > 1:
            raise ValueError(f"autotune was given records of more than one {key}: {', '.join(sorted(result))}")
    if len({(entry["device"] or {}).get("name") for entry in timings}) > 1:
        raise ValueError("autotune was given records of more than one device")
    names = [entry["case"]["variant"]["id"] for entry in timings]
    if len(set(names)) < len(names):
        raise ValueError(f"autotune was given a variant twice: {', '.join(sorted(names))}")


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    """Return one variant's row; a failed one has its reason and no times."""
    metrics = entry["metrics"] if entry["status"] == "ok" else {}
    return {
        "variant": entry["case"]["variant"]["id"],
        "params": entry["case"]["variant"]["params"],
        "status": entry["status"],
        "reason": entry["reason"],
        **{key: metrics.get(key) for key in ("cold_us", "hot_us", "spread_percent")},
    }


def _choice(timed: list[dict[str, Any]]) -> dict[str, Any]:
    if not timed:
        return {"chosen": None, "margin_percent": None, "decided": False}
    if len(timed) == 1:
        return {"chosen": timed[0]["variant"], "margin_percent": None, "decided": True}
    first, second = timed[:2]
    margin = 100 * (second[CRITERION] / first[CRITERION] - 1)
    noise = max(row["spread_percent"] or 0.0 for row in (first, second))
    return {"chosen": first["variant"], "margin_percent": round(margin, 3), "decided": margin > noise}
