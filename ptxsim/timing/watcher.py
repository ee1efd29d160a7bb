"""Observer for the clock: memory accesses, and barriers that release their waiters."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.observer import Observer
from .cluster_clock import ClusterClock
from .hardware import Latency
from .l1_cache import Lines

if TYPE_CHECKING:
    from ..core.barriers import ClusterBarrier, MBarrier, NamedBarrier
    from ..core.cta import CTA
    from ..core.warp import Fragment
    from ..memory.global_memory import Access, Allocation
    from ..memory.tensor_memory import TensorMemory


_STORE_BUFFER = 8192.0  # bytes of ordinary stores in flight before a warp stalls


class Watcher(Observer):
    """Records a block's accesses in the current event, and barrier releases."""

    def __init__(self, clock: ClusterClock) -> None:
        self.clock, self.constants = clock, clock.constants
        self.machine, self.memory = clock.shared.machine, clock.shared.memory

    def global_access(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        event, sm, memory = self.clock.event, self.clock.sms[f.cta.rank], self.memory
        ins = self.machine.program.instructions[access.at]
        if access.write:
            self.machine.save_for_undo(allocation, offsets, access.size)
        requested = float(access.size * len(offsets))
        lines = _sector_lines(offsets, access.size, allocation.start >> 5)
        if access.write and not access.atomic:
            self.clock.stored(memory.store(sm, allocation.address, lines, requested, event.now))
            backlog = sm.stores.free - event.now - _STORE_BUFFER / sm.stores.rate
            event.wait_until(event.now + backlog)
            event.wait_until(memory.l2_writes.free - _STORE_BUFFER / sm.stores.rate)
            return
        if access.atomic:
            sm.l1.drop(lines)
        end, least = memory.load(sm, allocation.address, lines, requested, event.now, in_l1=not access.ordered)
        if access.atomic:
            atomic = self.constants.atomic_cycles * len(offsets)
            end, least = end + atomic, least + atomic
        event.record_latency(ins.line, end, least)

    def shared_access(
        self, target: CTA, f: Fragment, offsets: np.ndarray, lanes: np.ndarray | None, access: Access
    ) -> None:
        event, ins = self.clock.event, self.machine.program.instructions[access.at]
        line, passes = ins.line, float(bank_passes(offsets.tobytes(), access.size))
        if ins.base == "stmatrix" or (ins.base == "ldmatrix" and access.size == 2):
            passes *= access.size / 4  # transposed matrices access words in two or four parts
        if target is not f.cta:
            network = self.clock.sms[f.cta.rank].network
            end = network.take(access.size * len(offsets), event.now) + self.constants.dsm_latency
            event.record_latency(line, end, self.constants.dsm_latency)
            self.clock.stored(end)
        else:
            event.passes[line] = event.passes.get(line, 0) + passes
        if access.atomic:
            cycles = self.constants.shared_atomic_latency + passes
            event.latencies[line] = Latency(cycles, cycles)

    def tmem_access(
        self, f: Fragment, at: int, warp: int, tm: TensorMemory, rows: np.ndarray, cols: np.ndarray, write: bool
    ) -> None:
        event, clock = self.clock.event, self.clock.of(f)
        port = clock.scheduler.tensor_memory_stores if write else clock.scheduler.tensor_memory_loads
        end = port.take(rows.size * 4, event.now) + self.constants.tmem_load_latency
        line = self.machine.program.instructions[at].line
        event.latencies[line] = Latency(end - event.now, self.constants.tmem_load_latency)
        if write:
            clock.stored = max(clock.stored, end)
        else:
            clock.loaded = max(clock.loaded, end)

    def tmem_waited(self, f: Fragment, stores: bool) -> None:
        clock = self.clock.of(f)
        self.clock.event.wait_until(clock.stored if stores else clock.loaded)

    def mbarrier_acquired(self, f: Fragment, bar: MBarrier, lanes: np.ndarray) -> None:
        self.clock.phase_seen(bar)

    def mbarrier_completed(self, bar: MBarrier) -> None:
        self.clock.phase_completed(bar)

    def barrier_released(self, barrier: NamedBarrier, sleepers: list[Fragment]) -> None:
        self.clock.released(sleepers, self.constants.named_barrier_latency)

    def cluster_waited(self, f: Fragment, barrier: ClusterBarrier) -> None:
        self.clock.released([f], self.constants.cluster_barrier_latency)


def _forward(name: str) -> Any:
    def call(self: ClockAndChecks, *args: Any, **options: Any) -> Any:
        getattr(self.clock, name)(*args, **options)
        return getattr(self.checks, name)(*args, **options)

    return call


class ClockAndChecks(Observer):
    """The clock and the checks in sequence; its tokens come from the checks."""

    def __init__(self, clock: Watcher, checks: Observer) -> None:
        self.clock, self.checks = clock, checks

    def __getattribute__(self, name: str) -> Any:
        if name == "serial":
            return self.checks.serial
        return super().__getattribute__(name)


for _name, _value in vars(Observer).items():
    if callable(_value) and not _name.startswith("_"):
        setattr(ClockAndChecks, _name, _forward(_name))


def _sector_lines(offsets: np.ndarray, size: int, start: int) -> Lines:
    """Return the 32-byte sectors, by line, of accesses at offsets from sector `start`."""
    first = offsets.astype(np.int64)
    latency = set((first >> 5).tolist())
    if size > 1:
        latency |= set(((first + size - 1) >> 5).tolist())
    lines: Lines = {}
    for sector in sorted(latency):
        at = sector + start
        lines[at >> 2] = lines.get(at >> 2, 0) | 1 << (at & 3)
    return lines


@lru_cache(maxsize=65536)
def bank_passes(raw: bytes, size: int) -> int:
    """Return the passes through the 32 banks of `size` bytes per lane at offsets (uint64)."""
    offsets = np.frombuffer(raw, np.uint64).astype(np.int64)
    lanes_per_pass, passes = 32 if size <= 4 else max(128 // size, 1), 0
    for start in range(0, len(offsets), lanes_per_pass):
        group = offsets[start : start + lanes_per_pass]
        words = np.unique((group[:, None] + np.arange(0, max(size, 4), 4)) >> 2)
        passes += int(np.bincount(words & 31).max())
    return passes
