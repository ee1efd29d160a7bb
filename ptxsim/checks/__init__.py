"""Checks for faults that hardware does not report: uninitialised reads and data races."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.observer import Observer
from .global_memory import GlobalClocks
from .happens_before import Clocks
from .tensor_fences import FencedClocks, FencedGlobalClocks

if TYPE_CHECKING:
    from ..core.protocols import Cluster
    from .access_history import AccessHistory


def observer_for(cluster: Cluster, checks: frozenset[str], history: AccessHistory | None) -> Observer:
    """Return the observer of a cluster: vector clocks if any check is enabled."""
    if not checks:
        return Observer()
    fences = "tensor-fence" in checks
    if history is None:
        return FencedClocks(cluster) if fences else Clocks(cluster)
    return FencedGlobalClocks(cluster, history) if fences else GlobalClocks(cluster, history)
