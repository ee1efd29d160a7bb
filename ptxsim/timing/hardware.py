"""Parts of an SM that warps and engines compete for, as reservations in SM cycles."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..core.warp import RUNNING
from .device import DeviceConstants
from .l1_cache import L1Cache
from .local_memory import LocalMemory
from .machine_code import Op
from .sass import CODE_LINE, SIZE
from .slots import Slots

if TYPE_CHECKING:
    from ..core.barriers import Wait
    from ..core.cta import CTA
    from ..core.warp import Fragment

_CODE_LINE_INSTRUCTIONS = CODE_LINE // SIZE
_LINE_BITS = CODE_LINE.bit_length() - 1
_CODE_WAYS = 4  # large cache: after a flush, straight code of 128 KiB misses in part, of 160 KiB throughout
_NEXT = 64  # a jump within so many bytes counts as a branch not taken
_SHARED_QUEUE = 64.0  # cycles of bank delay before the next access stalls
_OPERANDS_READ = 12.0  # cycles until a variable-latency instruction has read its registers


class Server:
    """A resource that moves bytes at a fixed rate, one request after another."""

    __slots__ = ("busy", "free", "rate")

    def __init__(self, rate: float) -> None:
        self.rate, self.free, self.busy = rate, 0.0, 0.0

    def take(self, amount: float, at: float) -> float:
        """Return when a request of `amount` made at `at` has been served."""
        cycles = amount / self.rate
        self.free = max(self.free, at) + cycles
        self.busy += cycles
        return self.free


class CodeCache:
    """The instruction caches of an SM, and the cost of their misses."""

    def __init__(self, constants: DeviceConstants) -> None:
        f = self.constants = constants
        sizes = (f.fetch_small_bytes, f.fetch_large_bytes, f.fetch_ahead_bytes)
        self.small, self.large, self.ahead = (int(size) // CODE_LINE for size in sizes)
        self.near_cycles = f.fetch_large_cycles * _CODE_LINE_INSTRUCTIONS  # cycles per line
        self.far_cycles = 0.0
        self.issue_cycles = f.fetch_small_cycles * _CODE_LINE_INSTRUCTIONS
        self.near: dict[int, tuple[float, float]] = {}  # line → (ready time, fetch cycles)
        self.far: list[dict[int, None]] = [{} for _ in range(max(self.large // _CODE_WAYS, 1))]

    def launched(self, size: int, own: Sequence[int], others: int, cold: bool) -> None:
        """Start a launch of `size` code lines; the previous call ran `own`.

        Since then `others` lines of other kernels ran. The large cache holds the most recent lines, and the launch
        prefetches the beginning of its code there. The small cache holds all of the code or none.
        L2 holds lines in neither; after a flush DRAM does.
        """
        f = self.constants
        far = f.fetch_dram_cycles if cold else f.fetch_far_cycles
        self.far_cycles = far * _CODE_LINE_INSTRUCTIONS
        since = others + (math.ceil(f.flush_code_bytes / CODE_LINE) if cold else 0)
        for line in (*own, *range(size, size + since)):  # other kernels' lines are assumed to follow it
            self._bring(line)
        if size <= self.small:
            self.near = dict.fromkeys(range(size), (0.0, 0.0))
        for line in range(min(size, self.ahead)):
            self._bring(line)

    def _bring(self, line: int) -> None:
        ways = self.far[line % len(self.far)]
        ways.pop(line, None)  # least recently used first
        ways[line] = None
        if len(ways) > _CODE_WAYS:
            del ways[next(iter(ways))]

    def fetch(self, line: int, at: float, requested_at: float) -> float:
        """Return a warp's wait for a code line requested earlier, by whatever warp."""
        near = self.near
        if line in near:
            ready_at, cycles = near.pop(line)  # least recently used first
            near[line] = ready_at, cycles
            return max(min(ready_at, requested_at + cycles) - at, 0.0) if ready_at > at else 0.0
        cycles = self.near_cycles if line in self.far[line % len(self.far)] else self.far_cycles
        near[line] = requested_at + cycles, cycles
        if len(near) > self.small:
            del near[next(iter(near))]
        self._bring(line)
        return max(requested_at + cycles - at, 0.0)


