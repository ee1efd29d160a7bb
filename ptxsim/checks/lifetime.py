"""What has to have ended before a CTA has: shared memory is gone when its last thread has exited.

Bulk stores of its own have to have read it, copies into it have to have been waited for,
and other CTAs of the cluster have to have made their accesses, each before the exit by what orders the events, not by
luck. An exit is what the last of all warps of a CTA has done and learnt.
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


class Deed(NamedTuple):
    """The last thing of a sort that somebody did to a CTA's shared memory: at which epoch, at which instruction."""

    epoch: int
    at: int
    what: str
    phase: int = 0  # of the mbarrier, for an arrival on one


class Lifetimes:
    """For each CTA of a cluster what must come before its exit."""

    def __init__(self, clocks: Actors) -> None:
        self.clocks = clocks
        self.wanted = "exit" in clocks.machine.checks
        # rank → actor of another CTA and, for an arrival, the mbarrier → its last access or arrival
        self.by_peers: dict[int, dict[tuple[int, MBarrier | None], Deed]] = {}
        self.signals: dict[int, dict[MBarrier, Deed]] = {}  # rank → mbarrier → the last copy it counts
        self.ended: set[int] = set()

    def peer_accesses(
        self, f: Fragment, target: CTA, actor: int, epoch: int, at: int, what: str, bar: MBarrier | None = None
    ) -> None:
        """A warp of another CTA reaches into `target`'s shared memory, or arrives on its mbarrier `bar`."""
        if not self.wanted:
            return
        if target.rank in self.ended:
            why = f"{self.clocks.names[actor]} {what} shared memory of CTA {target.rank}, which has exited"
            f.report(at, "exit", f"{why}: a cluster barrier, or a wait of that CTA, has to come before its exit")
        else:
            phase = 0 if bar is None else bar.phase + 1
            self.by_peers.setdefault(target.rank, {})[actor, bar] = Deed(epoch, at, what, phase)

    def signalled(self, target: CTA, bar: MBarrier, phase: int, origin: Origin) -> None:
        """A copy into `target` is under way until a phase of `bar` has completed."""
        if not self.wanted:
            return
        if target.rank in self.ended:
            origin.report("exit", f"a copy into shared memory of CTA {target.rank}, which has exited")
        else:
            self.signals.setdefault(target.rank, {})[bar] = Deed(phase, origin.at, "fills")

    def exits(self, cta: CTA) -> None:
        """The last thread of a CTA has exited."""
        if not self.wanted:
            return
        self.ended.add(cta.rank)
        warps = [clock.known for warp, clock in self.clocks.warps.items() if warp.rank == cta.rank]
        known = np.maximum.reduce(warps)
        self._peers_are_done(cta, known)
        self._signals_are_seen(cta, known)
        self._stores_are_waited_for(cta)

    def _report(self, at: int, message: str) -> None:
        self.clocks.machine.report("exit", message, at)

    def _behind(self) -> str:
        """Where the kernel ends, in brackets: a wait that is missing would stand there."""
        program = self.clocks.machine.program
        return f" (behind {program.instructions[program.end].place})"

    def _peers_are_done(self, cta: CTA, known: np.ndarray) -> None:
        for (actor, bar), deed in self.by_peers.get(cta.rank, {}).items():
            # an arrival has been made, though it publishes nothing (.relaxed), once its phase was waited for
            waited = bar is not None and known[self.clocks.copies_of(bar)] >= deed.phase
            if known[actor] < deed.epoch and not waited:
                who = self.clocks.names[actor]
                why = f"and nothing makes CTA {cta.rank} wait for that before it exits{self._behind()}"
                self._report(deed.at, f"{who} {deed.what} shared memory of CTA {cta.rank}, {why}")

    def _signals_are_seen(self, cta: CTA, known: np.ndarray) -> None:
        for bar, deed in self.signals.get(cta.rank, {}).items():
            if known[self.clocks.copies_of(bar)] < deed.epoch:
                message = f"CTA {cta.rank} exits, and none of its threads has waited for this copy on {bar}"
                self._report(deed.at, message + self._behind())

    def _stores_are_waited_for(self, cta: CTA) -> None:
        for (rank, thread), groups in cta.cluster.stores.items():
            for group in groups if rank == cta.rank else ():
                for store in group:
                    if thread not in store.waiters:
                        wait = "cp.async.bulk.wait_group.read" if group is not groups[-1] else "a commit_group"
                        who = f"thread {thread} of CTA {rank}"
                        message = f"{who} exits without {wait} for this bulk store, which reads shared memory"
                        self._report(store.origin.at, message)
