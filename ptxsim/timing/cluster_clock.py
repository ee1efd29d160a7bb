"""The clock of one cluster: times of its warps and barriers, and the current event."""

from dataclasses import dataclass
from typing import Any

from ..core.barriers import MBarrier
from ..core.cta import CTA
from ..core.warp import WAITING, Fragment
from .event import Calendar, Event
from .hardware import SM, WarpClock
from .memory_system import MemorySystem
from .recorder import Recorder
from .timed_machine import TimedMachine

_MOST_WARPS = 32  # of a CTA


@dataclass(slots=True, eq=False)
class DependentLaunch:
    """Programmatic dependent launch: times of griddepcontrol.wait and of the trigger."""

    awaited: float | None = None  # by the first cluster; None if it does not wait
    triggered: float | None = None  # by the last cluster
    first: bool = True  # until a cluster ends


@dataclass(frozen=True, slots=True, eq=False)
class Resources:
    """What the clusters of a simulated launch share; `sms` by rank."""

    machine: TimedMachine
    memory: MemorySystem
    recorder: Recorder
    sms: list[SM]
    calendar: Calendar[Any]
    dependent: DependentLaunch


class ClusterClock:
    """Times at which a cluster's warps continue and its mbarrier phases become visible."""

    def __init__(self, shared: Resources, begin: float) -> None:
        self.shared, self.sms = shared, shared.sms
        self.constants = shared.machine.device.constants
        self.begin = self.drained = begin  # start, and when its last store is in L2
        self.event = Event(begin)  # the current event
        self.warps: dict[tuple[int, int], WarpClock] = {}  # by rank and number
        self.visible: dict[MBarrier, float] = {}  # when a barrier's latest phase becomes visible

    def add(self, cta: CTA, f: Fragment, cluster_slot: int) -> None:
        """Start a warp; `cluster_slot` numbers the concurrent clusters of its SMs."""
        sm, warp = self.sms[cta.rank], f.lo >> 5
        clock = WarpClock(sm, sm.schedulers[warp % len(sm.schedulers)], cta, warp, self.begin, f)
        clock.warp_slot = cluster_slot * _MOST_WARPS + warp
        self.shared.calendar.at(clock.time, clock)
        self.warps[cta.rank, warp] = clock

    def of(self, f: Fragment) -> WarpClock:
        """Return the clock of a fragment's warp."""
        return self.warps[f.cta.rank, f.lo >> 5]

    def stored(self, end: float) -> None:
        """Record that a store reaches L2 at `end`."""
        self.drained = max(self.drained, end)

    # wake-ups
    def phase_completed(self, bar: MBarrier) -> None:
        """Wake the sleepers of an mbarrier when its completed phase becomes visible to them."""
        event, f, delay = self.event, self.constants, 0.0
        if event.actor is not None:
            delay = f.mbarrier_arrive_latency if event.actor.cta is bar.cta else f.mbarrier_remote_latency
        self.visible[bar] = event.now + delay
        for sleeper in bar.sleepers:
            self.wake(sleeper, event.now + delay + f.mbarrier_wake_latency)

    def phase_seen(self, bar: MBarrier) -> None:
        """Delay the current event until an mbarrier's completed phase is visible."""
        self.event.wait_until(self.visible.get(bar, 0.0))

    def released(self, sleepers: list[Fragment], latency: float) -> None:
        """Wake fragments that a barrier releases, after a latency."""
        for f in sleepers:
            if f.state is WAITING:
                self.wake(f, self.event.now + latency)

    def wake(self, f: Fragment, at: float) -> None:
        """Let a sleeping warp continue at a time."""
        clock = self.of(f)
        if clock.asleep is not None:
            since, wait = clock.asleep
            ins = self.shared.machine.program.instructions[wait.at] if wait is not None else None
            self.shared.recorder.slept(clock, since, at, wait, ins)
            clock.asleep = None
        clock.time = max(clock.time, at)
        self.shared.calendar.at(clock.time, clock)
