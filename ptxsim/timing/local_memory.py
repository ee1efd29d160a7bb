"""Local memory under the clock: spilled registers and per-thread arrays.

One word of a warp's 32 lanes is one L1 line (CUDA programming guide, local memory). L1 keeps stored lines, but writes
all of them through to L2 at once. In L2, loads that miss L1 compete with stores. Both were measured: group
`local_memory` of benchmarks/microbenchmarks/.
"""

import math

from .device import DeviceConstants
from .l1_cache import LINE_BYTES, L1Cache
from .sass import Slot
from .slots import Slots

MAX_WORDS = 1 << 22  # more words than a thread can have
_QUEUE = 64.0  # cycles of load delay before the next access stalls
_STORE_BUFFER = 8192.0  # bytes of stores in flight
_PORT_SLOTS = 4  # port slots per loaded line
_L2_SLOTS = 2  # L2 slots per loaded line


class LocalMemory:
    """The path of an SM's local-memory accesses through L1 and L2."""

    def __init__(
        self, constants: DeviceConstants, l1: L1Cache, read_rate: float, write_rate: float, write_cost: float
    ) -> None:
        """Set up the path: an SM's L2 bytes per cycle; written bytes count `write_cost`."""
        f = constants
        self.latency, self.miss_latency, self.l1 = f.local_latency, f.local_l2_latency, l1
        store = min(f.store_bytes_per_cycle, write_rate)
        self.l1_port = Slots(LINE_BYTES / f.local_bytes_per_cycle)
        self.port = Slots(LINE_BYTES / f.local_miss_bytes_per_cycle / _PORT_SLOTS)
        self.l2, self.out = Slots(LINE_BYTES / read_rate / _L2_SLOTS), Slots(LINE_BYTES / store)
        self.store_port_slots = round(_PORT_SLOTS * f.local_miss_bytes_per_cycle / f.store_bytes_per_cycle)
        self.store_l2_slots = round(_L2_SLOTS * write_cost)
        self.buffer = _STORE_BUFFER / store  # cycles
        self.loaded = self.stored = 0.0  # bytes that L2 has moved
        # L2 bandwidth unused in a pause may be used after it, as for other traffic. There is no pause before the
        # first access.
        self.saved = f.l2_ahead_bytes / store  # cycles
        self.first = math.inf

    def access(self, warp: int, slot: Slot, at: float) -> tuple[float, float]:
        """Return when data arrive and the warp (slot `warp`) can issue again."""
        first = -1 - (warp * MAX_WORDS + slot.word)
        end = taken = at
        for line in range(first, first - slot.words, -1):
            if slot.store:
                taken = max(taken, self._store(line, slot, at) - self.buffer)
            else:
                done, begun = self._load(line, slot, at)
                end, taken = max(end, done), max(taken, begun - _QUEUE)
        return end, taken

    def _store(self, line: int, slot: Slot, at: float) -> float:
        begun = self.l1_port.take(at)
        if slot.word >= 0:
            self.l1.put(line, begun)
        self.stored += LINE_BYTES
        begun = _take_slots(self.port, self.store_port_slots, begun)
        since = self._since(begun)
        return max(self.out.take(since), _take_slots(self.l2, self.store_l2_slots, since), begun)

    def _since(self, at: float) -> float:
        """Return the earliest time at which L2 can serve an access made at `at`."""
        self.first = min(self.first, at)
        return max(self.first, at - self.saved)

    def _load(self, line: int, slot: Slot, at: float) -> tuple[float, float]:
        begun = self.l1_port.take(at)
        ready = begun if slot.word < 0 else self.l1.read_line(line, keep=not slot.last)
        if ready is not None:
            return max(begun + self.latency, ready), begun
        self.loaded += LINE_BYTES
        begun = _take_slots(self.port, _PORT_SLOTS, begun)
        begun = max(_take_slots(self.l2, _L2_SLOTS, self._since(begun)), begun)
        end = begun + self.miss_latency
        if not slot.last:
            self.l1.put(line, end)
        return end, begun


def _take_slots(slots: Slots, count: int, at: float) -> float:
    for _ in range(count):
        at = slots.take(at)
    return at
