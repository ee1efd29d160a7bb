"""Named barriers: clocks of their uses, and arrivals that may count for another use.

A barrier number does not identify a use. An arrival that nothing orders after the previous use may count for it. This
happens where two groups of warps share a number, or where a warp arrives twice without learning of the release between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .vector_clock import Actors, Clock

if TYPE_CHECKING:
    from ..core.barriers import NamedBarrier
    from ..core.warp import Fragment


@dataclass(slots=True)
class Use:
    """One use of a barrier, from first arrival to release: number, clock, arriving instructions."""

    number: int
    clock: Clock = field(default_factory=Clock)
    arrivals: set[int] = field(default_factory=set)
    over: bool = False


class NamedBarrierUses:
    """The last use of each named barrier of a cluster."""

    def __init__(self, clocks: Actors) -> None:
        self.clocks = clocks
        self.last: dict[NamedBarrier, Use] = {}

    def arrived(self, f: Fragment, barrier: NamedBarrier, at: int, known: Sequence[np.ndarray]) -> Clock:
        """Record an arrival of warps with clocks `known`; return the clock of that use."""
        use = self.last.get(barrier)
        if use is not None and "race" in self.clocks.machine.checks:
            self._check(f, barrier, at, use, known)
        if use is None or use.over:
            use = self.last[barrier] = Use(use.number + 1 if use else 1)
        use.arrivals.add(at)
        return use.clock

    def _check(self, f: Fragment, barrier: NamedBarrier, at: int, use: Use, known: Sequence[np.ndarray]) -> None:
        """Report warps that are not ordered after the barrier's last release."""
        released, actor = use.number if use.over else use.number - 1, self._actor(barrier)
        if all(epochs[actor] >= released for epochs in known):
            return
        instructions = self.clocks.machine.program.instructions
        locations = ", ".join(sorted({instructions[x].location for x in use.arrivals}))
        message = (
            f"warps of CTA {f.cta.rank} arrive on barrier {barrier.number}, and nothing orders that after the use of "
            f"the same barrier at {locations}: the arrival could count there"
        )
        f.report(at, "barrier", message)

    def released(self, barrier: NamedBarrier) -> Clock:
        """Return the clock that a barrier's waiters learn, and end its current use."""
        use = self.last[barrier]
        use.over = True
        use.clock.cover(self._actor(barrier), use.number)
        return use.clock

    def _actor(self, barrier: NamedBarrier) -> int:
        key = ("barrier", barrier.cta.rank, barrier.number)
        return self.clocks.actor(key, f"barrier {barrier.number} of CTA {barrier.cta.rank}")
