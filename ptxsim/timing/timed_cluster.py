"""A cluster whose warps and asynchronous work have clocks; the event loop is in simulation.py."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..barriers import MBarrier
from ..cluster import Cluster
from ..launch import Dim3
from ..program import Block
from ..warp import PARTED, RUNNING, WAITING, Fragment
from ..work import Pipe, Task
from .engines import Engines, skip
from .hardware import SM, Found, WarpClock
from .l1_cache import Lines
from .timed_program import ACQUIRE
from .watcher import Both, Watcher

if TYPE_CHECKING:
    from ..cta import CTA
    from ..memory import Access, Allocation
    from ..syntax import Instruction
    from .simulation import Place, Simulation

_POLL = 16.0  # cycles that a warp which polls lets pass besides its instructions


class TimedCluster(Cluster):
    """CTAs on SMs of their own (`sms`, by rank). `now` is the time of what is being done."""

    def __init__(self, simulation: Simulation, indices: list[Dim3], place: Place, sms: list[SM]) -> None:
        self.simulation, self.sms = simulation, sms
        self.figures = simulation.figures
        self.now = self.begin = self.drained = simulation.now
        self.waited = 0.0  # when the work is done that a block has waited for
        self.actor: Fragment | None = None
        self.known = 0  # the progress that the simulation has seen
        self.posted: list[tuple[Pipe, Task]] = []
        self.finish: dict[Task, float] = {}
        self.visible: dict[MBarrier, float] = {}  # when the latest phase of a barrier can be seen
        self.latencies: dict[int, Found] = {}  # of the block's accesses, by PTX line
        self.passes: dict[int, float] = {}
        super().__init__(simulation.machine, indices, place.registers)
        watcher = Watcher(self)
        self.observer = Both(watcher, self.observer) if simulation.machine.checks else watcher
        self.engines = Engines(self)
        self.clocks: dict[tuple[int, int], WarpClock] = {}
        for cta in self.ctas:
            if not simulation.machine.numerics:
                cta.shared.fill(0)
            for f in cta.fragments:
                self.clocks[cta.rank, f.lo >> 5] = self._clock(cta, f, place.number)

    def _clock(self, cta: CTA, f: Fragment, place: int) -> WarpClock:
        sm, warp = self.sms[cta.rank], f.lo >> 5
        clock = WarpClock(sm, sm.schedulers[warp % len(sm.schedulers)], cta, warp, self.now, f)
        clock.place = place * _MOST_WARPS + warp
        self.simulation.at(clock.time, clock)
        return clock

    def clock_of(self, f: Fragment) -> WarpClock:
        return self.clocks[f.cta.rank, f.lo >> 5]

    @property
    def later(self) -> int:
        """Clusters run beside each other."""
        return 0

    @property
    def over(self) -> bool:
        return not self.pipes.queues and not any(cta.fragments for cta in self.ctas)

    # a warp's turn
    def step(self, clock: WarpClock, f: Fragment) -> None:
        """Run the block at which a fragment of a warp stands, and let the warp's clock go on."""
        index, simulation = f.pc, self.simulation
        program = simulation.machine.timed_program
        block, ops = self.program.blocks[index], program.costs[index]
        acts = program.asynchronous[index]
        self.rest, self.actor, self.waited = False, f, 0.0
        if acts:
            clock.walk(ops, self.latencies, self.passes)
        self.now = clock.time
        following = self._run_block(f, block)
        if acts:
            for pipe, task in self.posted:
                self.begin_task(pipe, task, self.now)
            self.posted.clear()
            self._special(clock, program.instructions[block.first])
            if index in program.afterwards:
                clock.walk(program.afterwards[index], {}, {})
        elif following != -2:
            clock.walk(ops, self.latencies, self.passes)
        if slow := simulation.machine.slow[index]:
            clock.divide(slow)
        if self.latencies:
            self.latencies = {}
        if self.passes:
            self.passes = {}
        if self.waited > clock.time:
            simulation.recorder.waited(clock, clock.time, self.waited, program.instructions[block.first])
            clock.time = self.waited
        if following >= 0 and following != block.next and ops and ops[-1].unit == "branch" and ops[-1].address < 0:
            clock.time += self.figures.branch_cycles
        if self.rest:
            clock.time += _POLL
        if f.state is WAITING:
            clock.asleep = (clock.time, f.wait)
        self.actor = None

    def _run_block(self, f: Fragment, block: Block) -> int:
        """What the block does; the next block, -1 at the end, -2 when the warp's other lanes have to come first."""
        visits = self.machine.visits
        if f.family is not None:
            f.turn()
        if f.mask is None:
            run = block.full or self.program.compile(block, masked=False)
        elif block.collective and not f.whole():
            f.state = PARTED
            return -2
        else:
            run = block.masked or self.program.compile(block, masked=True)
        visits[block.index] = visits.get(block.index, 0) + 1
        if self.machine.trace is not None:
            self.machine.trace(f"{self.now:.0f} {self._trace_line(f, block)}")
        self.steps += 1
        following = run(f)
        if following < 0:
            if f.state is RUNNING:
                f.exit()
            return -1
        f.pc = following
        if f.family is not None:
            for other in f.family:
                other.unpart()
        return following

    def _special(self, clock: WarpClock, ins: Instruction) -> None:
        """Arrivals with release semantics, acquired descriptors; when the grid waits for the one before it or lets the
        next one start."""
        simulation = self.simulation
        if ins.parts[:3] == ("barrier", "cluster", "arrive") and "relaxed" not in ins.parts:
            clock.time += self.figures.cluster_release_latency
        elif ins.op.startswith(ACQUIRE):
            clock.time += self.figures.tma_descriptor_latency
        elif ins.base != "griddepcontrol":
            return
        elif "wait" not in ins.parts:
            simulation.triggered = max(simulation.triggered or 0.0, self.now)
        elif not simulation.ran and self.begin == 0:
            simulation.awaited = max(simulation.awaited or 0.0, self.now)

    # asynchronous work
    def post(self, pipe: Pipe, task: Task) -> None:
        super().post(pipe, task)
        self.posted.append((pipe, task))

    def begin_task(self, pipe: Pipe, task: Task, at: float) -> None:
        """Find out when a task will be done and note that in the calendar."""
        end = self.finish[task] = self.engines.begin(pipe, task, at)
        self.simulation.task_at(end, self, pipe, task)

    def complete(self, pipe: Pipe) -> None:
        """A wait needs the first task of a pipe: the fragment goes on when it is done."""
        task = self.pipes.queues[pipe][0]
        if task not in self.finish:
            self.posted = [x for x in self.posted if x[1] is not task]
            self.begin_task(pipe, task, self.now)
        end = self.finish[task]
        self.waited = max(self.waited, end)
        self._finish(pipe, end)

    def finish_task(self, pipe: Pipe, task: Task, end: float) -> None:
        """A task's time has come, unless a wait was there before."""
        if task in self.finish:
            self.actor = None
            self._finish(pipe, end)

    def _finish(self, pipe: Pipe, end: float) -> None:
        before, actor = self.now, self.actor
        task = self.pipes.take(pipe)
        self.steps = 0
        self.finish.pop(task, None)
        self.now, self.actor = max(end, self.begin), None
        self.progress += 1
        self.drained = max(self.drained, end)
        if self.simulation.machine.numerics or not skip(task):
            task.run()
        for other_pipe, other in self.posted:
            if other not in self.finish:
                self.begin_task(other_pipe, other, self.now)
        self.posted.clear()
        self.now, self.actor = before, actor

    # who wakes whom
    def let_go(self, bar: MBarrier) -> None:
        """A phase of an mbarrier has completed."""
        f, delay = self.figures, 0.0
        if self.actor is not None:
            delay = f.mbarrier_arrive_latency if self.actor.cta is bar.cta else f.mbarrier_remote_latency
        self.visible[bar] = self.now + delay
        for sleeper in bar.sleepers:
            self.wake(sleeper, self.now + delay + f.mbarrier_wake_latency)

    def passed(self, f: Fragment, bar: MBarrier) -> None:
        """A fragment has found a phase complete: it cannot before its completion can be seen."""
        self.waited = max(self.waited, self.visible.get(bar, 0.0))

    def released(self, sleepers: list[Fragment], latency: float) -> None:
        for f in sleepers:
            if f.state is WAITING:
                self.wake(f, self.now + latency)

    def wake(self, f: Fragment, at: float) -> None:
        clock = self.clock_of(f)
        if clock.asleep is not None:
            since, wait = clock.asleep
            self.simulation.recorder.slept(clock, since, at, wait, self)
            clock.asleep = None
        clock.time = max(clock.time, at)
        self.simulation.at(clock.time, clock)

    # what blocks touch
    def touched_global(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        sm, ins = self.sms[f.cta.rank], self.program.instructions[access.at]
        memory, machine = self.simulation.memory, self.simulation.machine
        if access.write:
            machine.keep(allocation, offsets, access.size)
        asked = float(access.size * len(offsets))
        lines = _lines(offsets, access.size, allocation.start >> 5)
        if access.write and not access.atomic:
            end = memory.store(sm, allocation.address, lines, asked, self.now)
            self.drained = max(self.drained, end)
            backlog = sm.stores.free - self.now - _STORE_BUFFER / sm.stores.rate
            self.waited = max(self.waited, self.now + backlog, memory.l2_writes.free - _STORE_BUFFER / sm.stores.rate)
            return
        if access.atomic:
            sm.l1.drop(lines)
        end, least = memory.load(sm, allocation.address, lines, asked, self.now, in_l1=not access.ordered)
        if access.atomic:
            atomic = self.figures.atomic_cycles * len(offsets)
            end, least = end + atomic, least + atomic
        self._found(ins.line, end, least)

    def _found(self, line: int, end: float, least: float) -> None:
        """When an access of this block has its result; of several of one line the last one counts."""
        before = self.latencies.get(line, _NOTHING)
        self.latencies[line] = Found(max(before.cycles, end - self.now), max(before.least, least))

    def touched_shared(self, target: CTA, f: Fragment, offsets: np.ndarray, access: Access) -> None:
        ins = self.program.instructions[access.at]
        line, passes = ins.line, float(bank_passes(offsets.tobytes(), access.size))
        if access.size == 2 and ins.base in ("ldmatrix", "stmatrix"):
            passes /= 2  # transposed ones come in halves of a word
        if target is not f.cta:
            end = self.sms[f.cta.rank].network.take(access.size * len(offsets), self.now) + self.figures.dsm_latency
            self._found(line, end, self.figures.dsm_latency)
            self.drained = max(self.drained, end)
        else:
            self.passes[line] = self.passes.get(line, 0) + passes
        if access.atomic:
            cycles = self.figures.shared_atomic_latency + passes
            self.latencies[line] = Found(cycles, cycles)

    def touched_tensor_memory(self, f: Fragment, at: int, warp: int, size: int, write: bool) -> None:
        clock, line = self.clock_of(f), self.program.instructions[at].line
        port = clock.scheduler.tensor_memory_stores if write else clock.scheduler.tensor_memory_loads
        end = port.take(size, self.now) + self.figures.tmem_load_latency
        self.latencies[line] = Found(end - self.now, self.figures.tmem_load_latency)
        if write:
            clock.stored = max(clock.stored, end)
        else:
            clock.loaded = max(clock.loaded, end)

    def tensor_memory_waited(self, f: Fragment, stores: bool) -> None:
        clock = self.clock_of(f)
        self.waited = max(self.waited, clock.stored if stores else clock.loaded)


_NOTHING = Found(0.0, 0.0)
_MOST_WARPS = 32  # of a CTA
_STORE_BUFFER = 8192.0  # bytes of ordinary stores that may be on their way before a warp has to wait


def _lines(offsets: np.ndarray, size: int, start: int) -> Lines:
    """The 32-byte sectors, by line, that accesses of `size` bytes at offsets from sector `start` touch."""
    first = offsets.astype(np.int64)
    found = set((first >> 5).tolist())
    if size > 1:
        found |= set(((first + size - 1) >> 5).tolist())
    lines: Lines = {}
    for sector in sorted(found):
        at = sector + start
        lines[at >> 2] = lines.get(at >> 2, 0) | 1 << (at & 3)
    return lines


@lru_cache(maxsize=65536)
def bank_passes(raw: bytes, size: int) -> int:
    """Passes through the 32 banks of an access of `size` bytes per lane at these byte offsets (uint64)."""
    offsets = np.frombuffer(raw, np.uint64).astype(np.int64)
    together, passes = 32 if size <= 4 else max(128 // size, 1), 0
    for start in range(0, len(offsets), together):
        group = offsets[start : start + together]
        words = np.unique((group[:, None] + np.arange(0, max(size, 4), 4)) >> 2)
        passes += int(np.bincount(words & 31).max())
    return passes
