"""The shadows of shared and tensor memory: per word its last writer and its readers.

Words are four bytes, narrower accesses noted by byte; tensor memory is watched in cells of 16 lanes by one column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..cta import CTA
    from ..warp import Fragment
    from .clocks import Clocks

Index = np.ndarray | slice
WHOLE, ATOMIC = 15, 16  # the bytes of a word, and the mark of an atomic beside them
COLUMNS, CELL_LANES = 512, 16


@dataclass(slots=True, eq=False)
class Event:
    """A read or a write: by which actor, at which of its epochs, covering what (`known`), at which instruction.

    `proxied` is the async-proxy clock of a read through that proxy. `part` says which bytes of each word. `own` is an
    actor whose reads this write may follow. Two atomics are no race with each other. A write that is told of
    before it is made has the actors `beside` it that the same access was told of for: several warps may write the same
    values where they do the same work, which is no race, and is settled once the write has been made.
    """

    actor: int
    epoch: int
    known: np.ndarray
    at: int
    fragment: Fragment | None
    proxied: np.ndarray | None = None
    part: np.ndarray | int = WHOLE
    own: int = -1
    atomic: bool = False
    beside: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False)
class Doubt:
    """Words that the same instruction has written for others, unordered; a race if this write changes one of them.

    `before` is what they held, `within` says which of them the same access writes for another warp, too.
    """

    words: np.ndarray
    before: np.ndarray
    within: np.ndarray
    others: list[str]  # what was done to each, by whom
    event: Event


class Words:
    """Last writer and readers of every word of a memory."""

    may_be_unwritten = True  # whether a read of what nobody wrote is looked at elsewhere, or is no fault

    def __init__(self, clocks: Clocks, cta: CTA, count: int) -> None:
        self.clocks, self.cta, self.checks = clocks, cta, clocks.machine.checks
        self.writer = np.zeros(count, np.int16)
        self.epoch = np.zeros(count, np.int64)
        self.at = np.full(count, -1, np.int32)  # instruction of the last write
        self.how = np.zeros(count, np.uint8)  # of the last write: its bytes, whether by an atomic
        self.doubts: list[Doubt] = []
        self.readers: dict[int, np.ndarray] = {}
        self.read_bytes: dict[int, np.ndarray] = {}  # of readers that have read less than whole words
        self.read_at: dict[int, int] = {}

    def place(self, index: int) -> str:
        raise NotImplementedError

    def deed(self, index: int) -> str:
        """What the last writer of a word did."""
        return "write"

    def touch(self, index: Index, event: Event, write: bool) -> None:
        if write:
            self.write(index, event)
        else:
            self.read(index, event)

    def read(self, index: Index, event: Event) -> None:
        writer = self.writer[index]
        if not self.may_be_unwritten and "uninitialised" in self.checks:
            self._check_written(index, event, writer)
        if "race" in self.checks:
            if not self._after_writer(index, event, writer, "reads") and event.proxied is not None:
                self._check_fenced(index, event, writer, event.proxied)
            self._note_read(index, event)

    def write(self, index: Index, event: Event) -> None:
        if "race" in self.checks:
            self._after_writer(index, event, self.writer[index], "writes")
            self._after_readers(index, event, "writes")
        if event.part is WHOLE:
            how: np.ndarray | int = WHOLE
        else:  # bytes that the same actor has written one after another add up
            how = np.where(self.writer[index] == event.actor, self.how[index] & WHOLE, 0) | event.part
        self.how[index] = how | (ATOMIC if event.atomic else 0)
        self.writer[index], self.epoch[index], self.at[index] = event.actor, event.epoch, event.at

    def _check_written(self, index: Index, event: Event, writer: np.ndarray) -> None:
        nobody = writer == 0
        if np.count_nonzero(nobody):
            where, who = self.place(_first(index, nobody)), self.clocks.names[event.actor]
            self._report("uninitialised", f"{who} reads {where}, which nobody wrote", event)

    def _after_writer(self, index: Index, event: Event, writer: np.ndarray, verb: str) -> bool:
        """Report a race with the last writer; whether there is one."""
        bad = (self.epoch[index] > event.known[writer]) & (writer != event.actor)
        if np.count_nonzero(bad):
            bad &= (self.how[index] & event.part) != 0
            if event.atomic:
                bad &= self.how[index] & ATOMIC == 0
        if np.count_nonzero(bad) and event.beside is not None:
            bad = self._sure(index, bad, event)
        if not np.count_nonzero(bad):
            return False
        n = _first(index, bad)
        self._race(n, verb, f"{self.deed(n)} by {self.clocks.names[self.writer[n]]}", int(self.at[n]), event)
        return True

    def _sure(self, index: Index, bad: np.ndarray, event: Event, what: str | None = None) -> np.ndarray:
        """Those of the bad words that are a race whatever is written; of the others a doubt is kept."""
        again = bad & (self.at[index] == event.at)
        if np.count_nonzero(again):
            words = np.arange(len(self.at))[index][again]
            within = np.isin(self.writer[words], event.beside or ())
            others = [what or f"{self.deed(n)} by {self.clocks.names[self.writer[n]]}" for n in words.tolist()]
            self.doubts.append(Doubt(words, self.content()[words].copy(), within, others, event))
            self.clocks.doubtful = True
        return bad & ~again

    def content(self) -> np.ndarray:
        """What the words hold."""
        raise NotImplementedError

    def settle(self, agree: bool) -> None:
        """The write has been made; `agree` says that every lane finds there what it wrote."""
        doubts, self.doubts = self.doubts, []
        for doubt in doubts:
            changed = np.where(doubt.within, not agree, self.content()[doubt.words] != doubt.before)
            if changed.any():
                n = int(changed.argmax())
                self._race(int(doubt.words[n]), "writes", doubt.others[n], doubt.event.at, doubt.event)

    def _check_fenced(self, index: Index, event: Event, writer: np.ndarray, proxied: np.ndarray) -> None:
        """Ordinary writes have to be made visible to the async proxy before it reads them."""
        bad = (self.epoch[index] > proxied[writer]) & self.clocks.generic[writer]
        if np.count_nonzero(bad):
            n = _first(index, bad)
            why = ": no fence.proxy.async lies between them"
            self._race(n, "reads", f"write by {self.clocks.names[self.writer[n]]}", int(self.at[n]), event, why)

    def _after_readers(self, index: Index, event: Event, verb: str) -> None:
        for reader, rows in self.readers.items():
            if reader in (event.actor, event.own):
                continue
            bad = rows[index] > event.known[reader]
            if np.count_nonzero(bad) and reader in self.read_bytes:
                bad &= (self.read_bytes[reader][index] & event.part) != 0
            what = f"read by {self.clocks.names[reader]}"
            if np.count_nonzero(bad) and event.beside is not None:
                bad = self._sure(index, bad, event, what)
            if np.count_nonzero(bad):
                self._race(_first(index, bad), verb, what, self.read_at[reader], event)

    def _note_read(self, index: Index, event: Event) -> None:
        actor = event.actor
        rows = self.readers.get(actor)
        if rows is None:
            rows = self.readers[actor] = np.zeros(len(self.writer), np.int64)
        if event.part is not WHOLE or actor in self.read_bytes:
            masks = self.read_bytes.setdefault(actor, np.full(len(self.writer), WHOLE, np.uint8))
            masks[index] = np.where(rows[index] == event.epoch, masks[index], 0) | event.part
        rows[index] = event.epoch
        self.read_at[actor] = event.at

    def _race(self, index: int, verb: str, other: str, at: int, event: Event, why: str = "") -> None:
        where = "" if at < 0 else f" at {self.clocks.machine.program.instructions[at].place}"
        who = self.clocks.names[event.actor]
        message = f"{who} {verb} {self.place(index)}, and nothing orders that after the {other}{where}{why}"
        self._report("race", message, event)

    def _report(self, kind: str, message: str, event: Event) -> None:
        self.clocks.machine.report(kind, message, event.at, event.fragment)


class SharedWords(Words):
    """The shared memory of a CTA."""

    may_be_unwritten = False

    def __init__(self, clocks: Clocks, cta: CTA) -> None:
        super().__init__(clocks, cta, -(-cta.shared_bytes // 4) + 8)

    def content(self) -> np.ndarray:
        return self.cta.words[4]

    def place(self, index: int) -> str:
        return f"shared offset {4 * index} of CTA {self.cta.rank}"

    def forget(self, offset: int, size: int) -> None:
        """Bytes that hold no data any more."""
        words = slice(offset // 4, (offset + size) // 4)
        self.writer[words] = self.epoch[words] = 0


class TensorWords(Words):
    """The tensor memory of a CTA."""

    def __init__(self, clocks: Clocks, cta: CTA) -> None:
        super().__init__(clocks, cta, 128 // CELL_LANES * COLUMNS)

    def place(self, index: int) -> str:
        lane = index // COLUMNS * CELL_LANES
        lanes = f"lanes {lane} to {lane + CELL_LANES - 1}"
        return f"tensor-memory column {index % COLUMNS} ({lanes}) of CTA {self.cta.rank}"

    def deed(self, index: int) -> str:
        at = int(self.at[index])
        freed = at >= 0 and self.clocks.machine.program.instructions[at].parts[1] == "dealloc"
        return "tcgen05.dealloc" if freed else "write"

    def free(self, first: int, end: int, event: Event) -> None:
        """Columns are given back: a write of all their cells that comes after everything done to them."""
        if "race" not in self.checks:
            return
        index = _columns(first, end)
        self._after_writer(index, event, self.writer[index], "frees")
        self._after_readers(index, event, "frees")
        self.how[index] = WHOLE
        self.writer[index], self.epoch[index], self.at[index] = event.actor, event.epoch, event.at

    def forget(self, first: int, end: int) -> None:
        """Columns begin a new life."""
        index = _columns(first, end)
        self.writer[index] = self.epoch[index] = 0
        for rows in self.readers.values():
            rows[index] = 0


def _columns(first: int, end: int) -> np.ndarray:
    """All cells of columns first..end."""
    return (np.arange(128 // CELL_LANES)[:, None] * COLUMNS + np.arange(first, end)[None, :]).ravel()


def cells(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    """The watched cells of tensor memory that rows and columns touch."""
    blocks = _distinct(np.asarray(rows) // CELL_LANES)
    return (blocks[:, None] * COLUMNS + _distinct(cols)[None, :]).ravel()


def _distinct(numbers: np.ndarray) -> np.ndarray:
    """The different ones among small numbers, in order; np.unique takes three times as long."""
    return np.flatnonzero(np.bincount(np.asarray(numbers).ravel()))


def words_and_bytes(offsets: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(words, bytes of each) that accesses of one or two bytes touch."""
    words, which = np.unique((offsets >> np.uint64(2)).astype(np.int64), return_inverse=True)
    part = np.zeros(len(words), np.uint8)
    np.bitwise_or.at(part, which, ((1 << size) - 1 << (offsets & np.uint64(3)).astype(np.int64)).astype(np.uint8))
    return words, part


def _first(index: Index, bad: np.ndarray) -> int:
    """The first of the indexed words that is bad."""
    if isinstance(index, slice):
        return int(index.start) + int(bad.argmax())
    return int(np.asarray(index)[bad].flat[0])
