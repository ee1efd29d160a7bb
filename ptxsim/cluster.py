"""One cluster of CTAs: its threads and its asynchronous work, in the order a schedule gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from .barriers import ClusterBarrier
from .checks import observer_for
from .cta import CTA
from .deadlock import Deadlock
from .launch import Dim3
from .program import Block
from .registers import RegisterFile
from .rounds import CALM, Rounds
from .schedule import MANY
from .warp import PARTED, RUNNING, Fragment
from .work import Heads, Pipe, Pipes, Task

if TYPE_CHECKING:
    from .machine import Machine
    from .store import Store

PATIENCE = 20_000  # turns of plain computation without any change of state before threads count as stuck
STEP_LIMIT = 10_000_000  # blocks that a cluster may run while no thread exits and no asynchronous work completes
# Schedules without chance: threads that poll must not keep others, or asynchronous work, from going on without end.
_FAIR_STEPS = 4_096  # blocks after which the next fragment goes first, though the one before may have changed something
_CALM_TURNS = 2  # with work outstanding, turns without any change of state after which turns are short
_CALM_QUANTUM = 32  # blocks of a short turn
_SPIN_TURNS = 128  # turns per fragment without any change of state after which the work, or a warp's other lanes, go on
_SPIN_STEPS = 50_000  # blocks after which the work goes on whatever changes: threads that poll may meet at a barrier


class Stuck(Exception):
    """No thread and no asynchronous work can go on."""


class Cluster:
    """CTAs that run together. `progress` counts changes of state; `rest` says that a turn only waited or polled."""

    def __init__(self, machine: Machine, indices: list[Dim3], registers: list[RegisterFile]) -> None:
        self.machine: Machine = machine
        self.program = machine.program
        self.pipes = Pipes()
        self.stores: dict[tuple[int, int], list[list[Store]]] = {}  # (rank, thread) → its groups of bulk stores
        self.progress, self.rest = 0, False
        self.steps = 0  # blocks that were run since a thread exited or asynchronous work completed
        self.taken, self.refused = 0, False  # other clusters whose work it was given, and whether it was denied one
        self.ctas: list[CTA] = []
        self.barrier = ClusterBarrier(self)
        for rank, index in enumerate(indices):
            self.ctas.append(CTA(self, index, rank, registers[rank]))
        self.observer = observer_for(self, machine.checks)

    def run(self) -> None:
        """Run until every thread has exited and all work is done. Raises Stuck after it has reported a deadlock."""
        rounds = Rounds()
        idle = busy = 0  # turns since the last change of state: of threads that waited, of plain computation
        last = -1
        queues = self.pipes.queues
        schedule, aim = self.machine.schedule, self.machine.schedule.aim
        while True:
            ready = [f for cta in self.ctas for f in cta.fragments if f.state is RUNNING]
            pipes = list(queues)
            if not ready and not pipes:
                if not any(cta.fragments for cta in self.ctas):
                    break
                self.give_up()
            if self.progress != last:
                idle, busy, last = 0, 0, self.progress
                rounds.forget()
            elif self.rest:
                idle += 1
            else:
                busy += 1  # it may yet lead somewhere
            if ready and self.steps > self.machine.step_limit:
                self.give_up(limit=True)
            if not pipes and (idle + busy > PATIENCE or rounds.all_of(ready)):
                self.give_up()
            fixed = schedule.at_once is not None
            waits = fixed and bool(pipes)
            spinning = waits and (busy > _SPIN_TURNS * len(ready) or self.steps > _SPIN_STEPS or rounds.all_of(ready))
            only_polling = spinning or (pipes and idle > 2 * len(ready) + 2)  # let asynchronous work go on
            if aim is not None and idle + busy <= 2 * len(ready) + 50:
                ready = aim.free(ready)
            candidates = [] if only_polling else ready
            heads = [queues[pipe][0] for pipe in pipes] if len(pipes) <= MANY else Heads(self.pipes, pipes)
            n = schedule.choose(candidates, heads)
            if n >= len(candidates):
                self.complete(pipes[n - len(candidates)])
            else:
                aside = self.steps // _FAIR_STEPS if fixed else 0
                f = ready[(n + idle + busy + aside) % len(ready)]
                first = f
                calm = waits and busy > _CALM_TURNS
                if calm or idle + busy > CALM:
                    first = f if f.family is None or f.turn() else _earliest(f, f.family) or f
                    f = rounds.instead(first)
                    if f is first and f.family is not None and busy > _SPIN_TURNS and busy % 2:
                        f = next((o for o in f.family if o is not f and o.state is RUNNING), f)
                    rounds.note(f)
                quantum = schedule.quantum()
                self._take_turn(f, min(quantum, _CALM_QUANTUM) if calm else quantum, overtakes=f is not first)
        for cta in self.ctas:
            cta.finish()

    def post(self, pipe: Pipe, task: Task) -> None:
        """Queue asynchronous work."""
        self.pipes.post(pipe, task)

    def complete(self, pipe: Pipe) -> None:
        """Run the task whose turn it is in a pipe."""
        task = self.pipes.take(pipe)
        self.progress += 1
        self.steps = 0
        if self.machine.trace is not None:
            self.machine.trace(f"async {task.label}")
        task.run()

    def _take_turn(self, f: Fragment, quantum: int, overtakes: bool) -> None:
        """Run a fragment, or those of its family that stand before it unless it overtakes them, until it sleeps, polls,
        exits or has run `quantum` blocks."""
        blocks, visits, trace = self.program.blocks, self.machine.visits, self.machine.trace
        self.rest = False
        for _ in range(quantum):
            if f.family is not None and not f.turn() and not overtakes:
                before = _earliest(f, f.family)
                if before is None or not before.turn():
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
        """How many clusters of the grid run after this one, which it must not wait for."""
        launch, (x, y, z) = self.machine.launch, self.ctas[0].index
        (gx, gy, gz), (cx, cy, cz) = launch.grid, launch.cluster
        across, down = -(-gx // cx), -(-gy // cy)
        return across * down * -(-gz // cz) - 1 - (x // cx + across * (y // cy + down * (z // cz)))

    def give_up(self, limit: bool = False) -> NoReturn:
        """Report who waits for what or, where the step `limit` was reached, where threads loop."""
        deadlock = Deadlock(self)
        if limit:
            deadlock.report_limit()
        else:
            deadlock.report()
        raise Stuck


def _earliest(f: Fragment, family: list[Fragment]) -> Fragment | None:
    """The first other fragment of a family that can run and stands before `f`."""
    family.sort(key=lambda other: other.pc)
    for other in family:
        if other is not f and other.state is RUNNING and other.pc < f.pc:
            return other
    return None