class Scheduler:
    """A warp scheduler: its issue slots and the pipes of its SM partition."""

    def __init__(self, constants: DeviceConstants) -> None:
        f = constants
        self.issue = Slots(1.0)
        self.pipes: dict[str, Slots] = {
            "fma": Slots(f.fma_pipe_cycles),
            "alu": Slots(f.alu_pipe_cycles),
            "conversion": Slots(f.conversion_pipe_cycles),
            "special": Slots(f.sfu_pipe_cycles),
            "double": Slots(f.double_pipe_cycles),
            "uniform": Slots(f.uniform_pipe_cycles),
        }
        self.tensor_free = 0.0  # of its tensor core
        self.tensor_memory_loads = Server(max(f.tmem_load_bytes_per_cycle, 1.0))
        self.tensor_memory_stores = Server(max(f.tmem_store_bytes_per_cycle, 1.0))


class SM:
    """One streaming multiprocessor."""

    def __init__(
        self,
        constants: DeviceConstants,
        sharers: int,
        l1_bytes: float,
        l2_rates: tuple[float, float, float] = (math.inf, math.inf, 0.0),
    ) -> None:
        """Set up an SM whose TPC has `sharers` SMs that load by TMA.

        `l2_rates` are its part of L2's bandwidth for local memory (MemorySystem.local_rates).
        """
        f = constants
        self.constants = f
        self.schedulers = [Scheduler(f) for _ in range(int(f.schedulers_per_sm))]
        memory = Slots(f.memory_pipe_cycles)
        for scheduler in self.schedulers:
            scheduler.pipes["memory"] = memory
        self.code = CodeCache(f)
        self.banks = Slots(1.0)
        tma_rate = min(f.tma_bytes_per_cycle, f.tma_bytes_per_cycle_tpc / sharers)
        self.tma, self.tma_fill = Server(tma_rate), Server(tma_rate)
        self.tma_units = Server(1.0)  # cycles of its address generation
        self.tma_stores = Server(f.tma_store_bytes_per_cycle)
        self.loads, self.stores = Server(f.load_bytes_per_cycle), Server(f.store_bytes_per_cycle)
        self.in_flight: deque[tuple[float, float]] = deque()  # ordinary loads: (completion, bytes)
        self.bytes_in_flight = 0.0
        self.l1, self.l1_cycles = L1Cache(l1_bytes), Server(1.0)
        self.local = LocalMemory(f, self.l1, *l2_rates)
        self.network = Server(f.dsm_bytes_per_cycle)
        self.tensor = Server(1.0)  # cycles of the tensor cores as one (tcgen05)
        self.tensor_busy = 0.0  # busy cycles of all tensor cores; wgmma counts quarters


class Latency(NamedTuple):
    """Cycles to a result: from the start of the block, and from issue without contention."""

    cycles: float
    least: float


