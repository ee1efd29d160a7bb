"""Global memory of CTAs that run in step: whether their order could matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.counting import count_nonzero
from ..core.observer import Observer
from .access_history import AccessHistory, Bytes, Lanes
from .stored import Stored

if TYPE_CHECKING:
    from ..core.barriers import NamedBarrier
    from ..core.cta import CTA
    from ..core.protocols import Machine
    from ..core.warp import Fragment
    from ..memory.global_memory import Access, Allocation


class Dependent(Exception):
    """The order of CTAs, or a finding, may matter."""


class _Span(NamedTuple):
    """Bytes low to high of an allocation."""

    low: int
    high: int

    def overlaps(self, other: _Span) -> bool:
        return self.low < other.high and other.low < self.high

    def joined(self, other: _Span) -> _Span:
        return _Span(min(self.low, other.low), max(self.high, other.high))


class SharedPhases:
    """Per word of shared memory the last writer and reader: warp and phase between barriers.

    In one phase no two warps may access a word that one of them writes, except to write equal values at once.
    Unwritten words may not be read.
    """

    SEVERAL = -2

    def __init__(self, size: int) -> None:
        count = -(-size // 4) + 4
        self.writer, self.written = np.full(count, -1, np.int32), np.zeros(count, np.int32)
        self.reader, self.read = np.full(count, -1, np.int32), np.full(count, -1, np.int32)

    def touch(self, words: np.ndarray, warps: np.ndarray, phases: np.ndarray, write: bool) -> bool:
        """Record an access; return whether several warps write one word."""
        several = False
        writer, reader = self.writer[words], self.reader[words]
        wrong = (writer >= 0) & (writer != warps) & (self.written[words] == phases)
        again = (reader != warps) & (self.read[words] == phases)
        if write:
            wrong |= again
            self.writer[words], self.written[words] = warps, phases
            several = bool(count_nonzero(self.writer[words] != warps))
        else:
            wrong |= writer < 0
            self.reader[words], self.read[words] = np.where(again, self.SEVERAL, warps), phases
            shared = again | (self.reader[words] != warps)
            self.reader[words[shared]] = self.SEVERAL
        if count_nonzero(wrong):
            raise Dependent
        return several


_NOWHERE = _Span(1 << 62, 0)


class Independence(Observer):
    """Accesses of all CTAs of a launch.

    `history` is what the next launch is checked against. No two warps may write one word,
    except equal values at once. Reads and writes may not
    overlap, even of one thread. Raises Dependent otherwise.
    """

    def __init__(self, machine: Machine, history: AccessHistory | None) -> None:
        self.machine = machine
        self.history = history
        self.before = None if history is None else history.before
        self.spans: dict[tuple[Allocation, bool], _Span] = {}  # (allocation, write)
        self.stored: dict[Allocation, Stored] = {}  # its `last` holds warps, counted from 1 across the grid
        self.overwritten: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # words, indices, content
        self.first_access: dict[tuple[Allocation, bool], int] = {}  # the first CTA that accessed it
        self.begin(0, 0, 0)

    def begin(self, first: int, warps: int, shared: int) -> None:
        """Handle the start of CTAs, with so many warps and bytes of shared memory."""
        self.numbers = np.arange(first + 1, first + warps + 1, dtype=np.int32).repeat(32)
        self.waited = np.zeros(warps, bool)
        self.phases = np.zeros(warps, np.int32)  # barriers that each warp has passed
        self.shared = SharedPhases(shared)

    def barrier_arrived(self, f: Fragment, barrier: NamedBarrier, at: int) -> None:
        self.phases[f.warps()] += 1

    def shared_access(
        self, target: CTA, f: Fragment, offsets: np.ndarray, lanes: np.ndarray | None, access: Access
    ) -> None:
        words = (offsets >> np.uint64(2)).astype(np.int64)[:, None] + np.arange(max(access.size // 4, 1))
        warps = (np.arange(f.n) if lanes is None else lanes) // 32
        each = np.broadcast_to(warps[:, None], words.shape)
        self.doubtful = self.shared.touch(words, each, self.phases[each], access.write)

    def dependency_waited(self, f: Fragment) -> None:
        self.waited[f.warps()] = True

    def global_access(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        span = _Span(int(offsets.min()), int(offsets.max()) + access.size)
        if span.overlaps(self.spans.get((allocation, not access.write), _NOWHERE)):
            raise Dependent
        key = allocation, access.write
        self.spans[key] = self.spans.get(key, span).joined(span)
        where = Lanes(offsets, access.size)
        if self.before is not None and not self.waited[f.warps()].all():
            self.before.check_against(f, allocation, where, access, self.machine)
        if access.write:
            self._write(f, allocation, offsets, access)
        if self.history is not None:
            self._record(f, self.history, allocation, where, access)

    def _write(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        numbers = self.numbers if f.mask is None else self.numbers[f.mask]
        if len(numbers) != len(offsets):  # lanes in several allocations
            raise Dependent
        stored = self.stored.get(allocation)
        if stored is None:
            stored = self.stored[allocation] = Stored(allocation, access.size)
        units = stored.units(offsets, access.size)
        if units.ndim > 1:
            numbers = np.broadcast_to(numbers[:, None], units.shape)
        last = stored.last[units]
        stored.last[units] = numbers
        if count_nonzero((last != 0) & (last != numbers)):
            raise Dependent
        final, warps = stored.last[units], f.cta.launch.warps
        if count_nonzero(final != numbers):
            if count_nonzero((final - 1) // warps != (numbers - 1) // warps):
                raise Dependent
            self.doubtful = True  # warps of one CTA may write equal values
        words = allocation.words[access.item]
        index = (offsets // np.uint64(access.item)).astype(np.int64)[:, None] + np.arange(access.count)
        self.overwritten.append((words, index, words[index]))

    def _record(
        self, f: Fragment, history: AccessHistory, allocation: Allocation, where: Lanes, access: Access
    ) -> None:
        """Add an access as if by one cluster; messages name the first CTA's."""
        own_bytes = history.touched.get(allocation)
        if own_bytes is None:
            own_bytes = history.touched[allocation] = Bytes(allocation.extent)
        if access.write:
            if own_bytes.writer is None:
                own_bytes.writer = np.zeros(own_bytes.size, np.uint8)
            where.put(own_bytes.writer, 1)
        else:
            own_bytes.list_read(1, where)
        warp = int(self.numbers[f.lanes()[0]])
        cta = (warp - 1) // f.cta.launch.warps
        if cta <= self.first_access.setdefault((allocation, access.write), cta):
            self.first_access[allocation, access.write] = cta
            own_bytes.last_at[1, access.write] = access.at

    def global_written(self, agree: bool) -> None:
        self.doubtful = False
        if not agree:
            raise Dependent

    def shared_written(self, target: CTA, agree: bool) -> None:
        self.global_written(agree)

    def undo(self) -> None:
        """Undo all stores, the latest first."""
        for words, index, content in reversed(self.overwritten):
            words[index] = content
