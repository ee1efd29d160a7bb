"""The registers of a CTA, which setmaxnreg moves between warps (PTX ISA 9.7.20.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..frontend.syntax import Instruction
    from .launch import Launch

PER_SM = 65_536
_UNIT = 8  # registers per thread are allocated in multiples of this
_MAX_NAMED = 4  # instructions per message
_MAX_PER_THREAD = 256  # 255, rounded up


class Requester(Protocol):
    """Threads that execute setmaxnreg."""

    @property
    def lo(self) -> int: ...

    def warps(self) -> Iterable[int]: ...

    def report(self, at: int, kind: str, message: str, threads: np.ndarray) -> None: ...


class _Request(NamedTuple):
    """A warp's request for more registers per thread than were free."""

    warp: int
    requested: int
    at: int
    f: Requester


class RegisterPool:
    """Registers per thread of each warp of a CTA, and pending requests.

    A warp that waits for registers continues, so that one run finds more faults. Registers of an exited warp stay
    with the CTA, as on hardware.
    """

    def __init__(self, launch: Launch, per_thread: int) -> None:
        self.per_thread = per_thread
        self.per_warp = [per_thread] * launch.warps
        self.size = 32 * sum(self.per_warp)
        self.waiting: list[_Request] = []
        self.returned_at: set[int] = set()  # instructions that gave some back

    def change(self, f: Requester, at: int, count: int, more: bool) -> None:
        """Release registers of warps or, with `more`, request some."""
        for warp in f.warps():
            if more and count > self.per_warp[warp]:
                if all((warp, at) != (request.warp, request.at) for request in self.waiting):
                    self.waiting.append(_Request(warp, count, at, f))
            else:
                if count < self.per_warp[warp]:
                    self.returned_at.add(at)
                self.per_warp[warp] = min(self.per_warp[warp], count)
        for request in list(self.waiting):
            if 32 * (sum(self.per_warp) - self.per_warp[request.warp] + request.requested) <= self.size:
                self.per_warp[request.warp] = max(self.per_warp[request.warp], request.requested)
                self.waiting.remove(request)

    def finish(self, code: Sequence[Instruction], begins: Mapping[int, int]) -> None:
        """Report requests that were never granted, once per instruction of `code`.

        `begins`: warp → the first instruction after it left other warps.
        """

        def places(of: Iterable[int]) -> str:
            return ", ".join(code[at].location for at in sorted(of)[:_MAX_NAMED])

        for at in dict.fromkeys(request.at for request in self.waiting):
            mine = sorted((x for x in self.waiting if x.at == at), key=lambda x: x.warp)
            warps, count, f = [x.warp for x in mine], mine[0].requested, mine[0].f
            requested_by_warp = {request.warp: request.requested for request in self.waiting}
            total = 32 * sum(requested_by_warp.get(warp, registers) for warp, registers in enumerate(self.per_warp))
            unchanged = [
                warp
                for warp, registers in enumerate(self.per_warp)
                if registers == self.per_thread and warp not in requested_by_warp
            ]
            never = f"; warps {_ranges(unchanged)} gave none back" if unchanged else ""
            if own := {begins[warp] for warp in unchanged if warp in begins}:
                never += f" (their own code begins at {places(own)})"
            if self.returned_at:
                who = "others did" if unchanged else "warps gave some back"
                never += f"; {who} at {places(self.returned_at)}"
            what = f"setmaxnreg.inc to {count} registers per thread never ends in warps {_ranges(warps)}"
            f.report(
                at,
                "deadlock",
                f"{what}: the CTA has {self.size:,} registers ({self.per_thread} per thread at launch), and its warps "
                f"would hold {total:,}{never}",
                np.array([32 * warps[0] - f.lo]),
            )


def registers_at_launch(launch: Launch) -> int | None:
    """Return the most registers per thread at launch; None if ptxas ignores setmaxnreg.

    ptxas gives a kernel that uses setmaxnreg what its launch bounds allow.
    """
    directives = launch.kernel.directives
    if (maxnreg := directives.get("maxnreg")) is not None:
        return min(-(-maxnreg[0] // _UNIT) * _UNIT, _MAX_PER_THREAD)
    bounds = directives.get("reqntid") or directives.get("maxntid")
    if bounds is None:
        return None
    ctas = max((directives.get("minnctapersm") or (1,))[0], 1)
    warps = -(-int(np.prod(bounds)) // 32)
    return min(PER_SM // (32 * warps * ctas) // _UNIT * _UNIT, _MAX_PER_THREAD)


def _ranges(warps: list[int]) -> str:
    """Format warps as ranges: 0..3, 8..11."""
    starts = [w for w in warps if w - 1 not in warps]
    ends = [w for w in warps if w + 1 not in warps]
    return ", ".join(f"{a}..{b}" if a < b else str(a) for a, b in zip(starts, ends, strict=True))
