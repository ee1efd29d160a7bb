"""Vector clocks: per actor the last epoch known to have happened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.work import Token

if TYPE_CHECKING:
    from ..core.barriers import MBarrier
    from ..core.cta import CTA
    from ..core.protocols import Machine

CAPACITY = 1024  # actors
LOOKBACK = 200  # instructions before asynchronous work that are searched for its waits


class Warp(NamedTuple):
    """A warp as an actor: rank of its CTA, number within the CTA."""

    rank: int
    warp: int


class Clock:
    """Per actor the last epoch covered: by any access, and visible to the async proxy."""

    __slots__ = ("known", "proxied")

    def __init__(self) -> None:
        self.known, self.proxied = np.zeros(CAPACITY, np.int64), np.zeros(CAPACITY, np.int64)

    def learn(self, other: Clock | Token) -> None:
        np.maximum(self.known, other.known, out=self.known)
        np.maximum(self.proxied, other.proxied, out=self.proxied)

    def cover(self, actor: int, epoch: int) -> None:
        """Cover an actor's work up to an epoch."""
        self.known[actor] = max(self.known[actor], epoch)


class Phases:
    """The clocks of an mbarrier: completed phases, and the current phase."""

    def __init__(self) -> None:
        self.completed, self.filling = Clock(), Clock()


class Actors:
    """The actors of a cluster: number and name of each, and the clocks of warps."""

    doubtful = False  # a write in flight has unresolved doubts

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.names: list[str] = ["nobody"]
        self.ids: dict[tuple[object, ...], int] = {}
        self.generic = np.zeros(CAPACITY, bool)  # actors that write through the generic proxy
        self.warps: dict[Warp, Clock] = {}
        self.numbers: dict[int, int] = {}  # actor that is a warp → its number within the CTA

    def actor(self, key: tuple[object, ...], name: str, generic: bool = False) -> int:
        """Return the number of an actor, assigned on first use."""
        n = self.ids.get(key)
        if n is None:
            n = self.ids[key] = len(self.names)
            if n >= CAPACITY:
                raise RuntimeError("more actors than the race check has room for")
            self.names.append(name)
            if isinstance(key, Warp):
                self.numbers[n] = key.warp
            self.generic[n] = generic
        return n

    def copies_of(self, bar: MBarrier) -> int:
        what = f"a copy signalling the mbarrier at shared offset {bar.offset} of CTA {bar.cta.rank}"
        return self.actor(("bar", bar.cta.rank, bar.offset), what)

    def arrivals_awaited(self, cta: CTA, at: int) -> str:
        """Return the arrivals that a copy waited for, as a sentence end."""
        code, wait = self.machine.program.instructions, next(self._waits_before(at), None)
        bars = [bar for bar in cta.mbarriers.values() if wait in bar.waits]
        locations = sorted({code[signal].location for bar in bars for signal, _, _ in bar.signals})
        if not locations:
            return ""
        return f"; the copy waited at {code[wait or 0].location} for the arrivals at {', '.join(locations[:3])}"

    def last_waits(self, at: int) -> str:
        """Return the two waits before an instruction of asynchronous work, as a sentence end."""
        code = self.machine.program.instructions
        locations = {code[n].source or n: code[n].location for n in self._waits_before(at)}
        return f"; the last waits before it are at {', '.join([*locations.values()][:2])}" if locations else ""

    def _waits_before(self, at: int) -> Iterator[int]:
        """Yield the mbarrier waits before an instruction, the nearest first."""
        code = self.machine.program.instructions
        return (n for n in range(at - 1, max(at - LOOKBACK, -1), -1) if code[n].parts[:2] == ("mbarrier", "try_wait"))
