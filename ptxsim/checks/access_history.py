"""Global memory: per byte the clusters that read and wrote it, and unordered accesses.

The simulator runs clusters one after another; a GPU runs them in any order and concurrently. Two clusters that access
the same bytes race if one writes, unless atomics or acquire and release on another word order them.
A releasing write publishes all that its cluster did before, not what it does after. A relaxed write leaves out
what its warp has stored since its last device-scope fence. An acquiring read covers all later accesses of its cluster.
A launch that may begin early (programmatic dependent launch) races with the launch before it until
griddepcontrol.wait. Bytes hold a cluster's number modulo 254. A cluster gets a new number for what it writes after
it has published.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.counting import count_nonzero, flatnonzero
from ..memory.global_memory import Access, Allocation, Part

if TYPE_CHECKING:
    from ..core.protocols import Machine
    from ..core.warp import Fragment

NUMBERS, SEVERAL = 254, 255
LONGEST = 8192  # pending reads of an allocation before they enter the reader map


class Lanes:
    """The words of `size` bytes that lanes reach at byte offsets, multiples of their size."""

    __slots__ = ("offsets", "rows", "size", "width")

    def __init__(self, offsets: np.ndarray, size: int) -> None:
        self.offsets, self.size, self.width = offsets, size, min(size, 16)
        self.rows: np.ndarray | None = None  # indices of words of `width` bytes, computed on demand

    def _rows(self) -> np.ndarray:
        if self.rows is None:
            rows = (self.offsets >> np.uint64(self.width.bit_length() - 1)).view(np.int64)
            self.rows = rows if self.size <= 16 else (rows[:, None] + np.arange(self.size // 16)).ravel()
        return self.rows

    @classmethod
    def moved(cls, where: Selection, shift: int, into: Allocation) -> Lanes:
        """Return the bytes of a selection that another allocation holds, `shift` bytes further on there."""
        if isinstance(where, Part):
            offsets = np.array(where.start)
            for n, stride in zip(where.shape, where.strides, strict=True):
                offsets = offsets[..., None] + np.arange(n) * stride
            offsets = offsets.ravel()
        else:
            offsets = (where.offsets.astype(np.int64)[:, None] + np.arange(where.size)).ravel()
        offsets = offsets + shift
        return cls(offsets[(offsets >= into.slack) & (offsets < into.limit)].astype(np.uint64), 1)

    def of(self, bytes_: np.ndarray) -> np.ndarray:
        return bytes_.reshape(-1, self.width)[self._rows()]

    def put(self, bytes_: np.ndarray, value: int | np.ndarray) -> None:
        bytes_.reshape(-1, self.width)[self._rows()] = value


Selection = Lanes | Part


class Copy(NamedTuple):
    """A copy's access of global memory: instruction, direction, and whether it is ordered."""

    at: int
    write: bool
    ordered: bool


@dataclass(slots=True, eq=False)
class Bytes:
    """Last writer and reader per byte of an allocation; the maps are made on demand."""

    size: int
    writer: np.ndarray | None = None
    reader: np.ndarray | None = None
    atomic: np.ndarray | None = None
    # pending reads: (cluster number, access size) → offsets; (cluster number, box) of copies
    offsets: dict[tuple[int, int], list[np.ndarray]] = field(default_factory=dict)
    boxes: dict[tuple[int, Part], None] = field(default_factory=dict)
    listed: int = 0
    last_at: dict[tuple[int, bool], int] = field(default_factory=dict)  # (number, write) → the last instruction
    polled: Bytes | None = None  # ordered reads, which race with ordinary writes only

    def list_read(self, number: int, where: Selection) -> None:
        """Record a read; it enters the reader map when the map is needed."""
        if isinstance(where, Part):
            self.boxes[number, where] = None
        else:
            self.offsets.setdefault((number, where.size), []).append(where.offsets)
            self.listed += 1
        if self.listed + len(self.boxes) > LONGEST:
            self.readers()

    def reads(self, ordered: bool) -> Bytes:
        """Return where ordered or other reads are recorded."""
        if not ordered:
            return self
        if self.polled is None:
            self.polled = Bytes(self.size)
        return self.polled

    def written(self) -> np.ndarray:
        """Return the offsets of the bytes that were written."""
        return flatnonzero(self.writer if self.writer is not None else np.zeros(0))

    def accessed(self) -> np.ndarray:
        """Return the map of bytes that were read or written."""
        maps = [self.readers(), self.writer, self.polled and self.polled.readers()]
        return np.any([x != 0 for x in maps if x is not None], axis=0)

    def add(self, later: Bytes) -> None:
        """Add the accesses of later clusters that do not interfere."""
        self.writer, self.atomic = _either(self.writer, later.writer), _either(self.atomic, later.atomic)
        if later.reader is not None:
            theirs, own = later.reader, self.readers()
            several = np.where((own == 0) | (own == theirs), theirs, SEVERAL)
            self.reader = np.where(theirs == 0, own, several).astype(np.uint8)
        for key, offsets in later.offsets.items():
            self.offsets.setdefault(key, []).extend(offsets)
        self.boxes |= later.boxes
        self.listed += later.listed
        self.last_at |= later.last_at
        if later.polled is not None:
            self.reads(ordered=True).add(later.polled)

    @property
    def any_reads(self) -> bool:
        return bool(self.offsets or self.boxes) or self.reader is not None

    def readers(self) -> np.ndarray:
        """Return the map of readers, with pending reads merged."""
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


