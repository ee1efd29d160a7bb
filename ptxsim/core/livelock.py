"""Livelock: threads that loop forever at one block with unchanged registers and memory.

A fragment that returns to a block with the same registers will loop, if nothing in the cluster changed meanwhile. Only
another thread or asynchronous work can end that. If every runnable fragment loops and no work is in flight, none ever
ends. A loop that counts or reads a clock is not detected: its registers change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..memory.global_memory import Access, Allocation
from .observer import Observer
from .warp import RUNNING, Fragment

if TYPE_CHECKING:
    from collections.abc import Collection

    from .cta import CTA

_LONGEST = 512  # most blocks of a loop that are rerun to find its read


@dataclass(slots=True)
class _Mark:
    """A fragment's position and state, and for how many of its steps it is compared."""

    position: tuple[int, int, int, int]
    mask: np.ndarray | None
    state: list[np.ndarray]
    span: int
    age: int = 0


class LoopDetector:
    """Finds fragments that loop in a cluster whose state does not change."""

    def __init__(self) -> None:
        self._marks: dict[Fragment, _Mark] = {}
        self._looping: set[Fragment] = set()

    def forget(self) -> None:
        """Discard all marks, after a change of state."""
        if self._marks:
            self._marks.clear()
            self._looping.clear()

    def note(self, f: Fragment) -> bool:
        """Record that a fragment runs next; return True when it first loops.

        Marks are renewed after twice as many steps each time (Brent's cycle detection). So neither the length of a
        loop nor its start matters.
        """
        if f in self._looping:
            return False
        mark = self._marks.get(f)
        if mark is not None and mark.position == _position(f) and _is_unchanged(mark, f):
            self._looping.add(f)
            return True
        if mark is None or mark.age >= mark.span:
            span = 1 if mark is None else 2 * mark.span
            self._marks[f] = _Mark(_position(f), f.mask, [part.copy() for part in _state(f)], span)
        else:
            mark.age += 1
        return False

    def alternative(self, f: Fragment) -> Fragment:
        """Return other lanes of a looping fragment's warps, else the fragment.

        They run although they stand behind it, since they may hold the lock that it polls.
        """
        if f.family is None or f not in self._looping:
            return f
        others = (other for other in f.family if other.state is RUNNING and other not in self._looping)
        return min(others, key=lambda other: other.pc, default=f)

    def all_of(self, fragments: Collection[Fragment]) -> bool:
        """Return whether each of these fragments loops."""
        return len(self._looping) >= len(fragments) and self._looping.issuperset(fragments)


def _position(f: Fragment) -> tuple[int, int, int, int]:
    """Return block, lanes and clock reads; a loop that reads a clock may end."""
    return f.pc, f.lo, f.hi, f.machine.ticks


def _state(f: Fragment) -> list[np.ndarray]:
    """Return the registers and carry flags of a fragment's threads."""
    return [*(array[:, f.lo : f.hi] for array in f.cta.registers.arrays.values()), f.cta.carry[f.lo : f.hi]]


def _is_unchanged(mark: _Mark, f: Fragment) -> bool:
    if mark.mask is None or f.mask is None:
        equal = mark.mask is f.mask
    else:
        equal = np.array_equal(mark.mask, f.mask)
    return equal and all(map(np.array_equal, mark.state, _state(f)))


class Read(Observer):
    """An iteration's last memory read, preferably acquiring, volatile or atomic, described."""

    def __init__(self) -> None:
        self.at, self.what = -1, ""
        self._ordered = False

    def global_access(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        first = int(offsets[0])
        where = f.machine.memory.location(allocation.start + first, access.size)
        self._note(access, str(where), allocation.words[1][first : first + access.size])

    def shared_access(
        self, cta: CTA, f: Fragment, offsets: np.ndarray, lanes: np.ndarray | None, access: Access
    ) -> None:
        first = int(offsets[0])
        self._note(access, f"shared memory of CTA {cta.rank}, byte {first}", cta.shared[first : first + access.size])

    def _note(self, access: Access, where: str, content: np.ndarray) -> None:
        if (access.write and not access.atomic) or (self._ordered and not access.ordered):
            return
        self.at, self._ordered = access.at, access.ordered
        value = int.from_bytes(content[: access.item].tobytes(), "little")
        self.what = f"{access.size} bytes of {where}, which hold {value:#x}"


def read_by(f: Fragment) -> Read:
    """Run one more iteration, unchecked, at a run's end; return what it reads."""
    cluster = f.cta.cluster
    read, before, begin = Read(), cluster.observer, f.pc
    cluster.observer = read
    for _ in range(_LONGEST):
        if f.state is not RUNNING or (f.family is not None and not f.reconverge()):
            break
        block = cluster.program.blocks[f.pc]
        if block.collective and not f.whole():
            break
        following = cluster.program.compile(block, masked=f.mask is not None)(f)
        if following < 0:
            break
        f.pc = following
        if f.pc == begin:
            break
    cluster.observer = before
    return read
