"""All kernels' times per target and device, with reference times measured elsewhere."""

from collections.abc import Mapping
from statistics import geometric_mean
from typing import Any

from cutesnake.analysis.compare.speedup import CACHE_STATES, CacheState, fastest, time_of
from cutesnake.model.dsls import PEERS
from cutesnake.model.records.compare import Compare, KernelTime, TimesTable
from cutesnake.report.formatting import DSL_NAMES, where

View = dict[str, Any]  # data of a template, or an entry of reference_times.yaml
TimesByWorkload = dict[str, dict[str, KernelTime]]  # workload -> kernel -> its times


def times(comparison: Compare, references: list[View]) -> list[View]:
    """Return a view per target and source with cold and warm times.

    `references` are entries of `kernels/<operator>/reference_times.yaml`. References for the source's device get a warm
    column unless the source timed their `kernel` itself. They never count as fastest, since they come from another run.
    """
    return [_table(table, references) for table in comparison.times]


def _table(table: TimesTable, references: list[View]) -> View:
    kernels = table.kernels
    rows = {row.workload: row.kernels for row in table.rows}
    elsewhere = [r for r in references if r["device"] == table.device.device and r["kernel"] not in kernels]
    return {
        **{"target": table.target, "where": where(table.device), "kernels": list(kernels)},
        "summary": _summary(rows, kernels, elsewhere),
        "cutile": "cutile" in kernels.values(),
        "peers": _peers(kernels),
        "references": elsewhere,
        "caches": [
            {"name": name, "count": len(rows), "every": _every(rows, kernels, name, elsewhere)} for name in CACHE_STATES
        ],
    }


def _every(rows: TimesByWorkload, kernels: Mapping[str, str], cache: CacheState, elsewhere: list[View]) -> View:
    """Return the times of all workloads as the page's script expects them."""
    references = elsewhere if cache == "warm" else []
    return {
        "head": ["Workload", *(f"{name} µs" for name in (*kernels, *(r["name"] for r in references)))],
        "rows": [
            [
                workload,
                *(float(f"{time_of(row[kernel], cache):.5g}") if kernel in row else None for kernel in kernels),
                *(reference["hot_us"].get(workload) for reference in references),
            ]
            for workload, row in rows.items()
        ],
    }


def _summary(rows: TimesByWorkload, kernels: Mapping[str, str], elsewhere: list[View]) -> list[View]:
    """Return per kernel its wins, and its speed vs cuTile, peers and references."""
    return [
        {
            **{"kernel": kernel, "dsl": DSL_NAMES[dsl], "timed": sum(kernel in row for row in rows.values())},
            **{name: _against(rows, kernels, kernel, name) for name in CACHE_STATES},
            "references": [_speed(_times(rows, kernel, "warm"), reference["hot_us"]) for reference in elsewhere],
        }
        for kernel, dsl in kernels.items()
    ]


def _against(rows: TimesByWorkload, kernels: Mapping[str, str], kernel: str, cache: CacheState) -> View:
    mine = _times(rows, kernel, cache)
    tiles = {
        workload: min(times)
        for workload, row in rows.items()
        if (times := [time_of(time, cache) for name, time in row.items() if kernels[name] == "cutile"])
    }
    return {
        "fastest": sum(fastest(row, cache) == kernel for row in rows.values()),
        "cutile": _speed(mine, tiles),
        "peers": [None if peer == kernel else _speed(mine, _times(rows, peer, cache)) for peer in _peers(kernels)],
    }


def _peers(kernels: Mapping[str, str]) -> list[str]:
    """Return the kernels that come from an installed package."""
    return [kernel for kernel, dsl in kernels.items() if dsl in PEERS]


def _times(rows: TimesByWorkload, kernel: str, cache: CacheState) -> dict[str, float]:
    return {workload: time_of(row[kernel], cache) for workload, row in rows.items() if kernel in row}


def _speed(mine: dict[str, float], others: dict[str, float]) -> View | None:
    """Return the geometric mean of other time ÷ own time, or None without common workloads."""
    ratios = [others[workload] / time for workload, time in mine.items() if workload in others]
    return {"mean": geometric_mean(ratios), "count": len(ratios)} if ratios else None
