"""Local memory under the clock: registers that ptxas has spilled, and arrays of a thread.

It lies so that the same word of a warp's 32 lanes is one line of L1 (CUDA programming guide, local memory). L1 keeps
what is stored there until it needs the place, and then L2 gets it; by a last load (LDL.LU) it is no longer needed.
"""

from __future__ import annotations

from .device import Figures
from .l1_cache import LINE_BYTES, L1Cache
from .sass import Slot
from .slots import Slots

WORDS = 1 << 22  # more than a thread can have
_QUEUE = 64.0  # cycles that accesses may be late before the next has to wait


class LocalMemory:
    """The way of an SM's warps to it; `read_rate` and `write_rate` are the SM's part of L2, bytes a cycle."""

    def __init__(self, figures: Figures, l1: L1Cache, read_rate: float, write_rate: float) -> None:
        f = figures
        self.latency, self.miss_latency, self.l1 = f.local_latency, f.l2_latency + f.local_latency - f.l1_latency, l1
        self.data = Slots(1.0)  # L1's, which loads and stores share
        rates = (f.local_bytes_per_cycle, f.local_store_bytes_per_cycle)
        self.load_turns, self.store_turns = (max(round(LINE_BYTES / rate), 1) for rate in rates)
        self.fetches = Slots(LINE_BYTES / min(f.load_bytes_per_cycle, read_rate))
        self.evictions = Slots(LINE_BYTES / min(f.store_bytes_per_cycle, write_rate))
        self.fetched = self.evicted = 0.0  # bytes

    def access(self, warp: int, slot: Slot, at: float) -> tuple[float, float]:
        """When an access of a warp (a number of its own on the SM) has its data, and when the next one can be made."""
        first = -1 - (warp * WORDS + slot.word)
        end = taken = at
        for line in range(first, first - slot.words, -1):
            if slot.store:
                taken = max(taken, self._store(line, slot.word < 0, at))
            else:
                done, began = self._load(line, slot, at)
                end, taken = max(end, done), max(taken, began)
        return end, max(taken - _QUEUE, at)

    def _turns(self, count: int, at: float) -> float:
        for _ in range(count):
            at = self.data.take(at)
        return at

    def _store(self, line: int, unknown: bool, at: float) -> float:
        taken = self._turns(self.store_turns, at)
        return taken if unknown else max(taken, self._evict(self.l1.put(line, taken, dirty=True), taken))

    def _load(self, line: int, slot: Slot, at: float) -> tuple[float, float]:
        taken = self._turns(self.load_turns, at)
        if slot.word < 0:
            return taken + self.latency, taken
        there = self.l1.took(line, keep=not slot.last)
        if there is not None:
            return max(taken + self.latency, there), taken
        begun = self.fetches.take(taken)
        self.fetched += LINE_BYTES
        end = begun + self.miss_latency
        if not slot.last:
            self._evict(self.l1.put(line, end, dirty=False), begun)
        return end, begun

    def _evict(self, dirty: int, at: float) -> float:
        """When so many lines have left L1."""
        for _ in range(dirty):
            at = self.evictions.take(at)
            self.evicted += LINE_BYTES
        return at
