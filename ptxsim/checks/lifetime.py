"""Accesses that must end before a CTA exits, since its shared memory ends with it.

The CTA's bulk stores must have read it, copies into it must have been waited for, and accesses by other CTAs of the
cluster must have been made. Each must be ordered before the exit by synchronisation. The exit's clock is the join of
the clocks of all warps of the CTA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .vector_clock import Actors

if TYPE_CHECKING:
    from ..core.barriers import MBarrier
    from ..core.cta import CTA
    from ..core.warp import Fragment
    from ..core.work import Origin


class LastAccess(NamedTuple):
    """An actor's last access of a kind to a CTA's shared memory: epoch and instruction."""

    epoch: int
    at: int
    what: str
    phase: int = 0  # of the mbarrier, for an arrival on one


class Lifetimes:
    """For each CTA of a cluster, the accesses that must come before its exit."""

    def __init__(self, clocks: Actors) -> None:
        self.clocks = clocks
        self.enabled = "exit" in clocks.machine.checks
        # rank → actor of another CTA and, for an arrival, the mbarrier → its last access or arrival
        self.by_peers: dict[int, dict[tuple[int, MBarrier | None], LastAccess]] = {}
        self.signals: dict[int, dict[MBarrier, LastAccess]] = {}  # rank → mbarrier → the last copy it counts
        self.ended: set[int] = set()

    def peer_accesses(
        self, f: Fragment, target: CTA, actor: int, epoch: int, at: int, what: str, bar: MBarrier | None = None
    ) -> None:
        """Record another CTA's access of `target`'s shared memory, or arrival on `bar`."""
        if not self.enabled:
            return
        if target.rank in self.ended:
            why = f"{self.clocks.names[actor]} {what} shared memory of CTA {target.rank}, which has exited"
            f.report(at, "exit", f"{why}: a cluster barrier, or a wait of that CTA, has to come before its exit")
        else:
            phase = 0 if bar is None else bar.phase + 1
            self.by_peers.setdefault(target.rank, {})[actor, bar] = LastAccess(epoch, at, what, phase)

    def signalled(self, target: CTA, bar: MBarrier, phase: int, origin: Origin) -> None:
        """Record a copy into `target` that is in flight until a phase of `bar` completes."""
        if not self.enabled:
            return
        if target.rank in self.ended:
            origin.report("exit", f"a copy into shared memory of CTA {target.rank}, which has exited")
        else:
            self.signals.setdefault(target.rank, {})[bar] = LastAccess(phase, origin.at, "fills")

    def exits(self, cta: CTA) -> None:
        """Check a CTA whose last thread has exited."""
        if not self.enabled:
            return
        self.ended.add(cta.rank)
        warps = [clock.known for warp, clock in self.clocks.warps.items() if warp.rank == cta.rank]
        known = np.maximum.reduce(warps)
        self._peers_are_done(cta, known)
        self._signals_are_seen(cta, known)
        self._stores_are_waited_for(cta)

    def _report(self, at: int, message: str) -> None:
        self.clocks.machine.report("exit", message, at)

    def _end_location(self) -> str:
        """Return the location of the kernel's end, in brackets, for a missing wait."""
        program = self.clocks.machine.program
        return f" (after {program.instructions[program.end].location})"

    def _peers_are_done(self, cta: CTA, known: np.ndarray) -> None:
        for (actor, bar), access in self.by_peers.get(cta.rank, {}).items():
            # a .relaxed arrival publishes nothing, but a wait for its phase implies it
            waited = bar is not None and known[self.clocks.copies_of(bar)] >= access.phase
            if known[actor] < access.epoch and not waited:
                name = self.clocks.names[actor]
                why = f"and nothing makes CTA {cta.rank} wait for that before it exits{self._end_location()}"
                self._report(access.at, f"{name} {access.what} shared memory of CTA {cta.rank}, {why}")

    def _signals_are_seen(self, cta: CTA, known: np.ndarray) -> None:
        for bar, access in self.signals.get(cta.rank, {}).items():
            if known[self.clocks.copies_of(bar)] < access.epoch:
                message = f"CTA {cta.rank} exits, and none of its threads has waited for this copy on {bar}"
                self._report(access.at, message + self._end_location())

    def _stores_are_waited_for(self, cta: CTA) -> None:
        for (rank, thread), groups in cta.cluster.stores.items():
            for group in groups if rank == cta.rank else ():
                for store in group:
                    if thread not in store.waiters:
                        wait = "cp.async.bulk.wait_group.read" if group is not groups[-1] else "a commit_group"
                        name = f"thread {thread} of CTA {rank}"
                        message = f"{name} exits without {wait} for this bulk store, which reads shared memory"
                        self._report(store.origin.at, message + self._end_location())
