"""Global memory: who has read and written which bytes, and accesses that nothing orders.

Clusters run one after another here, on a card in any order and at once: what two of them do to the same bytes, one of
them writing, is a race unless one has learnt of the other by atomics or acquire and release on a third word. Such a
write tells of all that its cluster did before, and not of what it does after; one that is relaxed does not tell of what
its warp has stored since its last fence of the device. Such a read lets the cluster know for all that follows. A launch
that may begin early (programmatic dependent launch) races with the launch before it until griddepcontrol.wait. Bytes
are noted by number, modulo 254: a cluster has one, and another for what it writes after it has told of what it had
written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.counting import count_nonzero
from ..memory.global_memory import Access, Allocation, Part

if TYPE_CHECKING:
    from ..core.protocols import Machine
    from ..core.warp import Fragment

NUMBERS, SEVERAL = 254, 255
LONGEST = 8192  # reads of an allocation that are kept as they are before they are put into a map


class Lanes:
    """The words of `size` bytes that lanes reach at byte offsets, multiples of their size."""

    __slots__ = ("offsets", "rows", "size", "width")

    def __init__(self, offsets: np.ndarray, size: int) -> None:
        self.offsets, self.size, self.width = offsets, size, min(size, 16)
        self.rows: np.ndarray | None = None  # numbers of words of `width` bytes, when they are asked for

    def _rows(self) -> np.ndarray:
        if self.rows is None:
            rows = (self.offsets >> np.uint64(self.width.bit_length() - 1)).view(np.int64)
            self.rows = rows if self.size <= 16 else (rows[:, None] + np.arange(self.size // 16)).ravel()
        return self.rows

    def of(self, bytes_: np.ndarray) -> np.ndarray:
        return bytes_.reshape(-1, self.width)[self._rows()]

    def put(self, bytes_: np.ndarray, value: int | np.ndarray) -> None:
        bytes_.reshape(-1, self.width)[self._rows()] = value


Selection = Lanes | Part


class Copy(NamedTuple):
    """A copy's access of global memory: its instruction, whether it writes, and whether others may at the same time."""

    at: int
    write: bool
    ordered: bool


@dataclass(slots=True, eq=False)
class Bytes:
    """What a launch has done to an allocation: maps of the last writer and reader, made when something is written."""

    size: int
    writer: np.ndarray | None = None
    reader: np.ndarray | None = None
    atomic: np.ndarray | None = None
    # reads that are only listed: (number, bytes of each) → offsets of each access; and (number, box) of copies
    offsets: dict[tuple[int, int], list[np.ndarray]] = field(default_factory=dict)
    boxes: dict[tuple[int, Part], None] = field(default_factory=dict)
    listed: int = 0
    places: dict[tuple[int, bool], int] = field(default_factory=dict)  # (number, write) → the last instruction

    def list_read(self, number: int, where: Selection) -> None:
        """Note a read, to be put into the map when somebody asks for it."""
        if isinstance(where, Part):
            self.boxes[number, where] = None
        else:
            self.offsets.setdefault((number, where.size), []).append(where.offsets)
            self.listed += 1
        if self.listed + len(self.boxes) > LONGEST:
            self.readers()

    def readers(self) -> np.ndarray:
        """The map of readers, with the reads put in that were only listed."""
        if self.reader is None:
            self.reader = np.zeros(self.size, np.uint8)
        for (number, size), offsets in self.offsets.items():
            self._put_reader(number, Lanes(np.concatenate(offsets), size))
        for number, box in self.boxes:
            self._put_reader(number, box)
        self.offsets.clear()
        self.boxes.clear()
        self.listed = 0
        return self.reader

    def _put_reader(self, number: int, where: Selection) -> None:
        assert self.reader is not None
        before = where.of(self.reader)
        where.put(self.reader, np.where((before == 0) | (before == number), number, SEVERAL).astype(np.uint8))


