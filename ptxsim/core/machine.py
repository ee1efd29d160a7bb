"""Runs one launch, cluster by cluster, and holds shared state: memory, counts, findings."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..checks import observer_for
from ..checks.access_history import AccessHistory
from ..frontend.program import Program, program_of
from ..memory.global_memory import Part
from ..memory.tensor_map import ChangedMap
from ..memory.tensor_memory import UNWRITTEN
from .cluster import Cluster, Stuck
from .counts import Counts
from .coverage import Coverage
from .finding import Finding
from .launch import Dim3, Launch, Layout
from .observer import Observer
from .progress import STEP_LIMIT
from .registers import RegisterFile
from .schedule import Schedule

if TYPE_CHECKING:
    from .warp import Fragment
    from .work import Origin


class Machine:
    """The state of one launch."""

    LIMIT = 400  # findings kept per launch
    RESIDENT = 64  # CTAs that run concurrently where clusters poll
    fill = UNWRITTEN  # each byte of shared and tensor memory before it is written

    def __init__(
        self,
        launch: Launch,
        schedule: Schedule,
        checks: frozenset[str] = frozenset(),
        trace: Callable[[str], None] | None = None,
        track: bool = False,
        sm_count: int = 148,
        before: AccessHistory | None = None,
        step_limit: int = STEP_LIMIT,
    ) -> None:
        self.step_limit = step_limit
        self.launch, self.schedule, self.checks, self.trace = launch, schedule, checks, trace
        self.apart = schedule.apart
        self.sm_count: int = sm_count
        self.ticks = 0  # %clock counts its reads
        self.program = self._program()
        if schedule.delay is not None:
            schedule.delay.enter(self.program)
        self.memory = launch.memory
        self.layout = Layout(launch)
        self.counts = Counts(tracking=track)
        self.number = schedule.launches
        schedule.launches += 1
        self.waiting = launch.clusters()  # clusters not yet launched; a running one may take over the next
        self.clusters = math.prod(-(-a // b) for a, b in zip(launch.grid, launch.cluster, strict=True))
        self.begun = 0  # how many of them have begun
        self.changed_maps: dict[int, ChangedMap] = {}  # TMA descriptors in global memory that the launch has changed
        self.visits: dict[int, int] = {}  # block → warps that have run it
        self.history = AccessHistory(self, before if launch.early else None) if "global" in checks else None
        self.coverage = Coverage.of(launch.name, self.program)
        self.by_key: dict[tuple[str, int, str], Finding] = {}
        if track:
            for allocation in self.memory.allocations:
                allocation.track()

    def _program(self) -> Program:
        """Return the kernel's executable program."""
        return program_of(self.launch.module, self.launch.kernel)

    def observe(self, cluster: Cluster) -> Observer:
        """Return the observer of a cluster: the enabled checks."""
        return observer_for(cluster, self.checks, self.history)

    @property
    def findings(self) -> list[Finding]:
        return list(self.by_key.values())

    def run(self) -> None:
        """Run every cluster of the grid; findings and counts stay on the machine."""
        with self.running():
            self.run_clusters()
        self.finish()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Prepare numpy for clusters; a deadlock ends the body."""
        with np.errstate(all="ignore"), one_thread(), contextlib.suppress(Stuck):
            yield

    def run_clusters(self, count: int | None = None) -> None:
        """Run the next `count` clusters, or all. Raises Stuck after a deadlock."""
        room = max(self.RESIDENT // math.prod(self.launch.cluster), 1)
        if self.schedule.backwards and self.program.polls:
            self.waiting = _backwards(self.waiting, room)
        pool, polling = self._registers(), list[Cluster]()
        for indices in itertools.islice(self.waiting, count):
            self.schedule.begin(self.number, self.begun)
            self.begun += 1
            cluster = Cluster(self, indices, pool)
            if not self._run(cluster, others=self.later > 0 or bool(polling)):
                polling.append(cluster)
                pool = self._registers()
            if len(polling) >= room:
                self._resume(polling)
        while polling:
            self._resume(polling)

    @property
    def later(self) -> int:
        """The number of clusters that have not begun."""
        return self.clusters - self.begun

    def finish(self) -> None:
        """Complete counts and coverage after all clusters."""
        self.counts.finish(self.program.blocks, self.visits, self.memory)
        if self.launch.preferred_cluster != self.launch.cluster:
            wanted, had = self.launch.preferred_cluster, self.launch.cluster
            self.coverage.preferred = f"it prefers clusters of {wanted}; only clusters of {had} were simulated"
        if self.history is not None and self.launch.early:
            self.coverage.unordered = self._untested_order(self.history)

    def _untested_order(self, history: AccessHistory) -> str:
        """Return why nothing tested that accesses wait for the launch before; empty if something did."""
        if history.before is not None and history.shares_memory(history.before):
            return ""
        why = "no launch came before it" if history.before is None else "the launch before uses none of its memory"
        return f"it may begin before the launch before ends: {why}, so that griddepcontrol.wait was not tested"

    def _registers(self) -> list[RegisterFile]:
        """Return the registers of a cluster's CTAs."""
        kernel, threads = self.launch.kernel, 32 * self.launch.warps
        return [RegisterFile(kernel.registers, threads) for _ in range(math.prod(self.launch.cluster))]

    def _run(self, cluster: Cluster, others: bool) -> bool:
        """Run or resume a cluster; return False if it polls what `others` may write."""
        before, over = dict(self.visits), True
        try:
            over = cluster.run(others)
        finally:
            if over:
                self.coverage.note(cluster, before)
        if over:
            cluster.release()
        else:
            cluster.observer.cluster_suspended()
        return over

    def _resume(self, polling: list[Cluster]) -> None:
        """Resume polling clusters, latest first; report a deadlock, raise Stuck, without progress."""
        moved = False
        for cluster in reversed(list(polling)):
            progress = cluster.progress
            cluster.observer.cluster_resumed()
            if self._run(cluster, others=True):
                polling.remove(cluster)
            moved = moved or cluster.progress != progress
        if not moved:
            polling[0].give_up()

    def read_global(self, address: int, size: int, origin: Origin) -> np.ndarray | None:
        """Return global bytes for a copy, counted as read; None if outside one allocation."""
        allocation = self.memory.find(address, size)
        if allocation is None:
            return None
        part = Part((size,), address - allocation.start, (1,))
        origin.cluster.observer.global_copied(allocation, origin, part, write=False)
        self.counts.global_copy(allocation, address, size, write=False)
        return allocation.span(address, size)

    def write_global(
        self, address: int, size: int, origin: Origin | None = None, combines: bool = False
    ) -> np.ndarray | None:
        """Return global bytes to fill, counted as written; None if outside one allocation."""
        allocation = self.memory.find(address, size)
        if allocation is None:
            return None
        if origin is not None:
            part = Part((size,), address - allocation.start, (1,))
            origin.cluster.observer.global_copied(allocation, origin, part, write=True, combines=combines)
        self.counts.global_copy(allocation, address, size, write=True)
        return allocation.span(address, size)

    def report(
        self,
        kind: str,
        message: str,
        at: int = -1,
        f: Fragment | None = None,
        lanes: np.ndarray | None = None,
        warp: int | None = None,
    ) -> None:
        """Record a finding, counting repeats; `warp` is at fault, else the first lane's."""
        key = (kind, at, message if at < 0 else "")
        ins = self.program.instructions[at] if at >= 0 else None
        threads = () if f is None or lanes is None else tuple(int(x) + f.lo for x in np.atleast_1d(lanes)[:8])
        if warp is None and f is not None:
            warp = (threads[0] if threads else f.lo) // 32
        finding = Finding(
            kind,
            message,
            self.launch.name,
            ptx_line=ins.line if ins else None,
            source=ins.source if ins else None,
            instruction=ins.text[:160] if ins else None,
            cta=f.cta.index if f is not None else None,
            warp=warp,
            lanes=tuple(x % 32 for x in threads),
        )

        self.add(key, finding)

    def add(self, key: tuple[str, int, str], finding: Finding) -> None:
        """Keep a finding, or count it as a repeat."""
        known = self.by_key.get(key)
        if known is not None:
            self.by_key[key] = replace(known, count=known.count + finding.count)
        elif len(self.by_key) < self.LIMIT:
            self.by_key[key] = finding


def _backwards(clusters: Iterator[list[Dim3]], room: int) -> Iterator[list[Dim3]]:
    """Yield clusters in reverse order, in groups of `room`."""
    while some := list(itertools.islice(clusters, room)):
        yield from reversed(some)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: the products are small, and joining a second costs milliseconds."""
    lib = blas()
    if lib is None:
        yield
        return
    before = lib.scipy_openblas_get_num_threads64_()
    lib.scipy_openblas_set_num_threads64_(1)
    try:
        yield
    finally:
        lib.scipy_openblas_set_num_threads64_(before)


@functools.cache
def blas() -> ctypes.CDLL | None:
    """Return numpy's OpenBLAS library; None if numpy uses another BLAS."""
    for path in (Path(np.__file__).parents[1] / "numpy.libs").glob("libscipy_openblas64_*"):
        lib = ctypes.CDLL(str(path))
        if hasattr(lib, "scipy_openblas_set_num_threads64_"):
            return lib
    return None
