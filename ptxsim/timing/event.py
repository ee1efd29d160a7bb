"""Events of a simulated launch, and the calendar that orders them in time."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from ..core.warp import Fragment
from ..core.work import Pipe, Task
from .hardware import Latency, WarpClock

Cluster = TypeVar("Cluster")


@dataclass(slots=True)
class Event:
    """A block run by a warp, or a completion of asynchronous work: time and effects."""

    now: float
    actor: Fragment | None = None  # the running fragment; None for asynchronous work
    waited: float = 0.0  # when the asynchronous work completes that the block waits for
    latencies: dict[int, Latency] = field(default_factory=dict)  # of the block's accesses, by PTX line
    passes: dict[int, float] = field(default_factory=dict)  # through the banks of shared memory, by PTX line

    def wait_until(self, time: float) -> None:
        """Delay the warp at least until a time."""
        self.waited = max(self.waited, time)

    def record_latency(self, line: int, end: float, least: float) -> None:
        """Record when an access has its result; the latest per PTX line counts."""
        before = self.latencies.get(line, _NO_LATENCY)
        self.latencies[line] = Latency(max(before.cycles, end - self.now), max(before.least, least))

    def work_done(self, at: float) -> Event:
        """Return the event of asynchronous work that completes during this one."""
        return Event(at, None, self.waited, self.latencies, self.passes)


_NO_LATENCY = Latency(0.0, 0.0)


class Entry(NamedTuple, Generic[Cluster]):
    """A warp that continues, or a task that completes; ties keep insertion order."""

    time: float
    serial: int
    clock: WarpClock | None
    cluster: Cluster | None = None
    pipe: Pipe | None = None
    task: Task | None = None


class Calendar(Generic[Cluster]):
    """Entries in time order."""

    def __init__(self) -> None:
        self.entries: list[Entry[Cluster]] = []
        self.serial = 0

    def at(self, time: float, clock: WarpClock) -> None:
        """Schedule a warp at a time, unless it is scheduled already."""
        if not clock.scheduled:
            clock.scheduled = True
            self._add(Entry(time, self.serial, clock))

    def task_at(self, time: float, cluster: Cluster, pipe: Pipe, task: Task) -> None:
        """Schedule the completion of a task."""
        self._add(Entry(time, self.serial, None, cluster, pipe, task))

    def _add(self, entry: Entry[Cluster]) -> None:
        self.serial += 1
        heapq.heappush(self.entries, entry)

    def next(self) -> Entry[Cluster]:
        """Remove and return the earliest entry."""
        return heapq.heappop(self.entries)

    def before(self, time: float) -> bool:
        """Return whether any entry comes before a time."""
        return bool(self.entries) and time > self.entries[0].time

    def only_warps(self) -> bool:
        """Return whether no asynchronous work is in flight."""
        return all(entry.clock is not None for entry in self.entries)
