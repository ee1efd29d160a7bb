"""Deadlock diagnosis: the likely cause first, then every waiting fragment.

Each wait is traced to the threads that should have arrived. If those wait themselves, they rank low. Causes that
no other wait explains rank first: bytes never sent or never announced, products never committed, a producer that waits
for a buffer never filled, an arrival owed by an exited warp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .barriers import ClusterBarrier, MBarrier, NamedBarrier
from .coverage import fills
from .livelock import Read, read_by
from .missing_arrival import missing_arrival
from .warp import PARTED, RUNNING, Fragment

if TYPE_CHECKING:
    from .protocols import Cluster

MAX_WAITS = 8  # waiting fragments per message
MAX_NAMED = 3  # instructions or warps per cause


@dataclass(frozen=True, slots=True)
class Cause:
    """A possible cause of a wait: rank (`order`, lowest is likeliest), text, instruction."""

    order: int
    text: str
    at: int


class Deadlock:
    """The fragments of a cluster that cannot proceed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.instructions = cluster, cluster.program.instructions
        self.everyone = everyone = [f for cta in cluster.ctas for f in cta.fragments]
        self.reads = {f: read_by(f) for f in everyone if f.state is RUNNING}
        self.causes = sorted(((f, self._cause(f)) for f in everyone), key=lambda x: x[1].order)

    def report(self) -> None:
        """Report the deadlock at the instruction of the likeliest cause."""
        first, cause = self.causes[0]
        self._report(cause.text, cause.at, first)

    def report_limit(self) -> None:
        """Report a cluster at the step limit, at the loop whose block ran most often."""
        visits, steps = self.cluster.machine.visits, self.cluster.steps
        first = max(self.reads, key=lambda f: visits.get(f.pc, 0))
        read = self.reads[first]
        at, reading = (read.at, f", reading {read.what}") if read.at >= 0 else (self._at(first), "")
        since = "since a thread last exited or asynchronous work last completed"
        where = f"{self._location(at)}{reading}"
        text = f"{_warps_text(first)} loop at {where}: {steps:,} basic blocks ran {since} (step_limit)"
        self._report(text, at, first)

    def _report(self, text: str, at: int, first: Fragment) -> None:
        waiting = [f"{_warps_text(f)} {self._waits_for(f)}" for f, _ in self.causes[:MAX_WAITS]]
        more = f"; and {len(self.causes) - MAX_WAITS} more" if len(self.causes) > MAX_WAITS else ""
        self.cluster.machine.report("deadlock", f"{text}; waiting: {'; '.join(waiting)}{more}", at, first)

    def _cause(self, f: Fragment) -> Cause:
        wait, at = f.wait, self._at(f)
        if f.state is PARTED:
            looping = any(other in self.reads and self.reads[other].at >= 0 for other in f.family or ())
            text = f"the other lanes of a warp do not reach {self._location(at)}"
            return Cause(5 if looping else 2, text, at)
        if wait is None:
            return self._looping(f, at)
        if isinstance(wait.on, NamedBarrier):
            return self._at_named_barrier(wait.on, at)
        if isinstance(wait.on, ClusterBarrier):
            return Cause(6, f"{wait.on}: the others are elsewhere", at)
        return self._at_mbarrier(f, wait.on, at)

    def _looping(self, f: Fragment, at: int) -> Cause:
        """Return the cause for an endless loop: what it reads and why nothing changes that."""
        read = self.reads.get(f, Read())
        if read.at < 0:
            return Cause(5, f"threads loop forever at {self._location(at)}", at)
        why = "no other warp is left" if len(self.everyone) == 1 else "all other warps have ended, wait or loop, too"
        later = self.cluster.later
        why += f"; {later} clusters of the grid begin when one of these has ended" if later else ""
        where = f"{self._location(read.at)}, reading {read.what}"
        text = f"{_warps_text(f)} loop forever at {where}: no thread will write it ({why})"
        return Cause(4, text, read.at)

    def _at_named_barrier(self, on: NamedBarrier, at: int) -> Cause:
        """Return the cause for a named barrier: too few threads left, or missing warps."""
        sleeping = sum(f.count for f in on.sleepers)
        if on.required - on.arrived > on.cta.living - sleeping:
            why = "too few threads are left to come: some have exited, or the count is too large"
            return Cause(2, f"{on}, waited for at {self._location(at)}: {why}", at)
        asleep = {warp for f in on.sleepers for warp in f.warps()}
        others = [f for f in on.cta.fragments if not asleep.intersection(f.warps())]
        waiting = [
            f"warps {f.warps()[0]}..{f.warps()[-1]} are at {self._location(self._at(f))}" for f in others[:MAX_NAMED]
        ]
        return Cause(6, f"{on}: {'; '.join(waiting)}", at)

    def _at_mbarrier(self, f: Fragment, on: MBarrier, at: int) -> Cause:
        """Return the cause for an mbarrier: missing bytes or missing arrivals."""
        if on.tx and not on.pending:
            return self._bytes_missing(on, at)
        if on.tx < 0:
            announcers = self._owing(on)
            why = "no mbarrier.arrive.expect_tx has announced them"
            why += f"; {announcers[0]}" if announcers else ""
            sent = min(on.bytes_by, default=at)
            return Cause(
                1, f"{-on.tx} bytes have arrived for {on}, sent at {self._locations(on.bytes_by)}, and {why}", sent
            )
        if on.phase == 0 and not on.waits and fills(self.instructions, at):
            why = (
                "what it waits to fill has never been filled, and nobody will release it: the first wait of a producer "
                "is for parity 1, which passes"
            )
            return Cause(1, f"at {self._location(at)} a producer waits for {on}; {why}", at)
        owing = self._owing(on)
        if owing:
            text = f"still to arrive on {on}: {'; '.join(owing[:MAX_NAMED])}"
            return Cause(2 if self._has_exited(on) else 5, text, at)
        return self._never_signalled(f, on, at)

    def _bytes_missing(self, on: MBarrier, at: int) -> Cause:
        announced = self._locations(on.expected_at)
        less, arrivals = ("more", f"sent at {self._locations(on.bytes_by)}") if on.tx < 0 else ("fewer", "none arrived")
        if on.tx > 0 and on.bytes_by:
            arrivals = f"{sum(on.bytes_by.values())} arrived, sent at {self._locations(on.bytes_by)}"
        text = f"{less} bytes arrived than expected at {announced} for {on}: {arrivals}"
        return Cause(0, text, min(on.expected_at, default=at))

    def _never_signalled(self, f: Fragment, on: MBarrier, at: int) -> Cause:
        """Return the cause without a missing arriver: no arrival at all, or a wrong count."""
        initialised = f"{on}, made for {on.expected} at {self._location(on.initialised_at)}"
        if on.pending < on.expected:
            arrivals = [key for key, phase in on.signals.items() if phase == on.phase]
            where = self._locations({key[0] for key in arrivals})
            why = "the count is too large, or an expected arrival is missing"
            text = f"{on.expected - on.pending} arrivals were made on {initialised}, at {where}, and {why}"
            return Cause(2, text + self._missing(at), at)
        nobody = f"nobody has ever arrived there: {initialised}"
        copies = {at for cta in self.cluster.ctas for at in cta.uncounted_copies.values()}
        if copies:
            text = f"no group or arrival followed the copies (cp.async) at {self._locations(copies)}, and {nobody}"
            return Cause(1, text, min(copies))
        pending = [cta.uncommitted for cta in self.cluster.ctas if cta.uncommitted >= 0]
        if pending:
            where = self._locations(set(pending))
            text = f"products issued at {where} were never committed (tcgen05.commit), and {nobody}"
            return Cause(2, text, pending[0])
        consumers = self._consumers(f, on, at)
        if consumers:
            where = self._locations(consumers)
            producer = self._location(at)
            why = f"the consumer that waits at {where} for what the producer at {producer} fills must release it"
            return Cause(3, f"{nobody}; {why}{self._missing(at)}", min(consumers))
        return Cause(4, f"{nobody}, waited for at {self._location(at)}{self._missing(at)}", at)

    def _missing(self, at: int) -> str:
        """Return where an awaited arrival may be missing, as the end of a sentence."""
        spans = missing_arrival(self.cluster.program, self.cluster.machine.visits, at)[:MAX_NAMED]
        places = [f"between {self._location(first)} and {self._location(end)}" for first, end in spans]
        return f"; it may be missing {' or '.join(dict.fromkeys(places))}" if places else ""

    def _consumers(self, f: Fragment, room: MBarrier, at: int) -> set[int]:
        """Return the waits of the consumers of what a producer fills, after its wait `at`."""
        if not fills(self.instructions, at):
            return set()
        filled: dict[int, set[int]] = {}
        for cta in self.cluster.ctas:
            for bar in cta.mbarriers.values():
                for signal, rank, warp in bar.signals:
                    if bar is not room and rank == f.cta.rank and warp in f.warps() and signal > at:
                        filled.setdefault(signal, set()).update(bar.waits, bar.sleeps)
        return filled[min(filled)] if filled else set()

    def _owing(self, bar: MBarrier) -> list[str]:
        """Describe each warp that arrived in earlier phases but not in this one."""
        out = []
        for (at, rank, warp), phase in bar.signals.items():
            if phase < bar.phase:
                doing = self._whereabouts(rank, warp)
                out.append(
                    f"warp {warp} of CTA {rank}, which arrived for phase {phase} at {self._location(at)} and {doing}"
                )
        return out

    def _has_exited(self, bar: MBarrier) -> bool:
        """Return whether a warp that should arrive has exited."""
        late = [(rank, warp) for (_, rank, warp), phase in bar.signals.items() if phase < bar.phase]
        return any(self._fragment(rank, warp) is None for rank, warp in late)

    def _whereabouts(self, rank: int, warp: int) -> str:
        f = self._fragment(rank, warp)
        return "has exited since" if f is None else f"is now at {self._location(self._at(f))}"

    def _fragment(self, rank: int, warp: int) -> Fragment | None:
        return next((f for f in self.cluster.ctas[rank].fragments if warp in f.warps()), None)

    def _waits_for(self, f: Fragment) -> str:
        if f.state is PARTED:
            return f"for the other lanes of its warp, at {self._location(self._at(f))}"
        if f.wait is None:
            read = self.reads.get(f, Read())
            return (
                f"polling near {self._location(self._at(f))}"
                if read.at < 0
                else f"looping at {self._location(read.at)}"
            )
        phase = "" if f.wait.parity is None else f", waiting for the phase of parity {f.wait.parity}"
        owing = self._owing(f.wait.on) if isinstance(f.wait.on, MBarrier) else []
        return f"for {f.wait.on}{phase}, at {self._location(f.wait.at)}" + (f" ({owing[0]})" if owing else "")

    def _at(self, f: Fragment) -> int:
        """Return the instruction at which a fragment stands."""
        return self.cluster.program.blocks[f.pc].first if f.wait is None else f.wait.at

    def _location(self, at: int) -> str:
        return self.instructions[at].location

    def _locations(self, of: set[int] | dict[int, int]) -> str:
        """Return the first few instructions in code order, one per source line, as text."""
        by_source: dict[str | int, int] = {}
        for at in sorted(at for at in of if at >= 0):
            by_source.setdefault(self.instructions[at].source or at, at)
        return ", ".join(map(self._location, list(by_source.values())[:MAX_NAMED])) or "an instruction"


def _warps_text(f: Fragment) -> str:
    warps = f.warps()
    return f"CTA {f.cta.index} warps {warps[0]}..{warps[-1]}"
