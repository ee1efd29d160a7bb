"""L2 and DRAM as the simulated SMs share them with all active SMs.

The simulated SMs get their share of the device's bandwidth: their part of the active SMs. L2 hits are not
simulated by address. Each allocation has a miss rate, derived from how much the grid reads of it and how much of
that can have stayed in L2 (see `missing`).
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .device import DeviceConstants
from .hardware import SM, Server
from .l1_cache import LINES_PER_CYCLE, SECTOR_BYTES, Lines, bytes_of

Cache = Literal["warm", "cold"]
RECENT_CYCLES = 2000.0  # over which the use of L2 and DRAM is averaged; assumed: about two latencies of DRAM


@dataclass(slots=True)
class Traffic:
    """Bytes that the simulated SMs moved, by allocation address and in total."""

    read: dict[int, float] = field(default_factory=dict)
    written: dict[int, float] = field(default_factory=dict)
    dram: float = 0.0

    @property
    def l2(self) -> float:
        return sum(self.read.values()) + sum(self.written.values())


def missing(total: float, unique: float) -> float:
    """Return the share of `total` bytes read that are first reads (`unique` bytes)."""
    return min(unique / total, 1.0) if total > 0 else 0.0


def sharing_gain(readers: float, gain: float) -> float:
    """Return the L2 speedup of ordinary loads whose bytes `readers` CTAs load concurrently.

    `gain` was measured for four CTAs; two gave half of it. More are assumed to gain no more than four.
    """
    return 1.0 + (gain - 1.0) * min(math.log2(max(readers, 1.0)) / 2.0, 1.0)


def tma_sharing_gain(readers: float, f: DeviceConstants) -> float:
    """Return L2's speedup of TMA shared by `readers`, between measurements (1, 2, 4, many)."""
    gains = (1.0, f.tma_shared_gain_two, f.tma_shared_gain_four, f.tma_shared_gain)
    at = min(max(math.log2(max(readers, 1.0)), 0.0), 4.0)
    return float(np.interp(at, (0.0, 1.0, 2.0, 4.0), gains))


def evicted(footprint: float, f: DeviceConstants) -> float:
    """Return the share of a call's L2 bytes evicted before the next call.

    `footprint` is the bytes that a call puts into L2. Nothing is evicted up to what L2 keeps between launches, and
    nearly everything soon beyond it.
    """
    return 1.0 - math.exp(-f.l2_overrun * max(footprint / f.l2_again_bytes - 1.0, 0.0))


def replaced(ratio: float) -> float:
    """Return the evicted share under random replacement; `ratio` is footprint over capacity.

    A byte survives with probability 1 - m: `ratio` times as many bytes pass between two uses, of which m miss.
    So 1 - m = exp(-m ratio). Up to a ratio of 1 the solution is 0.
    """
    if ratio <= 1.0:
        return 0.0
    m = 1.0
    for _ in range(60):
        m = 1.0 - math.exp(-m * ratio)
    return m


def written_back(allocated: float, capacity: float) -> float:
    """Return the share of a single call's stored bytes that leave L2 before its end.

    The call puts `allocated` bytes into L2, with stores throughout. A store made x bytes before the end
    is still in L2 with probability exp(-x / capacity), under random replacement.
    """
    ratio = allocated / capacity
    return 1.0 - (1.0 - math.exp(-ratio)) / ratio if ratio > 1e-6 else 0.0


def displaced(allocated: float, f: DeviceConstants) -> float:
    """Return the bytes written back per byte entering a flushed L2.

    NVBench flushes with a memset of L2's size (nvbench/detail/l2flush.cuh); the share of L2 left dirty is measured.
    """
    ratio = allocated / f.l2_bytes
    return f.flush_dirty_share * ((1.0 - math.exp(-ratio)) / ratio if ratio > 1e-6 else 1.0)


def l2_rate_per_sm(active: int, f: DeviceConstants) -> float:
    """Return L2's maximum bytes per cycle for each of `active` SMs that share GPC links.

    Measured for grids of 8, 32 and 64 CTAs. One SM alone is limited by its own rate.
    """
    rates = (f.tma_bytes_per_cycle, f.l2_bytes_per_cycle_of_8, f.l2_bytes_per_cycle_of_32, f.l2_bytes_per_cycle_of_64)
    return float(np.interp(math.log2(max(active, 1)), (0.0, 3.0, 5.0, 6.0), rates))


