"""Find a call's bottleneck by its predicted launches: errors depend on it."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

Bound = Literal["tensor cores", "DRAM", "L2", "waiting"]
SHARES: dict[str, Bound] = {"tensor_percent": "tensor cores", "dram_percent": "DRAM", "l2_percent": "L2"}
BUSY = 50.0  # percent of the time from which on a resource binds; below, latencies, issue and launches do


def bound(launches: Iterable[tuple[float, Mapping[str, Any]]]) -> Bound:
    """Return the busiest resource of the longest launch, or `waiting`.

    Each launch is its duration and its shares, in percent of what the GPU could do in that time.
    """
    _, longest = max(launches, key=lambda launch: launch[0])
    key = max(SHARES, key=lambda name: float(longest[name]))
    return SHARES[key] if longest[key] >= BUSY else "waiting"
