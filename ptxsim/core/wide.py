"""CTAs that cannot see each other, run in step as one wide CTA.

numpy takes about as long for the lanes of several CTAs as for one CTA. If the order of CTAs could matter, or there is
anything to report, all stores are undone and the launch runs CTA by CTA. So results are equal either way.
"""

import itertools
from typing import NoReturn

import numpy as np

from ..checks.access_history import AccessHistory
from ..checks.independence import Dependent, Independence
from ..frontend.code import Block
from ..memory.global_memory import word_views
from .barriers import NamedBarrier
from .cluster import Cluster
from .counts import Counts
from .cta import CTA
from .launch import Dim3
from .machine import Machine, one_thread
from .observer import Observer
from .registers import RegisterFile
from .schedule import Schedule
from .shares import run_shares
from .special_registers import AXES, special_register
from .warp import Fragment

LANES = 8192  # of a wide CTA; more gain nothing
LONGEST = 20_000  # blocks without a store; longer loops may be livelocks


def run_machine(machine: Machine, processes: int = 1) -> None:
    """Run a launch: in step if its CTAs are independent, else cluster by cluster."""
    in_step = _eligible(machine)
    if in_step and not machine.program.dependent and _run_in_step(machine):
        return
    machine.program.dependent |= in_step
    run_shares(machine, processes)


def _eligible(machine: Machine) -> bool:
    launch, program, schedule = machine.launch, machine.program, machine.schedule
    return (
        program.has_independent_ctas
        and not program.unwritten
        and launch.cluster == launch.preferred_cluster == (1, 1, 1)
        and launch.grid != (1, 1, 1)
        and launch.threads % 32 == 0
        and not (schedule.apart or schedule.delay or machine.trace or machine.counts.tracking)
    )


def _run_in_step(machine: Machine) -> bool:
    """Run a launch in step; return False, with nothing changed, if its CTAs depend."""
    wide = _WideMachine(machine)
    try:
        with np.errstate(all="ignore"), one_thread():
            runs = wide.run_all()
    except Dependent:
        wide.independence.undo()
        return False
    machine.counts, machine.visits, machine.history = wide.counts, wide.visits, wide.history
    for visits in itertools.chain.from_iterable(runs):
        machine.coverage.note_loops(visits)
    machine.coverage.visited |= machine.visits.keys()
    machine.coverage.ranges.add((0, machine.launch.warps - 1))
    machine.finish()
    return True


