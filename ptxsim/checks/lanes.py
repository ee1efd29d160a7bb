"""Check bulk stores, arrivals and descriptor copies after writes by other lanes.

Only bar.warp.sync, or a wider barrier, orders the lanes of a warp.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .vector_clock import Actors, Warp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.warp import Fragment
    from ..core.work import Origin

DESCRIPTOR = 128  # bytes
LONGEST = 64  # writes of a warp that are kept between two synchronisations
Writes = deque["LaneWrite"]


class LaneWrite(NamedTuple):
    """A warp's shared write: byte offset, thread and bytes per lane, instruction."""

    offsets: np.ndarray
    threads: np.ndarray
    size: int
    at: int


class LaneWrites:
    """Writes of shared memory per warp since its lanes last synchronised."""

    def __init__(self, clocks: Actors) -> None:
        self.clocks = clocks
        self.since: dict[Warp, Writes] = {}
        self.pending: dict[Warp, Writes] = {}  # those before the warp's next arrival
        self.dirty: set[Warp] = set()  # warps with writes that their lanes' arrivals did not release
        self.before_store: dict[int, tuple[int, list[LaneWrite]]] = {}  # bulk store → its thread, writes before it

    def wrote(self, warp: Warp, write: LaneWrite) -> None:
        for writes in (self.since, self.pending):
            if warp not in writes:
                writes[warp] = deque(maxlen=LONGEST)
            writes[warp].append(write)

    def synchronised(self, warps: Iterable[Warp]) -> None:
        """Forget the writes of warps whose lanes are ordered by a barrier."""
        for warp in warps:
            self.since.pop(warp, None)
            self.released(warp)

    def released(self, warp: Warp) -> None:
        """Forget that lanes of a warp wrote before an arrival of all of them."""
        self.pending.pop(warp, None)
        self.dirty.discard(warp)

    def unreleased(self, warp: Warp, threads: np.ndarray) -> list[tuple[np.ndarray, int]]:
        """Return words, with the instruction, that other lanes wrote before these threads arrive."""
        out = []
        for offsets, writers, size, at in self.pending.pop(warp, ()):
            other = offsets[~np.isin(writers, threads)].astype(np.int64)
            if len(other):
                out.append(((other[:, None] + np.arange(0, size, 4)).ravel() // 4, at))
        return out

    def issued(self, f: Fragment, at: int, warp: Warp, serial: int) -> None:
        """Keep the writes before a bulk store that one lane issues."""
        since = self.since.get(warp)
        if since and f.count == 1 and _stores(self.clocks.machine.program.instructions[at].parts):
            self.before_store[serial] = f.lo + int(f.lanes()[0]), list(since)

    def stored(self, origin: Origin, start: int, end: int) -> None:
        """Report bytes of a bulk store that another lane of its warp wrote, unordered."""
        thread, writes = self.before_store.pop(origin.token.serial, (0, []))
        for offsets, threads, size, at in writes:
            first = offsets.astype(np.int64)
            other = (first < end) & (first + size > start) & (threads != thread)
            if other.any():
                which, offset = int(threads[other][0]), int(first[other][0])
                where = self.clocks.machine.program.instructions[at].location
                message = f"lane {thread % 32} of warp {origin.warp} of CTA {origin.cta.rank} stores shared offset "
                message += f"{offset}, which lane {which % 32} wrote at {where}, and no bar.warp.sync lies between them"
                return self.clocks.machine.report("race", message, origin.at, origin.fragment)
        return None

    def copied(self, f: Fragment, at: int, warp: Warp, threads: np.ndarray, start: int) -> None:
        """Report a descriptor that lanes of a warp copy and another lane changed, unordered."""
        for offsets, writers, size, changed_at in self.since.get(warp, ()):
            first = offsets.astype(np.int64)
            own = writers[(first < start + DESCRIPTOR) & (first + size > start)]
            if len(own) and len(np.setdiff1d(threads, own)):
                where = self.clocks.machine.program.instructions[changed_at].location
                message = (
                    f"warp {warp.warp} of CTA {warp.rank} copies a descriptor that lane {int(own[0]) % 32} changed"
                )
                message += f" at {where}, and no bar.warp.sync lies between them"
                return self.clocks.machine.report("race", message, at, f, warp=warp.warp)
        return None


def _stores(parts: tuple[str, ...]) -> bool:
    """Return whether an instruction copies shared memory to global memory."""
    return parts[0] == "cp" and "shared::cta" in parts and "global" in parts and "bulk" in parts