class Queue(Server):
    """A server of TMA boxes and other requests, which pass boxes beyond `ahead` bytes.

    Further boxes have been requested, but have not left the TMA units. Other requests wait for all earlier ones of
    their kind. The rate is an even share: up to `saved` bytes unused in a pause may be used at once after it. There is
    no pause before the first request, which all SMs make at one time.
    """

    __slots__ = ("_last", "_plain_free", "_recent", "ahead", "saved", "share")

    def __init__(self, rate: float) -> None:
        super().__init__(rate)
        self.share = rate  # of the whole device's; the rate is less where the way there is the limit
        self.ahead, self._plain_free = 0.0, 0.0  # bytes; when other requests have been served
        self.saved = 0.0
        self._last = self._recent = 0.0  # the latest request; bytes up to it, older ones counted less

    @property
    def queueing(self) -> float:
        """Return the queueing delay over that at full use: recent use, cubed."""
        return min(self._recent / self.share / RECENT_CYCLES, 1.0) ** 3

    def take(self, amount: float, at: float, box: bool = False) -> float:
        if not self.busy:
            self.free = self._plain_free = self._last = at
        since, cycles = at - self.saved / self.rate, amount / self.rate
        if at > self._last:
            self._recent *= math.exp((self._last - at) / RECENT_CYCLES)
            self._last = at
        self._recent += amount
        self.free = max(self.free, since) + cycles
        self.busy += cycles
        end = max(self.free, at)
        if box:
            return end
        self._plain_free = max(self._plain_free, since) + cycles
        return min(end, max(self._plain_free, at) + self.ahead / self.rate)


