"""The shadow of a memory: last writer and readers of each word.

Words have four bytes; narrower accesses are recorded by byte. Most accesses touch words that one earlier, ordered
access wrote: one comparison settles these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..core.counting import count_nonzero, flatnonzero
from .vector_clock import CAPACITY, Actors

if TYPE_CHECKING:
    from ..core.cta import CTA
    from ..core.warp import Fragment

Index = np.ndarray | slice
WHOLE, ATOMIC = 15, 16  # byte mask of a word, and the flag for atomics
READ_AT, READ_EPOCH = (1 << 20) - 1, 20  # low bits of a word's last read by an actor: the instruction
ACTOR, EPOCH = CAPACITY - 1, CAPACITY.bit_length() - 1  # low bits of a word's last write: the writer


@dataclass(slots=True, eq=False)
class Event:
    """A read or write: its actor, epoch, vector clock (`known`) and instruction.

    `proxied` is the async-proxy clock of an access through that proxy, where proxy fences are checked.
    `part` is a mask of the bytes of each word.
    `own` is an actor whose reads this write may follow. Two atomics do not race.
    A write that is reported before it is made lists in `co_writers` the actors of the same access already reported.
    Several warps may write equal values for the same work; that is settled once the write is made.
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
    co_writers: tuple[int, ...] | None = None


@dataclass(slots=True, eq=False)
class Doubt:
    """Words that the same instruction wrote before, unordered: a race if this write changes one.

    `before` is their previous content. `within` marks those that the same access also writes for another warp.
    """

    words: np.ndarray
    before: np.ndarray
    within: np.ndarray
    writers: np.ndarray  # of each, before this write
    what: str | None  # the other access, if it is not a write
    at: np.ndarray  # its instruction, for each word
    event: Event


