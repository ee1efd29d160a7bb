"""Adversarial schedules: all work completes at once, except for one thing that is delayed.

The name is `hold:KIND:LOCATION`, where LOCATION is a source line, or a PTX line without line information.
KIND `copy` and `product` delay asynchronous work; `arrival`, `wait` and `barrier` delay threads before that
instruction. `hold:warps:FIRST-LAST` delays those warps of every CTA. Delayed work runs when nothing else can.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..frontend.syntax import Instruction

if TYPE_CHECKING:
    from ..frontend.program import Program
    from .coverage import Coverage
    from .launch import Launch
    from .warp import Fragment
    from .work import Task

PREFIX = "hold:"
KINDS = ("copy", "product", "arrival", "wait", "barrier")
OF_TASKS = ("copy", "product")
RUNS = 24  # default budget of a search


class Delay:
    """What a schedule delays. Raises ValueError for an invalid name."""

    def __init__(self, name: str) -> None:
        parts = name.removeprefix(PREFIX).split(":", 1)
        self.kind, self.location = parts[0], parts[-1]
        self.first = self.last = -1
        if len(parts) < 2 or self.kind not in (*KINDS, "warps"):
            raise ValueError(f"schedule {name!r}: expected hold:warps:4-7, or hold:KIND:FILE:LINE of {KINDS}")
        if self.kind == "warps":
            try:
                self.first, self.last = map(int, self.location.split("-"))
            except ValueError:
                raise ValueError(f"schedule {name!r}: warps are given as FIRST-LAST, such as 4-7") from None
        self.at: frozenset[int] = frozenset()  # delayed instructions of the current kernel
        self.blocks: frozenset[int] = frozenset()  # their blocks

    def enter(self, program: Program) -> None:
        """Prepare for a launch of a kernel."""
        code = program.instructions
        self.at = frozenset(
            n for n, ins in enumerate(code) if kind_of(ins) == self.kind and location_of(ins) == self.location
        )
        inside = (b.index for b in program.blocks if any(n in self.at for n in range(b.first, b.last)))
        self.blocks = frozenset() if self.kind in OF_TASKS else frozenset(inside)

    def matches(self, launch: Launch, program: Program) -> bool:
        """Return whether a launch has anything to delay."""
        if self.kind == "warps":
            return 0 <= self.first <= self.last and self.first < launch.warps
        return any(kind_of(ins) == self.kind and location_of(ins) == self.location for ins in program.instructions)

    def applies_to(self, f: Fragment) -> bool:
        """Return whether a fragment is delayed."""
        if self.kind == "warps":
            return f.lo // 32 <= self.last and self.first <= (f.hi - 1) // 32
        return f.pc in self.blocks

    def applies_to_task(self, task: Task) -> bool:
        origin = getattr(task, "origin", None)
        return origin is not None and origin.at in self.at

    def runnable(self, ready: list[Fragment]) -> list[Fragment]:
        """Return the fragments that are not delayed, or all if every one is."""
        return [f for f in ready if not self.applies_to(f)] or ready


def kind_of(ins: Instruction) -> str | None:
    """Return the kind of delay that applies to an instruction."""
    match ins.parts:
        case ("mbarrier", "arrive" | "arrive_drop", *_):
            return "arrival"
        case ("mbarrier", "try_wait" | "test_wait", *_):
            return "wait"
        case ("bar" | "barrier", *_):
            return "barrier"
        case ("cp", "async", *rest) if not {"commit_group", "wait_group", "wait_all", "prefetch"} & set(rest):
            return "copy"
        case ("st", "async", *_):
            return "copy"
        case ("tcgen05", "mma" | "cp" | "commit", *_) | ("wgmma", "mma_async", *_):
            return "product"
    return None


def location_of(ins: Instruction) -> str:
    """Return the source line without folders, or the PTX line."""
    return ins.source.rpartition("/")[2] if ins.source else str(ins.line)


def delays(covered: Iterable[Coverage]) -> list[str]:
    """Return all delays' names, alternately of warp roles and of earlier instructions."""
    ranges: set[tuple[int, int]] = set()
    by_kind: dict[str, dict[str, None]] = {kind: {} for kind in KINDS}
    for coverage in covered:
        ranges |= coverage.ranges
        for index in sorted(coverage.visited):
            for ins in coverage.instructions[slice(*coverage.blocks[index])]:
                kind = kind_of(ins)
                if kind is not None:
                    by_kind[kind][f"{PREFIX}{kind}:{location_of(ins)}"] = None
    roles = [f"{PREFIX}warps:{first}-{last}" for first, last in _smallest(ranges)]
    interleaved = itertools.zip_longest(roles, *(list(names) for names in by_kind.values()))
    return [name for group in interleaved for name in group if name is not None]


def _smallest(ranges: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges of warps that ran in step and contain no smaller such range."""
    inner = [r for r in ranges if not any(o != r and r[0] <= o[0] and o[1] <= r[1] for o in ranges)]
    return sorted(inner) if len(inner) > 1 else []


def orders(covered: Iterable[Coverage], seed: int = 0) -> Iterator[tuple[str, int]]:
    """Yield the schedules of a search without end: random, each delay once, random.

    `covered` must hold the coverage of the first run before the second is requested.
    """
    yield "random", seed
    for name in delays(covered):
        yield name, seed
    for n in itertools.count(seed + 1):
        yield ("warps" if n % 2 else "random"), n