class AccessHistory:
    """What one launch has done to global memory. `before` is the history of the launch that may still run beside it."""

    def __init__(self, machine: Machine, before: AccessHistory | None) -> None:
        self.machine, self.before = machine, before
        self.touched: dict[Allocation, Bytes] = {}
        self.last = 0  # number that was given
        self.cluster = self.number = 0  # number of the cluster that runs, and of what it writes now
        self.own: set[int] = set()  # all its numbers
        self.known: set[int] = set()  # and those of others whose work it has learnt of
        self.untold = False  # whether it has written anything since it told of that last
        self.begins_anew = False  # whether what it writes next gets another number
        self.words: dict[tuple[int, int], set[int]] = {}  # address of an ordered word → the clusters it tells of

    def begin_cluster(self) -> None:
        self.cluster = self._new_number()
        self.own, self.known = {self.number}, {self.number}
        self.untold = self.begins_anew = False

    def _new_number(self) -> int:
        self.last = self.number = self.last % NUMBERS + 1
        return self.number

    def order(self, addresses: Iterable[tuple[int, int]], write: bool, read: bool, released: bool) -> None:
        """An ordered access of words, each an allocation's address and an offset."""
        for word in addresses:
            there = self.words.setdefault(word, set())
            if read:
                self.known |= there
            if write:
                there |= self.known if released or not self.untold else self.known - {self.number}
        if write and released and self.untold:
            self.untold, self.begins_anew = False, True

    def touch(
        self,
        f: Fragment | None,
        allocation: Allocation,
        where: Selection,
        access: Access | Copy,
        waited: bool,
    ) -> None:
        """Note an access and report what it races with; `waited` says that the launch before is over for it."""
        if self.before is not None and not waited:
            self.before.against(f, allocation, where, access, self.machine)
        if self.begins_anew and access.write and not access.ordered:
            self.begins_anew = False
            self.own.add(self._new_number())
            self.known.add(self.number)
        mine = self.touched.get(allocation)
        if mine is None:
            mine = self.touched[allocation] = Bytes(allocation.extent)
        mine.places[self.number if access.write else self.cluster, access.write] = access.at
        if mine.writer is not None:
            self._with_writers(f, allocation, mine, where, access)
        if access.write:
            self._write(f, allocation, mine, where, access)
        else:
            mine.list_read(self.cluster, where)

    def _with_writers(
        self, f: Fragment | None, allocation: Allocation, mine: Bytes, where: Selection, access: Access | Copy
    ) -> None:
        assert mine.writer is not None
        writers = where.of(mine.writer)
        others = (writers != 0) & (writers != self.number)
        if access.ordered and mine.atomic is not None:
            others &= where.of(mine.atomic) == 0
        if count_nonzero(others):
            self._report(f, allocation, mine, writers[others], access, True)

    def _write(
        self, f: Fragment | None, allocation: Allocation, mine: Bytes, where: Selection, access: Access | Copy
    ) -> None:
        if mine.writer is None:
            mine.writer = np.zeros(mine.size, np.uint8)
        if mine.offsets or mine.boxes or mine.reader is not None:
            readers = where.of(mine.readers())
            others = (readers != 0) & (readers != self.cluster)
            if count_nonzero(others):
                self._report(f, allocation, mine, readers[others], access, False)
        where.put(mine.writer, self.number)
        self.untold = self.untold or not access.ordered
        if access.ordered and mine.atomic is None:
            mine.atomic = np.zeros(mine.size, np.uint8)
        if mine.atomic is not None:
            where.put(mine.atomic, int(access.ordered))

    def _report(
        self,
        f: Fragment | None,
        allocation: Allocation,
        mine: Bytes,
        who: np.ndarray,
        access: Access | Copy,
        written: bool,
    ) -> None:
        """A race with other clusters of this launch, unless this one has learnt of them."""
        strangers = [int(x) for x in np.unique(who) if int(x) not in self.known]
        if not strangers or (strangers == [SEVERAL] and self.known != self.own):
            return
        at = mine.places.get((strangers[0], written), -1)
        if at < 0:
            at = next((place for (_, write), place in mine.places.items() if write == written), -1)
        where = f" at {self.machine.program.instructions[at].place}" if at >= 0 else ""
        verb, other = "writes" if access.write else "reads", "write" if written else "read"
        message = f"a cluster {verb} {allocation.name}, and nothing orders that after another cluster's {other}{where}"
        self.machine.report("race", message, access.at, f)

    def against(
        self, f: Fragment | None, allocation: Allocation, where: Selection, access: Access | Copy, machine: Machine
    ) -> None:
        """Report an access of the next launch that this one may still be at odds with."""
        mine = self.touched.get(allocation)
        if mine is None:
            return
        written = mine.writer is not None and bool(where.of(mine.writer).any())
        read = access.write and not written and bool(where.of(mine.readers()).any())
        if written or read:
            verb, other = "writes" if access.write else "reads", "writes" if written else "reads"
            at = next((place for (_, write), place in mine.places.items() if write == written), -1)
            place = f" at {self.machine.program.instructions[at].place}" if at >= 0 else ""
            message = (
                f"a launch that may begin early {verb} {allocation.name}, which the launch before "
                f"({self.machine.launch.name[:40]}) {other}{place}, and no griddepcontrol.wait comes before that"
            )
            machine.report("race", message, access.at, f)
