"""One cluster of CTAs: threads and asynchronous work, in the order of a schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, Protocol

from ..frontend.code import Block
from .barriers import ClusterBarrier
from .cta import CTA
from .deadlock import Deadlock
from .launch import Dim3
from .progress import ProgressPolicy, TimeSlice
from .protocols import Machine
from .registers import RegisterFile
from .schedule import MANY, Schedule
from .warp import PARTED, RUNNING, Fragment
from .work import Heads, Pipe, Pipes, Task

if TYPE_CHECKING:
    from ..memory.bulk_store import Store
    from .observer import Observer


class Launched(Machine, Protocol):
    """The launch, with its schedule, trace and observer."""

    schedule: Schedule
    trace: Callable[[str], None] | None
    step_limit: int  # basic blocks that a cluster may run while no thread exits and no asynchronous work completes

    def observe(self, cluster: Cluster) -> Observer:
        """Return the observer of a cluster."""


class Stuck(Exception):
    """No thread and no asynchronous work can go on."""


class Cluster:
    """Concurrent CTAs; `progress` counts changes, `rest`: the slice only waited or polled."""

    def __init__(self, machine: Launched, indices: list[Dim3], registers: list[RegisterFile]) -> None:
        self.machine: Launched = machine
        self.program = machine.program
        self.pipes = Pipes()
        self.stores: dict[tuple[int, int], list[list[Store]]] = {}  # (rank, thread) → its groups of bulk stores
        self.progress, self.rest = 0, False
        self.steps = 0  # blocks that were run since a thread exited or asynchronous work completed
        self.granted_clusters, self.request_refused = (0, False)  # cluster launch control
        self.ctas: list[CTA] = []
        self.barrier = ClusterBarrier(self)
        self.ctas += self._make_ctas(indices, registers)
        self.observer = machine.observe(self)

    def _make_ctas(self, indices: list[Dim3], registers: list[RegisterFile]) -> list[CTA]:
        return [CTA(self, index, rank, registers[rank]) for rank, index in enumerate(indices)]

    def run(self, others: bool = False) -> bool:
        """Run until every thread has exited and all work is done.

        Return False if threads only poll global memory, so that `others` must run first; call again to resume.
        Raises Stuck after it has reported a deadlock.
        """
        schedule, queues = self.machine.schedule, self.pipes.queues
        others = others and self.machine.program.polls
        policy = ProgressPolicy(schedule, others)
        while True:
            ready = [f for cta in self.ctas for f in cta.fragments if f.state is RUNNING]
            pipes = list(queues)
            if not ready and not pipes:
                if not any(cta.fragments for cta in self.ctas):
                    break
                self.give_up()
            policy.count(self.progress, self.rest, self.steps, work=bool(pipes))
            if ready and self.steps > self.machine.step_limit:
                self.give_up(limit=True)
            if policy.stuck(ready):
                if others:
                    return False
                self.give_up()
            candidates = policy.candidates(ready)
            heads = [queues[pipe][0] for pipe in pipes] if len(pipes) <= MANY else Heads(self.pipes, pipes)
            choice = schedule.choose(candidates, heads)
            if choice < len(candidates):
                self._run_slice(policy.time_slice(candidates, choice))
            else:
                self.complete(pipes[choice - len(candidates)])
        for cta in self.ctas:
            cta.finish()
        return True

    def release(self) -> None:
        """Free the memory of a finished cluster, whose parts form cycles."""
        for part in (*self.ctas, self.observer):
            vars(part).clear()
        self.ctas.clear()

    def post(self, pipe: Pipe, task: Task) -> None:
        """Queue asynchronous work."""
        self.pipes.post(pipe, task)

    def complete(self, pipe: Pipe) -> None:
        """Run the first task of a pipe."""
        task = self.pipes.take(pipe)
        self.progress += 1
        self.steps = 0
        if self.machine.trace is not None:
            self.machine.trace(f"async {task.label}")
        task.run()

    def _run_slice(self, time_slice: TimeSlice) -> None:
        """Run a fragment until it sleeps, polls, exits or uses up its quantum of blocks.

        Fragments of its family at earlier blocks run first, unless it overtakes them.
        """
        f, quantum, overtakes = time_slice
        blocks, visits, trace = self.program.blocks, self.machine.visits, self.machine.trace
        self.rest = False
        for _ in range(quantum):
            if f.family is not None and not f.reconverge() and not overtakes:
                before = f.earlier()
                if before is None or not before.reconverge():
                    return
                f = before
            block = blocks[f.pc]
            if f.mask is None:
                run = block.full or self.program.compile(block, masked=False)
                visits[f.pc] = visits.get(f.pc, 0) + (f.n >> 5)
            else:
                if block.collective and not f.whole():
                    f.state = PARTED
                    return
                run = block.masked or self.program.compile(block, masked=True)
                visits[f.pc] = visits.get(f.pc, 0) + len(f.warps())
            if trace is not None:
                trace(self._trace_line(f, block))
            self.steps += 1
            following = run(f)
            if following < 0:
                if f.state is RUNNING:  # past the last instruction
                    f.exit()
                return
            f.pc = following
            if f.state is not RUNNING:
                return
            if f.family is not None:
                for other in f.family:
                    other.unpart()
            if self.rest:
                return

    def _trace_line(self, f: Fragment, block: Block) -> str:
        some = "" if f.mask is None else f" ({f.count} lanes)"
        line = self.program.instructions[block.first].line
        return f"CTA {f.cta.index} threads {f.lo}..{f.hi - 1}{some}: line {line}"

    @property
    def later(self) -> int:
        """The number of clusters that have not begun."""
        return self.machine.later

    def give_up(self, limit: bool = False) -> NoReturn:
        """Report the deadlock or, at the step `limit`, the loop, and raise Stuck."""
        deadlock = Deadlock(self)
        if limit:
            deadlock.report_limit()
        else:
            deadlock.report()
        raise Stuck