class Words:
    """Last writer and readers of every word of a memory."""

    may_be_unwritten = True  # reads of unwritten words are allowed, or checked elsewhere

    def __init__(self, clocks: Actors, cta: CTA, count: int) -> None:
        self.clocks, self.cta, self.checks = clocks, cta, clocks.machine.checks
        self.last = np.zeros(count, np.int64)  # last write: epoch, with the writer in the low bits
        self.at = np.full(count, -1, np.int32)  # instruction of the last write
        self.how = np.zeros(count, np.uint8)  # last write: byte mask and ATOMIC
        self.doubts: list[Doubt] = []
        self.readers: dict[int, np.ndarray] = {}  # reader → last read of each word: epoch, and the instruction
        self.read_bytes: dict[int, np.ndarray] = {}  # of readers of partial words
        self.latest: dict[int, int] = {}  # reader → the last epoch of its reads
        self.span: dict[int, tuple[int, int]] = {}  # reader → the first and the last word that it has read
        self.read_since = np.zeros(count, bool)  # read since the last write that was ordered after all earlier reads

    def writers(self, index: Index) -> np.ndarray:
        """Return the last writer of each indexed word; 0 if unwritten."""
        return self.last[index] & ACTOR

    def epochs(self, index: Index) -> np.ndarray:
        """Return the epoch of the last write of each indexed word."""
        return self.last[index] >> EPOCH

    def location(self, index: int) -> str:
        raise NotImplementedError

    def access_kind(self, index: int) -> str:
        """Return the kind of the last write of a word, for a message."""
        return "write"

    def in_flight(self, index: int) -> str:
        """Return the queued work that will write a word, as the end of a sentence."""
        return ""

    def touch(self, index: Index, event: Event, write: bool) -> None:
        if write:
            self.write(index, event)
        else:
            self.read(index, event)

    def read(self, index: Index, event: Event) -> None:
        last = self.last[index]
        if not len(last):
            return
        if not self._in_order(last, event) or (int(last[0]) == 0 and not self.may_be_unwritten):
            writer = last & ACTOR
            if not self.may_be_unwritten and "uninitialised" in self.checks:
                self._check_written(index, event, writer)
            if "race" in self.checks and not self._after_writer(index, event, last, "reads"):
                self._check_fenced(index, event, last)
        if "race" in self.checks:
            self._note_read(index, event)

    def write(self, index: Index, event: Event) -> None:
        last = self.last[index]
        if not len(last):
            return
        if "race" in self.checks:
            raced = not self._in_order(last, event) and self._after_writer(index, event, last, "writes")
            if count_nonzero(self.read_since[index]):
                raced = self._after_readers(index, event, "writes") or raced
                # accesses ordered after this write are ordered after those reads
                if not (raced or event.atomic or event.own >= 0) and event.co_writers is None and event.part is WHOLE:
                    self.read_since[index] = False
        if event.part is WHOLE:
            how: np.ndarray | int = WHOLE
        else:  # consecutive writes by one actor accumulate
            how = np.where(last & ACTOR == event.actor, self.how[index] & WHOLE, 0) | event.part
        self._note_write(index, event, how | (ATOMIC if event.atomic else 0))

    def _note_write(self, index: Index, event: Event, how: np.ndarray | int) -> None:
        """Record a write; `how` is its byte mask, with ATOMIC set for atomics."""
        self.how[index] = how
        self.last[index], self.at[index] = event.epoch << EPOCH | event.actor, event.at

    def _in_order(self, last: np.ndarray, event: Event) -> bool:
        """Return whether one earlier access, ordered and visible to its proxy, wrote all words."""
        one = int(last[0])
        if count_nonzero(last != one):
            return False
        writer, epoch = one & ACTOR, one >> EPOCH
        if writer != event.actor and epoch > event.known[writer]:
            return False
        return event.proxied is None or epoch <= event.proxied[writer] or not self.clocks.generic[writer]

    def _check_written(self, index: Index, event: Event, writer: np.ndarray) -> None:
        unwritten = writer == 0
        if count_nonzero(unwritten):
            n, actor_name = _first(index, unwritten), self.clocks.names[event.actor]
            message = f"{actor_name} reads {self.location(n)}, which nobody wrote{self.in_flight(n)}"
            self._report("uninitialised", message, event)

    def _after_writer(self, index: Index, event: Event, last: np.ndarray, verb: str) -> bool:
        """Report a race with the last writer; return whether one exists."""
        writer = last & ACTOR
        bad = (last >> EPOCH > event.known[writer]) & (writer != event.actor)
        if count_nonzero(bad):
            bad &= (self.how[index] & event.part) != 0
            if event.atomic:
                bad &= self.how[index] & ATOMIC == 0
        if count_nonzero(bad) and event.co_writers is not None:
            bad = self._certain(index, bad, event)
        if not count_nonzero(bad):
            return False
        n = _first(index, bad)
        self._race(n, verb, self._last_access(n), int(self.at[n]), event)
        return True

    def _last_access(self, index: int) -> str:
        return f"{self.access_kind(index)} by {self.clocks.names[int(self.last[index]) & ACTOR]}"

    def _certain(
        self, index: Index, bad: np.ndarray, event: Event, what: str | None = None, reads: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the bad words that race whatever is written; defer the others as doubts.

        `reads` has the last read of each word of the memory, if the other access is `what`, a read.
        """
        repeated = bad & (self.at[index] == event.at)
        if count_nonzero(repeated):
            words = np.arange(len(self.at))[index][repeated]
            writers = self.writers(words)
            within = np.isin(writers, event.co_writers or ())
            at = self.at[words] if reads is None else reads[words] & READ_AT
            self.doubts.append(Doubt(words, self.content()[words].copy(), within, writers, what, at, event))
            self.clocks.doubtful = True
        return bad & ~repeated

    def content(self) -> np.ndarray:
        """Return the content of the words."""
        raise NotImplementedError

    def settle(self, agree: bool) -> None:
        """Resolve doubts after a write; `agree`: every lane finds what it wrote."""
        doubts, self.doubts = self.doubts, []
        for doubt in doubts:
            changed = np.where(doubt.within, not agree, self.content()[doubt.words] != doubt.before)
            if changed.any():
                n = int(changed.argmax())
                other = doubt.what or f"write by {self.clocks.names[int(doubt.writers[n])]}"
                self._race(int(doubt.words[n]), "writes", other, int(doubt.at[n]), doubt.event)

    def _check_fenced(self, index: Index, event: Event, last: np.ndarray) -> None:
        """Report ordinary writes that no proxy fence made visible to an async-proxy read."""
        if event.proxied is None:
            return
        writer = last & ACTOR
        bad = (last >> EPOCH > event.proxied[writer]) & self.clocks.generic[writer]
        if count_nonzero(bad):
            n = _first(index, bad)
            why = ": no fence.proxy.async lies between them"
            self._race(n, "reads", self._last_access(n), int(self.at[n]), event, why)

    def _after_readers(self, index: Index, event: Event, verb: str) -> bool:
        """Report races with reads; return whether one exists."""
        raced = False
        first, end = _span(index)
        for reader, rows in self.readers.items():
            known = covered = event.known[reader]
            if event.proxied is not None and self.clocks.generic[reader]:
                covered = event.proxied[reader]
            if reader in (event.actor, event.own) or self.latest[reader] <= covered:
                continue
            low, high = self.span[reader]
            if high < first or end < low:
                continue
            epochs = rows[index] >> READ_EPOCH
            bad = epochs > covered
            if count_nonzero(bad) and reader in self.read_bytes:
                bad &= (self.read_bytes[reader][index] & event.part) != 0
            what = f"read by {self.clocks.names[reader]}"
            if count_nonzero(bad) and event.co_writers is not None:
                bad = self._certain(index, bad, event, what, rows)
            if count_nonzero(bad):
                why = self.clocks.arrivals_awaited(self.cta, event.at) if event.fragment is None else ""
                if covered < known and not count_nonzero(epochs > known):
                    why = ": no fence.proxy.async lies between them"
                n = _first(index, bad)
                self._race(n, verb, what, int(rows[n]) & READ_AT, event, why)
                raced = True
        return raced

    def _note_read(self, index: Index, event: Event) -> None:
        actor = event.actor
        rows = self.readers.get(actor)
        if rows is None:
            rows = self.readers[actor] = np.zeros(len(self.last), np.int64)
        if event.part is not WHOLE or actor in self.read_bytes:
            masks = self.read_bytes.setdefault(actor, np.full(len(self.last), WHOLE, np.uint8))
            masks[index] = np.where(rows[index] >> READ_EPOCH == event.epoch, masks[index], 0) | event.part
        rows[index], self.read_since[index] = event.epoch << READ_EPOCH | event.at, True
        (first, end), (low, high) = _span(index), self.span.get(actor, (len(self.last), 0))
        self.span[actor] = min(first, low), max(end, high)
        self.latest[actor] = max(event.epoch, self.latest.get(actor, 0))

    def _race(self, index: int, verb: str, other: str, at: int, event: Event, why: str = "") -> None:
        where = "" if at < 0 else f" at {self.clocks.machine.program.instructions[at].location}"
        actor_name = self.clocks.names[event.actor]
        if not why and not self.clocks.generic[event.actor]:
            why = self.clocks.last_waits(event.at)
        message = f"{actor_name} {verb} {self.location(index)}, and nothing orders that after the {other}{where}{why}"
        self._report("race", message, event)

    def _report(self, kind: str, message: str, event: Event) -> None:
        warp = self.clocks.numbers.get(event.actor)
        self.clocks.machine.report(kind, message, event.at, event.fragment, warp=warp)


class SharedWords(Words):
    """The shared memory of a CTA."""

    may_be_unwritten = False

    def __init__(self, clocks: Actors, cta: CTA) -> None:
        super().__init__(clocks, cta, -(-cta.shared_bytes // 4) + 8)

    def content(self) -> np.ndarray:
        return self.cta.words[4]

    def location(self, index: int) -> str:
        return f"shared offset {4 * index} of CTA {self.cta.rank}"

    def in_flight(self, index: int) -> str:
        task = self.cta.cluster.pipes.bringing(self.cta, 4 * index)
        if task is None:
            return ""
        return f": the copy at {task.origin.location}, which brings it, has not been waited for"

    def pass_on(self, index: np.ndarray, at: int, writer: int, to: int, epoch: int) -> None:
        """Attribute what an instruction of a writer wrote last to another actor."""
        own = index[(self.last[index] & ACTOR == writer) & (self.at[index] == at)]
        self.last[own] = epoch << EPOCH | to

    def forget(self, offset: int, size: int) -> None:
        """Mark bytes as holding no data."""
        words = slice(offset // 4, (offset + size) // 4)
        self.last[words], self.read_since[words] = 0, True


def words_and_bytes(offsets: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (words, bytes of each) that accesses of one or two bytes touch."""
    all_words = (offsets >> np.uint64(2)).astype(np.int64)
    bits = ((1 << size) - 1 << (offsets & np.uint64(3)).astype(np.int64)).astype(np.uint8)
    low = int(all_words[all_words.argmin()])
    part = np.zeros(int(all_words[all_words.argmax()]) - low + 1, np.uint8)
    np.bitwise_or.at(part, all_words - low, bits)
    touched = flatnonzero(part)
    return touched + low, part[touched]


def _first(index: Index, bad: np.ndarray) -> int:
    """Return the first of the indexed words that is bad."""
    if isinstance(index, slice):
        return int(index.start) + int(bad.argmax())
    return int(np.asarray(index)[bad].flat[0])


def _span(index: Index) -> tuple[int, int]:
    """Return the first and the last of the indexed words."""
    if isinstance(index, slice):
        return int(index.start), int(index.stop) - 1
    return int(index[index.argmin()]), int(index[index.argmax()])
