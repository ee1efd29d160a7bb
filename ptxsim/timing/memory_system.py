"""The way of bytes between an SM and global memory: L2 and DRAM, shared with the SMs that are not simulated.

Of the card's bandwidth the simulated SMs have their share: that of so many SMs among those at work. Which bytes come
out of L2 is not simulated address by address. Each allocation has a share of its bytes that miss, worked out from how
much the whole grid reads of it and how much of that can have stayed in L2 (see `missing`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from .device import Figures
from .hardware import SM, Server

Cache = Literal["warm", "cold"]


@dataclass(slots=True)
class Traffic:
    """Bytes that the simulated SMs moved, by allocation (its address), and in all."""

    read: dict[int, float] = field(default_factory=dict)
    written: dict[int, float] = field(default_factory=dict)
    dram: float = 0.0

    @property
    def l2(self) -> float:
        return sum(self.read.values()) + sum(self.written.values())


def missing(total: float, unique: float, footprint: float, capacity: float, cache: Cache) -> float:
    """The share of `total` bytes read of a buffer that L2 does not have, when `unique` of them are different ones.

    Cold, each byte misses once. Warm, a byte that the call before has read is still there with a chance 1 - m: under
    random replacement in a cache of `capacity` that sees `footprint` bytes between two uses, of which m miss,
    1 - m = exp(-m footprint / capacity). Bytes read again within a call hit.
    """
    if total <= 0:
        return 0.0
    first = min(unique / total, 1.0)
    return first if cache == "cold" else first * evicted(footprint / capacity)


def evicted(ratio: float) -> float:
    """The solution m of 1 - m = exp(-m ratio): 0 up to a ratio of 1."""
    if ratio <= 1.0:
        return 0.0
    m = 1.0
    for _ in range(60):
        m = 1.0 - math.exp(-m * ratio)
    return m


class MemorySystem:
    """L2 and DRAM as seen by the simulated SMs, `simulated` of `active` ones."""

    def __init__(self, figures: Figures, clock_mhz: float, simulated: int, active: int) -> None:
        f = figures
        self.figures = f
        self.misses: dict[int, float] = {}  # allocation → share of its bytes that miss L2
        self.write_back = 0.0  # share of stored bytes that go on to DRAM while the launch runs
        self.traffic = Traffic()
        self._owed: dict[int, float] = {}
        per_cycle = 1e3 / clock_mhz  # GB/s → bytes a cycle
        rates = (f.l2_gb_per_s, f.l2_write_gb_per_s, f.dram_read_gb_per_s)  # none of them follows the SM clock
        self._whole = tuple(rate * per_cycle for rate in rates)
        # Bytes written count for more on the way to DRAM, so that a copy gets the bandwidth of copies.
        both = f.dram_read_gb_per_s / f.dram_copy_gb_per_s
        self._dram_write_cost = max(2 * both - 1, f.dram_read_gb_per_s / f.dram_write_gb_per_s)
        self.l2, self.l2_writes, self.dram = (Server(rate) for rate in self._whole)
        self.share(simulated, active)

    def share(self, simulated: int, active: int) -> None:
        """From now on so many SMs are at work, `simulated` of them simulated."""
        for server, whole in zip((self.l2, self.l2_writes, self.dram), self._whole, strict=True):
            server.rate = whole * simulated / max(active, simulated)

    def read(self, allocation: int, size: float, at: float) -> tuple[float, bool]:
        """When bytes leave L2 for the SM, its latency not counted, and whether DRAM had to be asked."""
        self.traffic.read[allocation] = self.traffic.read.get(allocation, 0.0) + size
        end = self.l2.take(size, at)
        owed = self._owed.get(allocation, 0.5 * size) + size * self.misses.get(allocation, 0.0)
        missed = owed >= size
        if missed:
            owed -= size
            self.traffic.dram += size
            end = max(end, self.dram.take(size, at))
        self._owed[allocation] = owed
        return end, missed

    def write(self, allocation: int, size: float, at: float) -> float:
        """When L2 has taken bytes."""
        self.traffic.written[allocation] = self.traffic.written.get(allocation, 0.0) + size
        end = self.l2_writes.take(size, at)
        if self.write_back:
            self.traffic.dram += size * self.write_back
            end = max(end, self.dram.take(size * self.write_back * self._dram_write_cost, at))
        return end

    # what SMs do
    def load(self, sm: SM, allocation: int, lines: dict[int, int], at: float) -> float:
        """An ordinary load of a warp: sectors of 32 bytes by 128-byte line; returns when its data are there."""
        f = self.figures
        wanted = 0
        for line, sectors in lines.items():
            if line in sm.l1:
                continue
            wanted += 32 * sectors
            if sectors == 4:
                sm.l1[line] = None
                if len(sm.l1) > 512:
                    del sm.l1[next(iter(sm.l1))]
        if not wanted:
            return at + f.l1_latency
        start = at
        while sm.under_way and (sm.under_way_bytes + wanted > f.load_outstanding_bytes or sm.under_way[0][0] <= start):
            done, size = sm.under_way.popleft()
            sm.under_way_bytes -= size
            start = max(start, min(done, start) if done <= start else done)
        end, missed = self.read(allocation, wanted, start)
        end = max(end, sm.loads.take(wanted, start)) + (f.dram_latency if missed else f.l2_latency)
        sm.under_way.append((end, wanted))
        sm.under_way_bytes += wanted
        return end

    def store(self, sm: SM, allocation: int, sectors: int, at: float) -> float:
        """An ordinary store of a warp; returns when L2 has it."""
        size = 32.0 * sectors
        return max(sm.stores.take(size, at), self.write(allocation, size, at)) + 0.5 * self.figures.l2_latency

    def box(self, sm: SM, fills: list[SM], allocation: int, size: float, rows: int, at: float) -> float:
        """A copy by TMA into the shared memory of `fills`; returns when the last has its bytes."""
        f = self.figures
        begin = sm.tma_units.take(max(f.tma_box_cycles, rows * f.tma_row_cycles), at)
        arrived, missed = self.read(allocation, size, begin)
        end = max(arrived, sm.tma.take(size, begin), *(other.tma_fill.take(size, begin) for other in fills))
        return end + (f.tma_dram_latency if missed else f.tma_latency)

    def box_store(self, sm: SM, allocation: int, size: float, at: float) -> tuple[float, float]:
        """A bulk store by TMA; returns when shared memory has been read and when the bytes are in L2."""
        f = self.figures
        begin = sm.tma_units.take(f.tma_box_cycles, at)
        taken = sm.tma_stores.take(size, begin)
        end = max(taken, self.write(allocation, size, begin))
        return taken + f.tma_store_read_latency, end + f.tma_store_latency