@dataclass(slots=True)
class WarpClock:
    """A warp's time, scoreboards, and PTX registers' ready times."""

    sm: SM
    scheduler: Scheduler
    cta: CTA
    warp: int
    time: float
    fragment: Fragment  # the last one that ran
    boards: list[float] = field(default_factory=lambda: [0.0] * 6)
    ready: dict[tuple[int, int], float] = field(default_factory=dict)
    address: int = -1  # of the last machine instruction issued, and whether it was a branch
    branched: bool = False
    entered: float = 0.0  # when it entered its current code line
    loaded: float = 0.0  # when the warp's latest tcgen05.ld completes
    stored: float = 0.0
    products: deque[float] = field(default_factory=deque)  # start times of its latest products
    asleep: tuple[float, Wait | None] | None = None  # (since, wait)
    scheduled: bool = False  # whether it is in the calendar
    began: float = 0.0  # start of its current work, for the timeline
    warp_slot: int = 0  # the warp's slot on the SM

    def runnable(self) -> Fragment | None:
        """Return the warp's next fragment: the runnable one at the lowest block."""
        f = self.fragment
        if f.family is None and f.state is RUNNING:
            return f
        low = 32 * self.warp
        ready = [x for x in self.cta.fragments if x.lo == low and x.state is RUNNING]
        if not ready:
            return None
        self.fragment = min(ready, key=lambda x: x.pc)
        return self.fragment

    def walk(self, ops: tuple[Op, ...], done: dict[int, Latency], passes: dict[int, float]) -> None:
        """Issue instructions in order.

        `done` has, per PTX line, the latencies of its memory accesses, all requested at the start of the block.
        `passes` has their cycles in the banks of shared memory.
        """
        begun = t = self.time
        boards, ready, issue, pipes = self.boards, self.ready, self.scheduler.issue, self.scheduler.pipes
        issued, cycle = issue.following, issue.cycles
        for op in ops:
            unit, pipe, _, latency, stall, waits, sets, frees, _, address, reads, writes, slot = op
            if address >= 0:
                if self.branched or address >> _LINE_BITS != self.address >> _LINE_BITS:
                    t = self._fetched(address, t)
                self.address, self.branched = address, unit == "branch"
            # operands, pipe, and issue slot
            for board in waits:
                if boards[board] > t:
                    t = boards[board]
            for register in reads:
                if ready.get(register, 0.0) > t:
                    t = ready[register]
            if pipe:
                t = pipes[pipe].take(t)
            issue_slot = int(t / cycle)
            if issue_slot in issued:
                t = issue.take(t)
            else:  # inlined issue.take(t) for a free slot
                issued[issue_slot] = issue_slot + 1
            # scoreboards and registers of its operands and result
            if frees >= 0 and boards[frees] < t + _OPERANDS_READ:
                boards[frees] = t + _OPERANDS_READ
            if slot is not None or unit in _BY_MEMORY:
                end, t = self._accessed(op, t, begun, done, passes)
            else:
                end = t + latency
            if sets >= 0 and boards[sets] < end:
                boards[sets] = end
            for register in writes:
                ready[register] = end
            t += stall
        self.time = t

    def _fetched(self, address: int, t: float) -> float:
        """Return when an instruction is available, with its code line's fetch and taken branches."""
        line, last = address >> _LINE_BITS, self.address >> _LINE_BITS
        if line != last:
            code = self.sm.code  # the next line was prefetched, a branch target was not
            t += code.fetch(line, t, self.entered if line == last + 1 else t - code.issue_cycles)
            self.entered = t
        if self.branched and not self.address < address <= self.address + _NEXT:
            t += self.sm.constants.jump_cycles if address > self.address else self.sm.constants.branch_cycles
        return t

    def _accessed(
        self, op: Op, t: float, begun: float, done: dict[int, Latency], passes: dict[int, float]
    ) -> tuple[float, float]:
        """Return when a memory access has its result, and when the warp continues."""
        if op.slot is not None:
            return self.sm.local.access(self.warp_slot, op.slot, t)
        end = t + op.latency
        if op.line in done:
            cycles, least = done[op.line]
            end = max(begun + cycles, t + least)
        if op.unit == "shared" and op.line in passes:
            late = self._through_banks(t, passes[op.line])
            return end + late, t + max(late - _SHARED_QUEUE, 0.0)
        return end, t

    def divide(self, times: float) -> None:
        """Add the time of `times` slow-path divisions beyond their fast path."""
        f, issue, t = self.sm.constants, self.scheduler.issue, self.time
        count = round(times * f.slow_division_issue_cycles)
        apart = f.slow_division_latency / max(f.slow_division_issue_cycles, 1.0)
        for _ in range(count):
            t = issue.take(t) + apart
        self.time = t

    def _through_banks(self, at: float, passes: float) -> float:
        """Return the cycles that an access is delayed by shared-memory bank passes, own or others'."""
        banks, last = self.sm.banks, at
        for _ in range(round(passes)):
            last = banks.take(last)
        return last - at


_BY_MEMORY = frozenset({"global", "tensor", "shared"})
