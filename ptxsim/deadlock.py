"""Why nothing goes on: who waits for what, the likely culprit first.

Behind each wait stand those who should have arrived. Where they wait themselves they are no more to blame than the
others; what cannot be explained so comes first: bytes that nobody sends, a producer that waits for a buffer which has
never been filled, lanes that left their warp, an arrival owed by a warp that has exited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .barriers import ClusterBarrier, MBarrier, NamedBarrier
from .coverage import fills
from .warp import PARTED, Fragment

if TYPE_CHECKING:
    from .cluster import Cluster

SHOWN = 8  # waiting fragments that a message has room for


class Deadlock:
    """The fragments of a cluster that cannot go on."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.instructions = cluster, cluster.program.instructions
        self.everyone = [f for cta in cluster.ctas for f in cta.fragments]
        self.everyone.sort(key=self._innocence)

    def report(self) -> None:
        """The finding, at the instruction that the first of them waits at."""
        told = [f"{self._who(f)} {self._waits_for(f)}" for f in self.everyone[:SHOWN]]
        more = f"; and {len(self.everyone) - SHOWN} more" if len(self.everyone) > SHOWN else ""
        first = self.everyone[0]
        self.cluster.machine.report("deadlock", "; ".join(told) + more, self._at(first), first)

    def _at(self, f: Fragment) -> int:
        """The instruction to look at: the one that owes bytes, where they are all that is missing, else the wait."""
        if f.wait is None:
            return self.cluster.program.blocks[f.pc].first
        return f.wait.at

    def _innocence(self, f: Fragment) -> int:
        """How far from likely it is that a fragment's own wait is at fault."""
        wait = f.wait
        if f.state is PARTED:
            return 2
        if wait is None:
            return 4
        on = wait.on
        if isinstance(on, MBarrier):
            if on.tx and not on.pending:
                return 0  # all have arrived, and bytes are missing
            if self._never_filled(on, wait.at):
                return 1  # such a buffer is free
            if self._gone(on):
                return 2
            return 4 if self._signallers(on) else 3
        return 2 if isinstance(on, NamedBarrier) and self._exited(on) else 5

    def _who(self, f: Fragment) -> str:
        warps = f.warps()
        return f"CTA {f.cta.index} warps {warps[0]}..{warps[-1]}"

    def _waits_for(self, f: Fragment) -> str:
        if f.state is PARTED:
            line = self.instructions[self.cluster.program.blocks[f.pc].first].line
            return f"for the other lanes of its warp, at PTX line {line}"
        if f.wait is None:
            return f"polling near PTX line {self.instructions[self.cluster.program.blocks[f.pc].first].line}"
        phase = "" if f.wait.parity is None else f", waiting for the phase of parity {f.wait.parity}"
        text = f"for {f.wait.on}{phase}, at {self.instructions[f.wait.at].place}"
        return f"{text}{self._why(f)}"

    def _why(self, f: Fragment) -> str:
        """Who should have come, and what keeps them."""
        assert f.wait is not None
        on = f.wait.on
        if isinstance(on, NamedBarrier):
            return self._absent(on)
        if isinstance(on, ClusterBarrier):
            return ""
        if on.tx and not on.pending:
            where = ", ".join(self.instructions[at].place for at in sorted(on.expected_at))
            verb = "more bytes came than" if on.tx < 0 else "fewer bytes came than"
            return f" ({verb} were expected at {where})"
        if self._never_filled(on, f.wait.at):
            return (
                " (what it waits to fill has never been filled, and nobody will release it: the first wait of a "
                "producer is for parity 1, which passes)"
            )
        signals = self._signallers(on)
        if not signals:
            return " (nobody has ever arrived there)"
        return f" (still to arrive: {'; '.join(signals[:3])})"

    def _never_filled(self, bar: MBarrier, at: int) -> bool:
        """Whether a producer waits for room in a buffer that it has had no turn with."""
        return bar.phase == 0 and not bar.waits and fills(self.instructions, at)

    def _signallers(self, bar: MBarrier) -> list[str]:
        """Who arrived in phases before and has not in this one, with what keeps them."""
        out = []
        for (at, rank, warp), phase in bar.signals.items():
            if phase < bar.phase:
                keeps = self._keeps(rank, warp)
                place = self.instructions[at].place
                out.append(f"warp {warp} of CTA {rank}, which arrived for phase {phase} at {place} and {keeps}")
        return out

    def _gone(self, bar: MBarrier) -> bool:
        """Whether one who should arrive has exited."""
        late = [(rank, warp) for (_, rank, warp), phase in bar.signals.items() if phase < bar.phase]
        return any(self._waiting(rank, warp) is None for rank, warp in late)

    def _waiting(self, rank: int, warp: int) -> Fragment | None:
        for f in self.cluster.ctas[rank].fragments:
            if warp in f.warps():
                return f
        return None

    def _keeps(self, rank: int, warp: int) -> str:
        f = self._waiting(rank, warp)
        if f is None:
            return "has exited since"
        at = self._at(f)
        return f"is now at {self.instructions[at].place}"

    def _exited(self, barrier: NamedBarrier) -> bool:
        """Whether fewer threads are left in the CTA than a barrier still waits for."""
        here = sum(f.count for f in barrier.sleepers)
        return barrier.wanted - barrier.arrived > barrier.cta.living - here

    def _absent(self, barrier: NamedBarrier) -> str:
        """The warps that have not come to a barrier, and where they are."""
        if self._exited(barrier):
            return " (too few threads are left to come: some have exited, or the count is too large)"
        asleep = {warp for f in barrier.sleepers for warp in f.warps()}
        others = [f for f in barrier.cta.fragments if not asleep.intersection(f.warps())]
        told = [f"warps {f.warps()[0]}..{f.warps()[-1]} are at {self.instructions[self._at(f)].place}" for f in others]
        return f" ({'; '.join(told[:4])})" if told else ""
