"""Global memory: the named host allocations that a launch may access."""

from __future__ import annotations

import bisect
import ctypes
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

WordViews = dict[int, np.ndarray]  # bytes per word → the memory as such words


def word_views(memory: np.ndarray) -> WordViews:
    """Return a byte array as words of 1, 2, 4 and 8 bytes."""
    return {size: memory.view(f"u{size}") for size in (1, 2, 4, 8)}


@dataclass(frozen=True, slots=True)
class Access:
    """An ordinary load, store or atomic, decoded from its instruction.

    Each lane moves `count` elements of `dtype`, `size` bytes in all, as words of `item` bytes from its address plus
    `offset`.
    """

    at: int
    space: str
    dtype: np.dtype[Any]
    count: int
    offset: int
    item: int
    size: int
    write: bool
    atomic: bool
    ordered: bool  # acquire, release, relaxed, volatile or atomic
    releases: bool  # a relaxed write releases only after a fence
    acquires: bool  # a relaxed load acquires only with a fence after it
    scope: str  # "cta", "cluster", or "gpu" for every wider one

    @classmethod
    def of(
        cls,
        at: int,
        space: str,
        dtype: np.dtype[Any],
        count: int,
        offset: int,
        *,
        packed: int = 1,
        write: bool = False,
        atomic: bool = False,
        ordered: bool = False,
        releases: bool = False,
        acquires: bool = False,
        scope: str = "gpu",
    ) -> Access:
        """Make an access in which `packed` elements form one word."""
        item = dtype.itemsize * packed
        size, ordered = item * count, ordered or atomic
        return cls(at, space, dtype, count, offset, item, size, write, atomic, ordered, releases, acquires, scope)

    @property
    def verb(self) -> str:
        return "store" if self.write else "load"


class Cells(NamedTuple):
    """The words of one memory that lanes reach: the index of each lane's first word.

    `lanes` are indices in the fragment's range, None for all of it.
    """

    words: np.ndarray
    first: np.ndarray
    lanes: np.ndarray | None


class Allocation:
    """A host buffer of `size` bytes at `address`; `bytes` are exactly its bytes.

    `words[k]` views memory as k-byte words from the 16-byte boundary `start`, `slack` bytes before the buffer. Offsets
    count from `start`. Only those from `slack` to `limit` may be accessed: bytes outside have other owners.
    """

    def __init__(self, name: str, address: int, size: int, keep: object = None) -> None:
        self.name, self.address, self.size, self.keep = name, address, size, keep
        self.start = address & ~15
        self.slack = address - self.start
        self.limit = self.slack + size
        self.extent = -(-self.limit // 16) * 16  # bytes of whole 16-byte words from `start`, for maps of the buffer
        raw = np.ctypeslib.as_array((ctypes.c_uint8 * self.limit).from_address(self.start))
        self.bytes = raw[self.slack :]
        self.words = {k: raw[: self.limit // k * k].view(f"u{k}") for k in (1, 2, 4, 8)}
        self.start8 = np.array(self.start, np.uint64)
        self.read_map: np.ndarray | None = None
        self.write_map: np.ndarray | None = None

    def overlaps(self, other: Allocation) -> bool:
        """Return whether a byte belongs to both."""
        return self.address < other.address + other.size and other.address < self.address + self.size

    def span(self, address: int, size: int) -> np.ndarray:
        """Return the bytes at an address in the allocation."""
        return self.bytes[address - self.address : address - self.address + size]

    def track(self) -> None:
        """Start recording which bytes are read and written."""
        self.read_map = np.zeros(self.extent, np.uint8)
        self.write_map = np.zeros(self.extent, np.uint8)


class Part(NamedTuple):
    """A view of an allocation's bytes: a slice, or strided like a TMA box."""

    shape: tuple[int, ...]
    start: int
    strides: tuple[int, ...]

    def of(self, bytes_: np.ndarray) -> np.ndarray:
        return np.ndarray(self.shape, np.uint8, bytes_, self.start, self.strides)

    def put(self, bytes_: np.ndarray, value: int | np.ndarray) -> None:
        self.of(bytes_)[...] = value


@dataclass(frozen=True)
class Location:
    """An address as allocation and byte offset, or as distance from the nearest allocation."""

    allocation: Allocation | None
    offset: int

    def __str__(self) -> str:
        if self.allocation is None:
            return "no allocation"
        a = self.allocation
        if self.offset < 0:
            return f"{-self.offset} bytes before {a.name} ({a.size} bytes)"
        if self.offset >= a.size:
            return f"{self.offset - a.size} bytes past the end of {a.name} ({a.size} bytes)"
        return f"{a.name} byte {self.offset}"


class Memory:
    """All allocations of a run, looked up by address."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self._starts: list[int] = []
        self.last: Allocation | None = None

    def add(self, name: str, address: int, size: int, keep: object = None) -> Allocation:
        """Register [address, address+size); an identical registered range is reused."""
        at = bisect.bisect_left(self._starts, address)
        if at < len(self._starts) and self._starts[at] == address and self.allocations[at].size >= size:
            return self.allocations[at]
        new = Allocation(name, address, size, keep)
        self.allocations.insert(at, new)
        self._starts.insert(at, address)
        self.last = self.last or new
        return new

    def find(self, address: int, size: int = 1) -> Allocation | None:
        """Return the allocation that holds all of [address, address+size), or None."""
        at = bisect.bisect_right(self._starts, address)
        while at > 0:
            at -= 1
            a = self.allocations[at]
            if a.address <= address and address + size <= a.address + a.size:
                return a
            if address - a.address > (1 << 40):
                break
        return None

    def location(self, address: int, size: int = 1) -> Location:
        """Describe bytes for a message: their first, or the last if only that is outside."""
        if not self.allocations:
            return Location(None, 0)
        last = address + size - 1
        nearest = min(self.allocations, key=lambda a: max(a.address - last, address - (a.address + a.size - 1), 0))
        first, past = address - nearest.address, last - nearest.address
        return Location(nearest, past if 0 <= first < nearest.size <= past else first)