class MemorySystem:
    """L2 and DRAM as seen by `simulated` of `active` SMs."""

    def __init__(self, constants: DeviceConstants, clock_mhz: float, simulated: int, active: int) -> None:
        f = constants
        self.constants = f
        self.miss_rates: dict[int, float] = {}  # allocation → L2 miss rate
        self.readers: dict[int, float] = {}  # allocation → CTAs that read the same bytes concurrently
        self.kept: dict[int, float] = {}  # allocation → share of the gain of TMA that readers near each other keep
        self.write_back = 0.0  # share of stored bytes written back during the launch
        self.displaced = 0.0  # other dirty bytes written back per byte entering L2
        self.cold = False
        self._dram_begins = math.inf  # earliest DRAM data of a cold launch; inf before the first request
        self.traffic = Traffic()
        self._owed: dict[int, float] = {}
        self._dirty: Lines = {}  # sectors written by ordinary stores
        per_cycle = 1e3 / clock_mhz  # GB/s → bytes a cycle
        rates = (f.l2_gb_per_s, f.l2_write_gb_per_s, f.dram_read_gb_per_s)  # independent of the SM clock
        self._whole = tuple(rate * per_cycle for rate in rates)
        # A written byte costs more than a read one, so that copies get the measured copy bandwidth.
        both = f.dram_read_gb_per_s / f.dram_copy_gb_per_s
        self._dram_write_cost = max(2 * both - 1, f.dram_read_gb_per_s / f.dram_write_gb_per_s)
        self._l2_write_cost = max(2 * f.l2_gb_per_s / f.l2_copy_gb_per_s - 1, 0.0)
        self.l2, self.l2_writes, self.dram = (Queue(rate) for rate in self._whole)
        self.set_share(simulated, active)

    def local_rates(self, simulated: int) -> tuple[float, float, float]:
        """Return L2's local read and write bytes per cycle, and writes' cost in reads."""
        f = self.constants
        return self.l2.rate / simulated, self._even * f.local_store_gb_per_s / f.l2_gb_per_s, self._l2_write_cost

    def set_share(self, simulated: int, active: int) -> None:
        """Set the number of active SMs, of which `simulated` are simulated."""
        for server, whole in zip((self.l2, self.l2_writes, self.dram), self._whole, strict=True):
            server.rate = server.share = whole * simulated / max(active, simulated)
            server.ahead = simulated * self.constants.tma_ahead_bytes
        self._even = self.l2.rate / simulated
        near = simulated * l2_rate_per_sm(max(active, simulated), self.constants)
        self.l2.rate = min(self.l2.rate, near)
        self.l2.saved = self.l2_writes.saved = self.dram.saved = simulated * self.constants.l2_ahead_bytes

    def read(self, allocation: int, size: float, at: float, by_tma: bool = False) -> tuple[float, bool]:
        """Return when bytes leave L2, without latency, and whether DRAM was accessed."""
        self.traffic.read[allocation] = self.traffic.read.get(allocation, 0.0) + size
        readers, f = self.readers.get(allocation, 1.0), self.constants
        if by_tma:
            gain = 1.0 + (tma_sharing_gain(readers, f) - 1.0) * self.kept.get(allocation, f.tma_shared_kept)
        else:
            gain = sharing_gain(readers, f.l2_shared_gain)
        set_share = self.miss_rates.get(allocation, 0.0)
        # All concurrent readers of missing bytes wait; one of them fetches.
        waiting = min(set_share * max(readers, 1.0), 1.0)
        owed = self._owed.get(allocation, 0.5 * size) + size * waiting
        missed = waiting > 0 and owed >= size
        brought = size * set_share / waiting if missed else 0.0
        end = self.l2.take(size / gain + brought * f.l2_fill_cost, at, by_tma) + self.l2.queueing * f.l2_queueing_cycles
        if missed:
            owed -= size
            self.traffic.dram += brought
            fetched = self.dram.take(brought, at, by_tma) + self.dram.queueing * f.dram_queueing_cycles
            end = max(end, fetched, self._first_answer(at))
            self._write_back_victims(brought, at)
        self._owed[allocation] = owed
        return end, missed

    @property
    def _flushed(self) -> float:
        """Extra DRAM latency after a flush, per access."""
        return self.constants.dram_flushed_cycles if self.cold else 0.0

    def _first_answer(self, at: float) -> float:
        """Return DRAM's earliest response: after a flush a launch's first load takes longer."""
        if not self.cold:
            return 0.0
        self._dram_begins = min(self._dram_begins, at + self.constants.dram_first_cycles)
        return self._dram_begins

    def write(self, allocation: int, size: float, at: float, new: float | None = None) -> float:
        """Return when L2 has accepted bytes; `new` ones (None: all) may reach DRAM."""
        self.traffic.written[allocation] = self.traffic.written.get(allocation, 0.0) + size
        end = max(self.l2_writes.take(size, at), self.l2.take(size * self._l2_write_cost, at))
        new = size if new is None else new
        if written_back_bytes := self.write_back * new:
            self.traffic.dram += written_back_bytes
            end = max(end, self.dram.take(written_back_bytes * self._dram_write_cost, at))
        self._write_back_victims(new, at)
        return end

    def _write_back_victims(self, size: float, at: float) -> None:
        """Write back dirty victims of `size` new bytes; this delays only later DRAM accesses."""
        if written_back_bytes := self.displaced * size:
            self.traffic.dram += written_back_bytes
            self.dram.take(written_back_bytes * self._dram_write_cost, at)

    # requests of SMs
    def load(
        self, sm: SM, allocation: int, lines: Lines, request_bytes: float, at: float, in_l1: bool = True
    ) -> tuple[float, float]:
        """Load `request_bytes`, through L1 or past it; return arrival and uncontended cycles."""
        f = self.constants
        missing, ready = sm.l1.lookup(lines) if in_l1 else (lines, 0.0)
        cycles = max(request_bytes / f.l1_bytes_per_cycle, len(lines) / LINES_PER_CYCLE)
        end = max(sm.l1_cycles.take(cycles, at) + f.l1_latency, ready)
        if not missing:
            return end, f.l1_latency
        fetched, latency = self._fetch(sm, allocation, missing, at)
        if in_l1:
            sm.l1.fill(missing, fetched)
        return max(end, fetched), latency

    def _fetch(self, sm: SM, allocation: int, lines: Lines, at: float) -> tuple[float, float]:
        """Fetch L1's missing sectors within `load_outstanding_bytes`; return arrival and latency."""
        f, requested, start = self.constants, bytes_of(lines), at
        while sm.in_flight and (
            sm.in_flight[0][0] <= start or sm.bytes_in_flight + requested > f.load_outstanding_bytes
        ):
            done, size = sm.in_flight.popleft()
            sm.bytes_in_flight -= size
            start = max(start, done)
        reloaded = sm.l1.reloaded_bytes(lines)  # L2 has what this SM loaded before
        end, missed = self.read(allocation, requested - reloaded, start) if requested > reloaded else (start, False)
        if reloaded:
            end = max(end, self.l2.take(reloaded, start))
        latency = f.dram_latency + self._flushed if missed else f.l2_latency
        end = max(end, sm.loads.take(requested, start)) + latency
        sm.in_flight.append((end, requested))
        sm.bytes_in_flight += requested
        return end, latency

    def store(self, sm: SM, allocation: int, lines: Lines, size: float, at: float) -> float:
        """Store `size` bytes of a warp; return when L2 has them.

        A sector filled by several stores is written back once. For partially filled sectors only the stored bytes are
        assumed to move. That is not measured; with whole sectors, stores of 4 of 16 bytes come out too slow.
        """
        new = 0
        for line, mask in lines.items():
            before = self._dirty.get(line, 0)
            self._dirty[line] = before | mask
            new += SECTOR_BYTES * (mask & ~before).bit_count()
        end = max(sm.stores.take(size, at), self.write(allocation, size, at, new))
        return end + 0.5 * self.constants.l2_latency

    def box(self, sm: SM, fills: list[SM], allocation: int, size: float, rows: int, at: float) -> float:
        """Copy a box by TMA to `fills`; return when the last has it."""
        f = self.constants
        begin = sm.tma_units.take(max(f.tma_box_cycles, rows * f.tma_row_cycles), at)
        arrived, missed = self.read(allocation, size, begin, by_tma=True)
        end = max(arrived, sm.tma.take(size, begin), *(other.tma_fill.take(size, begin) for other in fills))
        return end + (f.tma_dram_latency + self._flushed if missed else f.tma_latency)

    def box_store(self, sm: SM, allocation: int, size: float, at: float) -> tuple[float, float]:
        """Store a box by TMA; return when it is read and when in L2."""
        f = self.constants
        begin = sm.tma_units.take(f.tma_box_cycles, at)
        taken = sm.tma_stores.take(size, begin)
        end = max(taken, self.write(allocation, size, begin))
        return taken + f.tma_store_read_latency, end + f.tma_store_latency
