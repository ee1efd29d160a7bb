"""Which workloads a page shows in full where they are too many for that."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]

MOST_SHOWN = 120  # workloads: at some 7 KB each the page stays within what a browser opens at once


def picked(comparison: Record) -> set[str]:
    """The first, the last and evenly picked workloads, and those where one DSL leads the other by most.

    All of them where they are no more than MOST_SHOWN.
    """
    every = list(dict.fromkeys(row["workload"] for row in comparison["rows"]))
    if len(every) <= MOST_SHOWN:
        return set(every)
    even = {every[place * (len(every) - 1) // (MOST_SHOWN - 1)] for place in range(MOST_SHOWN)}
    speeds = [entry[key] for entry in comparison["speedups"] for key in ("cold", "warm") if entry[key]]
    return even | {speed[end] for speed in speeds for end in ("least_at", "most_at")}