def _either(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    """Return the union of maps of different bytes."""
    return np.maximum(a, b) if a is not None and b is not None else b if a is None else a


class Standing(NamedTuple):
    """The state of AccessHistory that belongs to one cluster."""

    cluster: int
    number: int
    own: set[int]
    known: set[int]
    unpublished: bool
    renumber_next: bool


class AccessHistory:
    """A launch's global accesses; `before`: history of a launch that may still run."""

    def __init__(self, machine: Machine, before: AccessHistory | None) -> None:
        self.machine, self.before = machine, before
        self.touched: dict[Allocation, Bytes] = {}
        self.aliases: dict[Allocation, list[tuple[Allocation, int]]] = {}  # of the next launch
        self.last = 0  # last number assigned
        self.cluster = self.number = 0  # numbers of the current cluster and of its current writes
        self.own: set[int] = set()  # all numbers of the current cluster
        self.known: set[int] = set()  # and of clusters ordered before it
        self.unpublished = False  # written since its last publication
        self.renumber_next = False  # its next write gets a new number
        self.words: dict[tuple[int, int], set[int]] = {}  # address of an ordered word → clusters it publishes

    def begin_cluster(self) -> None:
        self.cluster = self._new_number()
        self.own, self.known = {self.number}, {self.number}
        self.unpublished = self.renumber_next = False

    def standing(self) -> Standing:
        """Return where the current cluster stands, for `resume`."""
        return Standing(self.cluster, self.number, self.own, self.known, self.unpublished, self.renumber_next)

    def resume(self, left: Standing) -> None:
        """Continue with a cluster that was suspended."""
        self.cluster, self.number, self.own, self.known, self.unpublished, self.renumber_next = left

    def _new_number(self) -> int:
        self.last = self.number = self.last % NUMBERS + 1
        return self.number

    def order(self, addresses: Iterable[tuple[int, int]], write: bool, read: bool, released: bool) -> None:
        """Record an ordered access of words, each (address of the allocation, byte offset)."""
        for word in addresses:
            known_clusters = self.words.setdefault(word, set())
            if read:
                self.known |= known_clusters
            if write:
                known_clusters |= self.known if released or not self.unpublished else self.known - {self.number}
        if write and released and self.unpublished:
            self.unpublished, self.renumber_next = False, True

    def touch(
        self, f: Fragment | None, allocation: Allocation, where: Selection, access: Access | Copy, waited: bool
    ) -> None:
        """Record an access and its races; `waited`: ordered after the previous launch."""
        if self.before is not None and not waited:
            self.before.check_against(f, allocation, where, access, self.machine)
        ordered = access.ordered and (isinstance(access, Copy) or access.scope == "gpu")
        if self.renumber_next and access.write and not ordered:
            self.renumber_next = False
            self.own.add(self._new_number())
            self.known.add(self.number)
        own_bytes = self.touched.get(allocation)
        if own_bytes is None:
            own_bytes = self.touched[allocation] = Bytes(allocation.extent)
        own_bytes.last_at[self.number if access.write else self.cluster, access.write] = access.at
        if own_bytes.writer is not None:
            self._with_writers(f, allocation, own_bytes, where, access, ordered)
        if access.write:
            self._write(f, allocation, own_bytes, where, access, ordered)
        else:
            own_bytes.reads(ordered).list_read(self.cluster, where)

    def _with_writers(
        self,
        f: Fragment | None,
        allocation: Allocation,
        own_bytes: Bytes,
        where: Selection,
        access: Access | Copy,
        ordered: bool,
    ) -> None:
        assert own_bytes.writer is not None
        writers = where.of(own_bytes.writer)
        others = (writers != 0) & (writers != self.number)
        if ordered and own_bytes.atomic is not None:
            others &= where.of(own_bytes.atomic) == 0
        if count_nonzero(others):
            self._report(f, allocation, own_bytes, writers[others], access, True)

    def _write(
        self,
        f: Fragment | None,
        allocation: Allocation,
        own_bytes: Bytes,
        where: Selection,
        access: Access | Copy,
        ordered: bool,
    ) -> None:
        if own_bytes.writer is None:
            own_bytes.writer = np.zeros(own_bytes.size, np.uint8)
        for reads in (own_bytes, None if ordered else own_bytes.polled):
            if reads is None or not reads.any_reads:
                continue
            readers = where.of(reads.readers())
            others = (readers != 0) & (readers != self.cluster)
            if count_nonzero(others):
                self._report(f, allocation, own_bytes, readers[others], access, False)
        where.put(own_bytes.writer, self.number)
        self.unpublished = self.unpublished or not ordered
        if ordered and own_bytes.atomic is None:
            own_bytes.atomic = np.zeros(own_bytes.size, np.uint8)
        if own_bytes.atomic is not None:
            where.put(own_bytes.atomic, int(ordered))

    def _report(
        self,
        f: Fragment | None,
        allocation: Allocation,
        own_bytes: Bytes,
        numbers: np.ndarray,
        access: Access | Copy,
        written: bool,
    ) -> None:
        """Report a race with other clusters that this cluster is not ordered after."""
        unknown = [int(x) for x in np.unique(numbers) if int(x) not in self.known]
        if not unknown or (unknown == [SEVERAL] and self.known != self.own):
            return
        at = own_bytes.last_at.get((unknown[0], written), -1)
        if at < 0:
            at = next((last for (_, write), last in own_bytes.last_at.items() if write == written), -1)
        where = f" at {self.machine.program.instructions[at].location}" if at >= 0 else ""
        verb, other = "writes" if access.write else "reads", "write" if written else "read"
        message = f"a cluster {verb} {allocation.name}, and nothing orders that after another cluster's {other}{where}"
        if access.ordered and not isinstance(access, Copy) and access.scope != "gpu":
            message += f": the scope .{access.scope} does not reach other clusters"
        self.machine.report("race", message, access.at, f)

    def interferes(self, later: dict[Allocation, Bytes]) -> bool:
        """Return whether later clusters access bytes of earlier ones, and one of the two writes."""
        return any(
            ((writers != 0) & others.accessed()).any() if written is other else written.overlaps(other)
            for first, second in ((self.touched, later), (later, self.touched))
            for written, bytes_ in first.items()
            if (writers := bytes_.writer) is not None
            for other, others in second.items()
        )

    def add(self, later: dict[Allocation, Bytes], last: int) -> None:
        """Add the accesses of later clusters, which do not interfere; `last` is their last number."""
        for allocation, accessed in later.items():
            own_bytes = self.touched.setdefault(allocation, accessed)
            if own_bytes is not accessed:
                own_bytes.add(accessed)
        self.last = last

    def check_against(
        self, f: Fragment | None, allocation: Allocation, where: Selection, access: Access | Copy, machine: Machine
    ) -> None:
        """Report an access of the next launch that races with this launch."""
        own_bytes = self.touched.get(allocation)
        if own_bytes is None:
            for other, shift in self._overlapping(allocation):
                self._check_bytes(f, allocation, self.touched[other], Lanes.moved(where, shift, other), access, machine)
        else:
            self._check_bytes(f, allocation, own_bytes, where, access, machine)

    def shares_memory(self, before: AccessHistory) -> bool:
        """Return whether this launch accessed an allocation that the launch before accessed, too."""
        return any(x in before.touched or before._overlapping(x) for x in self.touched)

    def _overlapping(self, allocation: Allocation) -> list[tuple[Allocation, int]]:
        """Return accessed allocations of another capture at these addresses, and by how much offsets differ."""
        aliases = self.aliases.get(allocation)
        if aliases is None:
            others = (x for x in self.touched if x.overlaps(allocation))
            aliases = self.aliases[allocation] = [(other, allocation.start - other.start) for other in others]
        return aliases

    def _check_bytes(
        self,
        f: Fragment | None,
        allocation: Allocation,
        own_bytes: Bytes,
        where: Selection,
        access: Access | Copy,
        machine: Machine,
    ) -> None:
        written = own_bytes.writer is not None and bool(where.of(own_bytes.writer).any())
        read = access.write and not written and bool(where.of(own_bytes.readers()).any())
        if access.write and not written and own_bytes.polled is not None:
            read = read or bool(where.of(own_bytes.polled.readers()).any())
        if written or read:
            verb, other = "writes" if access.write else "reads", "writes" if written else "reads"
            at = next((last for (_, write), last in own_bytes.last_at.items() if write == written), -1)
            origin = f" at {self.machine.program.instructions[at].location}" if at >= 0 else ""
            message = (
                f"a launch that may begin early {verb} {allocation.name}, which the launch before "
                f"({self.machine.launch.name[:40]}) {other}{origin}, and no griddepcontrol.wait comes before that"
            )
            machine.report("race", message, access.at, f)
