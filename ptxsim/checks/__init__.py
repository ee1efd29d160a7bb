"""Checks of what hardware does not tell: uninitialised reads, and accesses that nothing orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..observer import Observer
from .clocks import Clocks
from .global_memory import GlobalClocks

if TYPE_CHECKING:
    from ..cluster import Cluster


def observer_for(cluster: Cluster, checks: frozenset[str]) -> Observer:
    """Who watches a cluster: the clocks when any check is asked for, else nobody."""
    if not checks:
        return Observer()
    trail = cluster.machine.trail
    return Clocks(cluster) if trail is None else GlobalClocks(cluster, trail)
