"""Global memory: the host allocations a launch may touch, by address, with their names."""

from __future__ import annotations

import bisect
import ctypes
from dataclasses import dataclass

import numpy as np


class Allocation:
    """A host buffer of `size` bytes at `address`; `views[k]` shows it as k-byte words from a 16-byte boundary."""

    def __init__(self, name: str, address: int, size: int, keep: object = None) -> None:
        self.name, self.address, self.size, self.keep = name, address, size, keep
        self.start = address & ~15
        self.slack = address - self.start
        span = -(-(self.slack + size) // 16) * 16
        raw = (ctypes.c_uint8 * span).from_address(self.start)
        self.bytes = np.frombuffer(raw, np.uint8)
        self.views = {n: self.bytes.view(f"u{n}") for n in (1, 2, 4, 8)}
        self.start8 = np.array(self.start, np.uint64)
        self.limit = self.slack + size
        self.read_map: np.ndarray | None = None
        self.write_map: np.ndarray | None = None

    def track(self) -> None:
        """Begin to note which bytes are read and written."""
        self.read_map = np.zeros(len(self.bytes), np.uint8)
        self.write_map = np.zeros(len(self.bytes), np.uint8)


@dataclass(frozen=True)
class Place:
    """Where an address lies: allocation and byte offset, or the nearest allocation and the distance past it."""

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
    """All allocations of a run; lookups are by address."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self._starts: list[int] = []
        self.last: Allocation | None = None

    def add(self, name: str, address: int, size: int, keep: object = None) -> Allocation:
        """Register [address, address+size); an identical range registered before is reused."""
        at = bisect.bisect_left(self._starts, address)
        if at < len(self._starts) and self._starts[at] == address and self.allocations[at].size >= size:
            return self.allocations[at]
        new = Allocation(name, address, size, keep)
        self.allocations.insert(at, new)
        self._starts.insert(at, address)
        self.last = self.last or new
        return new

    def find(self, address: int, size: int = 1) -> Allocation | None:
        """The allocation that holds all of [address, address+size), or None."""
        at = bisect.bisect_right(self._starts, address)
        while at > 0:
            at -= 1
            a = self.allocations[at]
            if a.address <= address and address + size <= a.address + a.size:
                return a
            if address - a.address > (1 << 40):
                break
        return None

    def place(self, address: int) -> Place:
        """A description of an address for a message."""
        best = None
        for a in self.allocations:
            distance = max(a.address - address, address - (a.address + a.size - 1), 0)
            if best is None or distance < best[0]:
                best = (distance, a)
        return Place(best[1], address - best[1].address) if best else Place(None, 0)
