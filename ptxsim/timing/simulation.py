"""Event loop of a launch on simulated SMs: warps and asynchronous work in time order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.launch import Dim3
from ..core.livelock import LoopDetector
from ..core.registers import RegisterFile
from ..core.warp import PARTED, RUNNING, WAITING, Fragment
from .cluster_clock import DependentLaunch, Resources
from .event import Calendar
from .grid import Placement
from .hardware import SM, WarpClock
from .memory_system import MemorySystem
from .recorder import Recorder
from .timed_cluster import ClusterSlot, TimedCluster

if TYPE_CHECKING:
    from .timed_machine import TimedMachine

_POLLS = 400_000
_CALM = 5_000  # unchanged blocks before loop detection starts


@dataclass(frozen=True, slots=True)
class FinishedCluster:
    """A simulated cluster: grid number, begin, end, last store in L2."""

    number: int
    begin: float
    end: float
    drained: float


class Simulation:
    """Clusters in slots of shared SMs; the next cluster takes the first free slot."""

    def __init__(
        self, machine: TimedMachine, memory: MemorySystem, placement: Placement, sharers: int, recorder: Recorder
    ) -> None:
        self.machine, self.memory, self.recorder = machine, memory, recorder
        self.constants = machine.device.constants
        cx, cy, cz = machine.launch.cluster
        size = cx * cy * cz
        rates = memory.local_rates(size)
        self.sms = [SM(self.constants, sharers, placement.l1_bytes, rates) for _ in range(size)]
        self.calendar: Calendar[TimedCluster] = Calendar()
        self.dependent = DependentLaunch()
        self.shared = Resources(machine, memory, recorder, self.sms, self.calendar, self.dependent)
        self.finished: list[FinishedCluster] = []
        kernel, warps = machine.launch.kernel, machine.launch.warps
        self.free = [
            ClusterSlot(n, [RegisterFile(kernel.registers, 32 * warps) for _ in range(size)])
            for n in range(max(placement.slots_per_group, 1))
        ]
        self.living: dict[TimedCluster, tuple[int, ClusterSlot]] = {}
        self.polls = 0
        self.loops, self.calm = LoopDetector(), 0

    def launched(self, size: int, own: Sequence[int], others: int) -> None:
        """Set up the instruction caches for the launch (CodeCache.launched)."""
        for sm in self.sms:
            sm.code.launched(size, own, others, self.memory.cold)

    def run(self, clusters: list[tuple[int, list[Dim3]]]) -> list[FinishedCluster]:
        """Run clusters (number, CTA indices) in order. Raises Stuck after reporting a deadlock."""
        queued = deque(clusters)
        f = self.constants
        fill = f.cta_fill_cycles
        refill = f.cta_interval_cycles + f.cta_start_cycles  # from the end of a CTA to the next one's first instruction
        for n in range(min(len(self.free), len(queued))):
            self._start(*queued.popleft(), n * fill)
        while self.calendar.entries:
            time, _, clock, cluster, pipe, task = self.calendar.next()
            if clock is not None:
                cluster = self._run_warp(clock)
            else:
                assert cluster is not None and pipe is not None and task is not None
                cluster.finish_task(pipe, task, time)
            if cluster in self.living and cluster.over:  # a wait may have finished a task before its entry
                self._end(cluster)
                if queued:
                    self._start(*queued.popleft(), self.finished[-1].end + refill)
        for cluster in self.living:
            cluster.give_up()
        return self.finished

    def _run_warp(self, clock: WarpClock) -> TimedCluster | None:
        """Run a warp until another is earlier; return its cluster if maybe ended."""
        clock.scheduled = False
        cluster: TimedCluster = clock.cta.cluster  # type: ignore[assignment]  # here all clusters have clocks
        while (f := clock.runnable()) is not None:
            if self.calm >= _CALM:
                f = self.loops.alternative(f)
            cluster.step(clock, f)
            if cluster.steps > self.machine.step_limit:
                cluster.give_up(limit=True)
            if cluster.progress != cluster.known:
                cluster.known, self.calm = cluster.progress, 0
                self.loops.forget()
            else:
                self.calm += 1
                if self.calm >= _CALM:
                    self._look_for_loops(f)
            if clock.scheduled:
                return None
            if not clock.cta.fragments:
                return cluster
            if cluster.rest:
                self.polls += 1
                if self.polls > _POLLS:
                    cluster.give_up()
            else:
                self.polls = 0
            if self.calendar.before(clock.time) and f.state is not WAITING:
                self.calendar.at(clock.time, clock)
                return None
        return None

    def _look_for_loops(self, f: Fragment) -> None:
        """Report a livelock and raise Stuck if all warps of all clusters loop."""
        if f.state not in (RUNNING, PARTED) or not self.loops.note(f):
            return
        all_warps = [f for cluster in self.living for cta in cluster.ctas for f in cta.fragments]
        going = [f for f in all_warps if f.state in (RUNNING, PARTED)]
        if self.loops.all_of(going) and self.calendar.only_warps():
            next(cluster for cluster in self.living if cluster is f.cta.cluster).give_up()

    def _start(self, number: int, indices: list[Dim3], begin: float) -> None:
        cluster_slot = self.free.pop()
        cluster = TimedCluster(self.shared, indices, cluster_slot, begin)
        self.living[cluster] = (number, cluster_slot)

    def _end(self, cluster: TimedCluster) -> None:
        number, cluster_slot = self.living.pop(cluster)
        end = max([clock.time for clock in cluster.clock.warps.values()])
        for clock in cluster.clock.warps.values():
            self.recorder.ended(clock, clock.time)
        for cta in cluster.ctas:
            cta.finish()
        self.free.append(cluster_slot)
        self.dependent.first = False
        self.finished.append(FinishedCluster(number, cluster.clock.begin, end, max(end, cluster.clock.drained)))
