"""Recorder of work and waits, for the timeline of the representative cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.barriers import MBarrier, NamedBarrier
from .prediction import Span, SpanKind, Timeline, Track

if TYPE_CHECKING:
    from ..core.barriers import Wait
    from ..core.work import Origin
    from ..frontend.syntax import Instruction
    from .hardware import WarpClock

_LIMIT = 200_000  # spans kept


class Recorder:
    """Spans by track; with `keep` False nothing is recorded."""

    def __init__(self, keep: bool = True) -> None:
        self.keep = keep
        self.tracks: dict[str, list[Span]] = {}
        self.count = 0

    def _add(self, track: str, span: Span) -> None:
        if self.count < _LIMIT:
            self.count += 1
            self.tracks.setdefault(track, []).append(span)

    def _worked(self, clock: WarpClock, until: float) -> None:
        if until > clock.began:
            self._add(_name(clock), Span("work", clock.began, until, "instructions"))

    def waited(self, clock: WarpClock, since: float, until: float, ins: Instruction) -> None:
        """Record a warp's wait at an instruction for asynchronous work."""
        if self.keep:
            self._worked(clock, since)
            self._add(_name(clock), Span("wait", since, until, ".".join(ins.parts[:3]), ins.line, ins.source))
            clock.began = until

    def slept(self, clock: WarpClock, since: float, until: float, wait: Wait | None, ins: Instruction | None) -> None:
        """Record a warp's sleep at a barrier."""
        if not self.keep:
            return
        self._worked(clock, since)
        line, source = (ins.line, ins.source) if ins is not None else (None, None)
        self._add(_name(clock), Span("wait", since, until, _barrier(wait), line, source))
        clock.began = until

    def ended(self, clock: WarpClock, at: float) -> None:
        if self.keep:
            self._worked(clock, at)

    def engine(self, name: str, kind: SpanKind, origin: Origin, begin: float, end: float) -> None:
        """Record work of an engine of the issuing CTA."""
        if self.keep:
            ins = origin.machine.program.instructions[origin.at]
            track = f"CTA {origin.cta.rank} {name}"
            self._add(track, Span(kind, begin, end, ".".join(ins.parts[:3]), ins.line, ins.source))

    def timeline(self, cycles: float, clock_mhz: float) -> Timeline:
        tracks = [Track(name, tuple(spans)) for name, spans in sorted(self.tracks.items(), key=lambda x: _order(x[0]))]
        return Timeline(cycles, clock_mhz, tuple(tracks))


def _name(clock: WarpClock) -> str:
    return f"CTA {clock.cta.rank} warp {clock.warp}"


def _order(name: str) -> tuple[int, int, str]:
    fields = name.split()
    return int(fields[1]), int(fields[3]) if fields[2] == "warp" else 1000, name


def _barrier(wait: Wait | None) -> str:
    if wait is None:
        return "barrier"
    if isinstance(wait.on, MBarrier):
        return f"mbarrier at shared offset {wait.on.offset} of CTA {wait.on.cta.rank}"
    if isinstance(wait.on, NamedBarrier):
        return f"barrier {wait.on.number}"
    return "barrier.cluster"