class _WideMachine(Machine):
    """A launch in step, with counts, visits and history; findings raise Dependent."""

    def __init__(self, machine: Machine) -> None:
        self.__dict__.update(machine.__dict__)
        self.counts, self.visits = Counts(), {}
        self.schedule, self.step_limit = Schedule("eager"), LONGEST
        self.history = None if machine.history is None else AccessHistory(machine, machine.history.before)
        self.independence = Independence(self, self.history)
        self.trace = lambda line: None  # clusters without it make no trace lines

    def run_all(self) -> list[list[dict[int, int]]]:
        """Run all CTAs; return, per group of them, the different visits of blocks around loops."""
        indices = [index for cluster in self.launch.clusters() for index in cluster]
        warps, at_once = self.launch.warps, max(LANES // self.launch.threads, 1)
        registers: dict[int, RegisterFile] = {}
        runs = []
        for first in range(0, len(indices), at_once):
            some = indices[first : first + at_once]
            threads = len(some) * self.launch.threads
            if threads not in registers:
                registers[threads] = RegisterFile(self.launch.kernel.registers, threads)
            self.independence.begin(first * warps, len(some) * warps, len(some) * (self.layout.shared_bytes + 15))
            cluster = _WideCluster(self, some, [registers[threads]])
            cluster.run()
            runs.append(cluster.loop_visits())
        return runs

    def observe(self, cluster: Cluster) -> Observer:
        return self.independence

    def report(self, *args: object, **options: object) -> NoReturn:
        raise Dependent


class _WideCluster(Cluster):
    """A wide CTA, and how often its CTAs visit the blocks around loops."""

    def __init__(self, machine: _WideMachine, indices: list[Dim3], registers: list[RegisterFile]) -> None:
        super().__init__(machine, indices, registers)
        loops = machine.coverage.entries
        self.visits = {block: np.zeros(len(indices), np.int64) for at, ins in loops.items() for block in (at, *ins)}

    def _make_ctas(self, indices: list[Dim3], registers: list[RegisterFile]) -> list[CTA]:
        return [_WideCTA(self, indices, registers[0])]

    def _trace_line(self, f: Fragment, block: Block) -> str:
        visits = self.visits.get(block.index)
        if visits is not None:
            warps = f.cta.launch.warps
            visits += warps if f.mask is None else f.mask.reshape(-1, 32).any(1).reshape(-1, warps).sum(1)
        return ""

    def loop_visits(self) -> list[dict[int, int]]:
        """Return the visits of blocks around loops, once for all CTAs with equal visits."""
        if not self.visits:
            return []
        blocks, rows = list(self.visits), np.unique(np.array(list(self.visits.values())), axis=1).T
        return [dict(zip(blocks, row.tolist(), strict=True)) for row in rows]

    def give_up(self, limit: bool = False) -> NoReturn:
        raise Dependent


class _WideCTA(CTA):
    """CTAs whose threads are numbered through."""

    def __init__(self, cluster: Cluster, indices: list[Dim3], registers: RegisterFile) -> None:
        self.indices = indices
        super().__init__(cluster, indices[0], 0, registers)
        self.alive[:] = True
        each, size = len(self.shared), len(indices)
        self.shared = np.tile(self.shared, size)
        self.words = word_views(self.shared)
        self.shared_starts = (np.arange(size, dtype=np.uint64) * np.uint64(each)).repeat(self.launch.threads)

    def _threads(self, n: int) -> list[Fragment]:
        return [_WideFragment(self, 0, n, 0)]

    def barrier(self, number: int) -> NamedBarrier:
        return _WideBarrier(self, number)

    def special(self, name: str, lo: int, hi: int) -> np.ndarray:
        base, _, axis = name[1:].partition(".")
        threads = self.launch.threads
        if base in ("ctaid", "clusterid"):  # equal, since clusters have one CTA
            return np.array([index[AXES[axis]] for index in self.indices], np.uint32).repeat(threads)[lo:hi]
        return np.tile(special_register(self, name, 0, threads), len(self.indices))[lo:hi]


class _WideBarrier(NamedBarrier):
    """A barrier where all threads of some CTAs arrive at once."""

    def arrive(self, f: Fragment, at: int, expected: int | None, sleep: bool) -> None:
        threads, machine = f.cta.launch.threads, f.machine
        arrived = np.full(f.n, True) if f.mask is None else f.mask
        whole = arrived.reshape(-1, threads).all(1)
        if not sleep or expected not in (None, threads) or np.count_nonzero(whole) * threads != f.count:
            raise Dependent
        f.cta.cluster.progress += 1
        machine.counts.barrier_waits += int(np.count_nonzero(whole))
        f.cta.cluster.observer.barrier_arrived(f, self, at)


class _WideFragment(Fragment):
    """Threads of several CTAs: always the whole range, with a mask if some are elsewhere."""

    __slots__ = ()

    def _split(self, p: np.ndarray, target: int, fall: int) -> int:
        """Split into two masks; raise Dependent where a CTA alone would split along its warps."""
        size = self.n // self.cta.launch.threads
        taken = np.count_nonzero(p.reshape(-1, 32), axis=1)
        outcome = np.where((taken > 0) & (taken < 32), -1, taken).reshape(size, -1)
        along_warps = (outcome != outcome[:, :1]).any(1)
        whole = True if self.mask is None else self.mask.reshape(size, -1).all(1)
        if (along_warps & whole).any():
            raise Dependent
        return self._mask_apart(p, target, fall)
