"""Progress policy of a cluster: which fragments may run, and when it counts as stuck."""

from collections.abc import Sequence
from typing import NamedTuple

from .livelock import LoopDetector
from .schedule import Schedule
from .warp import RUNNING, Fragment

STEP_LIMIT = 10_000_000  # blocks that a cluster may run while no thread exits and no asynchronous work completes
_PATIENCE = 20_000  # unchanged slices before threads count as stuck
_CALM = 40  # unchanged slices before loop detection starts
# Deterministic schedules: polling threads must not starve other threads or asynchronous work.
_FAIR_STEPS = 4_096  # blocks before the next fragment runs, even if the state changed
_CALM_SLICES = 2  # unchanged slices before slices become short, with work outstanding
_CALM_QUANTUM = 32  # blocks of a short slice
_SPIN_SLICES = 128  # unchanged slices per fragment before work, or a warp's other lanes, proceed
_SPIN_STEPS = 50_000  # blocks before work proceeds regardless: polling threads may change state at a barrier


class TimeSlice(NamedTuple):
    """The next fragment, its number of blocks, and whether it overtakes looping lanes."""

    fragment: Fragment
    quantum: int
    overtakes: bool


class ProgressPolicy:
    """Counts time slices since the state of a cluster last changed.

    A slice is `idle` if its thread waited or polled, else `busy`: computation may still change something.
    """

    def __init__(self, schedule: Schedule, others: bool = False) -> None:
        self.schedule, self.delay = schedule, schedule.delay
        self.calm = _CALM_SLICES if others else _CALM  # `others` can run as soon as all threads loop
        self.short = others
        self.fixed = schedule.at_once is not None  # deterministic
        self.idle = self.busy = self.steps = 0
        self.work = False
        self._last = -1  # progress at the last count
        self._loops = LoopDetector()

    @property
    def unchanged(self) -> int:
        """Time slices since the last change of state."""
        return self.idle + self.busy

    @property
    def waits(self) -> bool:
        """Whether a deterministic schedule is delaying asynchronous work."""
        return self.fixed and self.work

    def count(self, progress: int, rested: bool, steps: int, work: bool) -> None:
        """Count a time slice; `rested`: its thread waited or polled.

        `progress` numbers the changes of state. `steps` counts blocks since a thread exited or work completed.
        `work` says whether asynchronous work is outstanding.
        """
        self.steps, self.work = steps, work
        if progress != self._last:
            self.idle, self.busy, self._last = 0, 0, progress
            self._loops.forget()
        elif rested:
            self.idle += 1
        else:
            self.busy += 1

    def stuck(self, ready: Sequence[Fragment]) -> bool:
        """Return whether no work is outstanding and threads will change nothing."""
        return not self.work and (self.unchanged > _PATIENCE or self._loops.all_of(ready))

    def candidates(self, ready: list[Fragment]) -> list[Fragment]:
        """Return fragments that may run, none if asynchronous work should; delayed ones late."""
        if self.work and (self.idle > 2 * len(ready) + 2 or self._spinning(ready)):
            return []
        if self.delay is not None and self.unchanged <= 2 * len(ready) + 50:
            return self.delay.runnable(ready)
        return ready

    def _spinning(self, ready: Sequence[Fragment]) -> bool:
        """Return whether threads that only loop keep the work waiting."""
        long = self.busy > _SPIN_SLICES * len(ready) or self.steps > _SPIN_STEPS
        return self.waits and (long or self._loops.all_of(ready))

    def time_slice(self, candidates: Sequence[Fragment], choice: int) -> TimeSlice:
        """Return the choice's time slice; without a change the choice moves on: none starves."""
        aside = self.steps // _FAIR_STEPS if self.fixed else 0
        f = first = candidates[(choice + self.unchanged + aside) % len(candidates)]
        short = (self.waits or self.short) and self.busy > _CALM_SLICES
        if short or self.unchanged > self.calm:
            first = f if f.reconverge() else f.earlier() or f
            f = self._alternative_to(first)
            self._loops.note(f)
        quantum = self.schedule.quantum()
        return TimeSlice(f, min(quantum, _CALM_QUANTUM) if short else quantum, f is not first)

    def _alternative_to(self, f: Fragment) -> Fragment:
        """Return other lanes of a fragment's warp if it loops or may loop."""
        chosen = self._loops.alternative(f)
        if chosen is f and f.family is not None and self.busy > _SPIN_SLICES and self.busy % 2:
            return next((other for other in f.family if other is not f and other.state is RUNNING), f)
        return chosen
