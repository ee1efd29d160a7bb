"""What the clock notes while a block runs: accesses to memory, and barriers that let go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.observer import Observer

if TYPE_CHECKING:
    from ..core.barriers import ClusterBarrier, MBarrier, NamedBarrier
    from ..core.cta import CTA
    from ..core.warp import Fragment
    from ..memory.global_memory import Access, Allocation
    from ..memory.tensor_memory import TensorMemory
    from .timed_cluster import TimedCluster


class Watcher(Observer):
    """Tells the cluster's clock what its fragments do."""

    def __init__(self, cluster: TimedCluster) -> None:
        self.cluster = cluster

    def global_access(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        self.cluster.touched_global(f, allocation, offsets, access)

    def shared_access(
        self, target: CTA, f: Fragment, offsets: np.ndarray, lanes: np.ndarray | None, access: Access
    ) -> None:
        self.cluster.touched_shared(target, f, offsets, access)

    def tmem_access(
        self, f: Fragment, at: int, warp: int, tm: TensorMemory, rows: np.ndarray, cols: np.ndarray, write: bool
    ) -> None:
        self.cluster.touched_tensor_memory(f, at, warp, rows.size * 4, write)

    def tmem_waited(self, f: Fragment, stores: bool) -> None:
        self.cluster.tensor_memory_waited(f, stores)

    def mbarrier_acquired(self, f: Fragment, bar: MBarrier, lanes: np.ndarray) -> None:
        self.cluster.passed(f, bar)

    def mbarrier_completed(self, bar: MBarrier) -> None:
        self.cluster.let_go(bar)

    def barrier_released(self, barrier: NamedBarrier, sleepers: list[Fragment]) -> None:
        self.cluster.released(sleepers, self.cluster.figures.named_barrier_latency)

    def cluster_waited(self, f: Fragment, barrier: ClusterBarrier) -> None:
        self.cluster.released([f], self.cluster.figures.cluster_barrier_latency)


def _forward(name: str) -> Any:
    def call(self: Both, *args: Any, **options: Any) -> Any:
        getattr(self.clock, name)(*args, **options)
        return getattr(self.checks, name)(*args, **options)

    return call


class Both(Observer):
    """The clock and the checks, one after the other; what an issue returns is the checks'."""

    def __init__(self, clock: Watcher, checks: Observer) -> None:
        self.clock, self.checks = clock, checks

    def __getattribute__(self, name: str) -> Any:
        if name == "serial":
            return self.checks.serial
        return super().__getattribute__(name)


for _name, _value in vars(Observer).items():
    if callable(_value) and not _name.startswith("_"):
        setattr(Both, _name, _forward(_name))
