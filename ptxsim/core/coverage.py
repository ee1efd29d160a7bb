"""Coverage of a launch, which separates tested from untested behaviour.

Coverage is: basic blocks and their source lines, phases of every mbarrier, and iterations of mbarrier rings and of
outer loops. A ring is a run of adjacent mbarriers, one per pipeline stage. Outer loops are the work tiles of a
persistent CTA. Counts are maxima over CTAs; `merge` combines runs of one launch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ..frontend.syntax import Instruction

if TYPE_CHECKING:
    from ..frontend.program import Program
    from .protocols import Cluster

MAX_MISSED_LINES = 40  # source lines that a report names
LOOKAHEAD = 120  # instructions after a wait that are searched for its purpose


@dataclass(slots=True)
class BarrierCoverage:
    """Use of an mbarrier, by its offset in shared memory.

    `room` says that a producer waits on it for a free buffer. `looped` says that a wait on it is in a loop; others
    are for one-time events.
    """

    offset: int
    expected: int
    phases: int = 0
    waits: int = 0
    slept: int = 0
    room: bool = False
    looped: bool = False

    def add(self, other: BarrierCoverage) -> None:
        self.phases = max(self.phases, other.phases)
        self.waits += other.waits
        self.slept += other.slept
        self.room = self.room or other.room
        self.looped = self.looped or other.looped


@dataclass(slots=True)
class Coverage:
    """What the runs of one launch have exercised."""

    kernel: str
    instructions: list[Instruction]
    blocks: list[tuple[int, int]]  # first and last instruction of each block
    visited: set[int] = field(default_factory=set)
    barriers: dict[int, BarrierCoverage] = field(default_factory=dict)
    loops: dict[int, int] = field(default_factory=dict)  # first block of an outer loop → most iterations in a CTA
    entries: dict[int, list[int]] = field(default_factory=dict)  # first block of an outer loop → blocks that enter it
    repeated: set[int] = field(default_factory=set)  # instructions in loops that do more than wait
    for_room: dict[int, bool] = field(default_factory=dict)  # wait → whether a producer waits at it
    ranges: set[tuple[int, int]] = field(default_factory=set)  # (first, last) warp of ranges that ran in step
    preferred: str = ""  # the cluster dimensions that the launch prefers and no run had
    unordered: str = ""  # why no run tested the order after the launch before, for a launch that may begin early

    @classmethod
    def of(cls, kernel: str, program: Program) -> Coverage:
        spans = [(b.first, b.last) for b in program.blocks]
        loops = {first: entries for first, (_, entries) in program.loops.items()}
        repeated = {n for a, (b, _) in program.loops.items() for n in range(spans[a][0], spans[b][1])}
        return cls(kernel, program.instructions, spans, loops=dict.fromkeys(loops, 0), entries=loops, repeated=repeated)

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Leave out the large `instructions`, which the process that receives a coverage sets again."""
        return None, {x.name: getattr(self, x.name) for x in fields(self)} | {"instructions": []}

    def note(self, cluster: Cluster, before: dict[int, int]) -> None:
        """Add a cluster's run; `before` are the block visits when it began."""
        visits = cluster.machine.visits
        self.visited |= visits.keys()
        around = {p for first, entries in self.entries.items() for p in (first, *entries)}
        self.note_loops({p: visits.get(p, 0) - before.get(p, 0) for p in around})
        for cta in cluster.ctas:
            self.ranges |= cta.registers.ranges()
            for offset, bar in cta.mbarriers.items():
                tested = bar.waits.keys() | bar.sleeps.keys()
                waits, sleeps = sum(bar.waits.values()), sum(bar.sleeps.values())
                room, looped = any(map(self._is_for_room, tested)), not self.repeated.isdisjoint(tested)
                seen = BarrierCoverage(offset, bar.expected, bar.phase, waits, sleeps, room, looped)
                self.barriers.setdefault(offset, BarrierCoverage(offset, bar.expected)).add(seen)

    def note_loops(self, visits: dict[int, int]) -> None:
        """Add a cluster's iterations of loops, from the visits of blocks around them."""
        for first in self.loops:
            entries = sum(visits[p] for p in self.entries[first])
            iterations = visits[first] // max(entries, 1)
            self.loops[first] = max(self.loops[first], iterations if entries else 0)

    def _is_for_room(self, at: int) -> bool:
        if at not in self.for_room:
            self.for_room[at] = fills(self.instructions, at)
        return self.for_room[at]

    def merge(self, other: Coverage) -> None:
        """Add another run of the launch."""
        self.visited |= other.visited
        self.ranges |= other.ranges
        self.preferred = self.preferred and other.preferred
        self.unordered = self.unordered and other.unordered
        for first, iterations in other.loops.items():
            self.loops[first] = max(self.loops.get(first, 0), iterations)
        for offset, bar in other.barriers.items():
            self.barriers.setdefault(offset, BarrierCoverage(offset, bar.expected)).add(bar)

    def lines(self) -> tuple[set[str], set[str]]:
        """Return (source lines that ran, source lines that did not), as file:line."""
        run: set[str] = set()
        known: set[str] = set()
        for index, (first, last) in enumerate(self.blocks):
            sources = {ins.source for ins in self.instructions[first:last] if ins.source is not None}
            known |= sources
            if index in self.visited:
                run |= sources
        return run, known - run

    def rings(self) -> list[list[BarrierCoverage]]:
        """Return runs of adjacent mbarriers with equal use: the stages of a pipeline."""
        out: list[list[BarrierCoverage]] = []
        for offset in sorted(self.barriers):
            bar = self.barriers[offset]
            last = out[-1][-1] if out else None
            if last is not None and (last.offset + 8, last.expected, last.room) == (offset, bar.expected, bar.room):
                out[-1].append(bar)
            else:
                out.append([bar])
        return out

    def notes(self) -> list[str]:
        """Return sentences on behaviour that was never tested."""
        out = [note for note in (self.preferred, self.unordered) if note]
        for ring in self.rings():
            where = f"mbarrier{'s' * (len(ring) > 1)} at shared offset {ring[0].offset}"
            where += f" to {ring[-1].offset}" if len(ring) > 1 else ""
            phases, least = max(bar.phases for bar in ring), min(bar.phases for bar in ring)
            if not any(bar.waits or bar.slept for bar in ring):
                out.append(f"{where}: never waited on")
            elif phases < 2 and any(bar.looped for bar in ring):
                times = ("no phase", "one phase")[phases]
                never = "the ring never wrapped and " if len(ring) > 1 else ""
                out.append(f"{where}: {times} completed at most, so that {never}the parity never flipped")
            elif least < 2 and any(bar.looped for bar in ring):
                some = sum(bar.phases < 2 for bar in ring)
                stages = f"at {some} of {len(ring)} stages one phase completed at most"
                out.append(f"{where}: {stages}, so that their parity never flipped")
            elif ring[0].room and not any(bar.slept for bar in ring):
                out.append(f"{where}: the pipeline was never full, no producer ever waited for a free stage")
        return out

    def as_dict(self) -> dict[str, Any]:
        """Return the coverage as plain values for a record."""
        run, missed = self.lines()
        rings = self.rings()
        return {
            "kernel": self.kernel,
            "blocks": {"run": len(self.visited), "all": len(self.blocks)},
            "lines": {
                "run": len(run),
                "all": len(run) + len(missed),
                "missed": sorted(missed, key=_source_order)[:MAX_MISSED_LINES],
            },
            "rings": [
                {
                    "offset": ring[0].offset,
                    "stages": len(ring),
                    "turns": max(bar.phases for bar in ring),
                    "least": min(bar.phases for bar in ring),
                    "waits": sum(bar.waits for bar in ring),
                    "slept": sum(bar.slept for bar in ring),
                    "room": ring[0].room,
                }
                for ring in rings
            ],
            "loops": [
                {"source": self.instructions[self.blocks[first][0]].source, "turns": iterations}
                for first, iterations in sorted(self.loops.items())
            ],
            "items": max(self.loops.values(), default=0),
            "notes": self.notes(),
        }


def fills(instructions: list[Instruction], at: int) -> bool:
    """Return whether a load follows a wait, which then was for a free buffer."""
    for ins in instructions[at + 1 : at + LOOKAHEAD]:
        if ins.parts[:2] in (("mbarrier", "try_wait"), ("mbarrier", "test_wait")):
            return False
        if "expect_tx" in ins.parts:
            return True
        if ins.parts[:3] == ("cp", "async", "bulk") and not ins.parts[3].endswith("_group"):
            to = ins.parts[5] if ins.parts[3] == "tensor" else ins.parts[3]
            return to.startswith("shared")
    return False


def _source_order(source: str) -> tuple[str, int]:
    file, _, line = source.rpartition(":")
    return file, int(line) if line.isdigit() else 0
