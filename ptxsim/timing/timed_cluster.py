"""A cluster whose warps and asynchronous work have clocks; simulation.py has the event loop."""

from dataclasses import dataclass

from ..core.cluster import Cluster
from ..core.launch import Dim3
from ..core.registers import RegisterFile
from ..core.warp import PARTED, RUNNING, WAITING, Fragment
from ..core.work import Pipe, Task
from ..frontend.code import Block
from ..frontend.syntax import Instruction
from .cluster_clock import ClusterClock, Resources
from .engines import Engines, skip
from .event import Event
from .hardware import WarpClock
from .timed_program import ACQUIRE
from .watcher import ClockAndChecks, Watcher

_POLL = 16.0  # extra cycles per poll
_NOT_YET = -2  # no next block: the warp's other lanes must come first


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSlot:
    """A slot for one concurrent cluster: its number, and registers for each CTA."""

    number: int
    registers: list[RegisterFile]


class TimedCluster(Cluster):
    """CTAs on SMs, with a clock that holds the current event."""

    def __init__(self, shared: Resources, indices: list[Dim3], cluster_slot: ClusterSlot, begin: float) -> None:
        self.shared = shared
        self.clock = ClusterClock(shared, begin)
        self.known = 0  # progress already seen by the simulation
        self.posted: list[tuple[Pipe, Task]] = []  # requested work that has not begun
        self.finish: dict[Task, float] = {}  # completion times of begun work
        super().__init__(shared.machine, indices, cluster_slot.registers)
        watcher = Watcher(self.clock)
        self.observer = ClockAndChecks(watcher, self.observer) if shared.machine.checks else watcher
        self.engines = Engines(self.clock)
        for cta in self.ctas:
            if not shared.machine.numerics:
                cta.shared.fill(0)
            for f in cta.fragments:
                self.clock.add(cta, f, cluster_slot.number)

    @property
    def later(self) -> int:
        """0, since clusters run concurrently."""
        return 0

    @property
    def over(self) -> bool:
        return not self.pipes.queues and not any(cta.fragments for cta in self.ctas)

    # warps
    def step(self, warp: WarpClock, f: Fragment) -> None:
        """Run the block of a warp's fragment, and advance the warp's clock."""
        program, constants = self.shared.machine.timed_program, self.clock.constants
        index = f.pc
        block, ops, acts = program.blocks[index], program.costs[index], program.asynchronous[index]
        first = program.instructions[block.first]
        self.rest = False
        if acts:  # its effects occur when its instructions have been issued
            warp.walk(ops, {}, {})
        event = self.clock.event = Event(warp.time, f)
        following = self._run_block(event, f, block)
        if acts:
            self._begin_posted(event)
            self._signal(event, warp, first)
            if index in program.afterwards:
                warp.walk(program.afterwards[index], {}, {})
        elif following != _NOT_YET:
            warp.walk(ops, event.latencies, event.passes)
        if slow := self.shared.machine.slow[index]:
            warp.divide(slow)
        if event.waited > warp.time:
            self.shared.recorder.waited(warp, warp.time, event.waited, first)
            warp.time = event.waited
        if following >= 0 and following != block.next and ops and ops[-1].unit == "branch" and ops[-1].address < 0:
            warp.time += constants.branch_cycles
        if self.rest:
            warp.time += _POLL
        if f.state is WAITING:
            warp.asleep = (warp.time, f.wait)

    def _run_block(self, event: Event, f: Fragment, block: Block) -> int:
        """Execute a block; return the next, -1 at the end, or _NOT_YET."""
        visits = self.machine.visits
        if f.family is not None:
            f.reconverge()
        if f.mask is None:
            run = block.full or self.program.compile(block, masked=False)
        elif block.collective and not f.whole():
            f.state = PARTED
            return _NOT_YET
        else:
            run = block.masked or self.program.compile(block, masked=True)
        visits[block.index] = visits.get(block.index, 0) + 1
        if self.machine.trace is not None:
            self.machine.trace(f"{event.now:.0f} {self._trace_line(f, block)}")
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

    def _signal(self, event: Event, warp: WarpClock, ins: Instruction) -> None:
        """Time releasing cluster arrivals, descriptor acquires and programmatic dependent launch."""
        constants, dependent = self.clock.constants, self.shared.dependent
        if ins.parts[:3] == ("barrier", "cluster", "arrive") and "relaxed" not in ins.parts:
            warp.time += constants.cluster_release_latency
        elif ins.op.startswith(ACQUIRE):
            warp.time += constants.tma_descriptor_latency
        elif ins.base != "griddepcontrol":
            return
        elif "wait" not in ins.parts:
            dependent.triggered = max(dependent.triggered or 0.0, event.now)
        elif dependent.first and self.clock.begin == 0:
            dependent.awaited = max(dependent.awaited or 0.0, event.now)

    # asynchronous work
    def post(self, pipe: Pipe, task: Task) -> None:
        super().post(pipe, task)
        self.posted.append((pipe, task))

    def _begin_posted(self, event: Event) -> None:
        """Begin the requested work."""
        for pipe, task in self.posted:
            if task not in self.finish:
                self._begin(event, pipe, task)
        self.posted.clear()

    def _begin(self, event: Event, pipe: Pipe, task: Task) -> None:
        """Compute when a task completes, and schedule that."""
        end = self.finish[task] = self.engines.begin(pipe, task, event.now)
        self.shared.calendar.task_at(end, self, pipe, task)

    def complete(self, pipe: Pipe) -> None:
        """Finish the first task of a pipe for a wait, delaying the fragment."""
        event, task = self.clock.event, self.pipes.queues[pipe][0]
        if task not in self.finish:
            self.posted = [x for x in self.posted if x[1] is not task]
            self._begin(event, pipe, task)
        end = self.finish[task]
        event.wait_until(end)
        self._finish(event, pipe, end)

    def finish_task(self, pipe: Pipe, task: Task, end: float) -> None:
        """Finish a task at its scheduled time, unless a wait has already finished it."""
        if task in self.finish:
            self._finish(Event(end), pipe, end)

    def _finish(self, during: Event, pipe: Pipe, end: float) -> None:
        """Finish a task with all its visible effects, in an event of its own."""
        task = self.pipes.take(pipe)
        self.steps = 0
        self.finish.pop(task, None)
        self.progress += 1
        self.clock.stored(end)
        event = self.clock.event = during.work_done(max(end, self.clock.begin))
        if self.shared.machine.numerics or not skip(task):
            task.run()
        self._begin_posted(event)
        during.wait_until(event.waited)
        self.clock.event = during
