"""Hooks that are called while launches run (public).

    class Arrivals(hooks.Observer):
        def barrier_arrived(self, f, barrier, at):
            print(f"warps {list(f.warps())} of CTA {f.cta.rank} arrive on barrier {barrier.number}")

    hooks.watch([launch], lambda launch, code: Arrivals())

A hook gets the simulator's own objects, whose types are exported here. Read them; do not modify them.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable

import numpy as np

from .core import observer
from .core.barriers import ClusterBarrier, MBarrier, NamedBarrier
from .core.cluster import Cluster, Stuck
from .core.cta import CTA
from .core.finding import Finding
from .core.launch import Launch
from .core.machine import Machine, one_thread
from .core.registers import RegisterFile
from .core.schedule import Schedule
from .core.warp import Fragment
from .core.work import Origin, Pipe, Task, Token
from .frontend.code import Block, Code
from .isa.bulk import BytesLoad, BytesStore
from .isa.cp_async import CopiesArrive, ThreadCopies
from .isa.hopper_product import approximate_sums
from .isa.tcgen05 import Commit, TensorCopy
from .isa.tensor_product import TensorProduct
from .isa.tma import BoxLoad, BoxStore
from .isa.wgmma import WarpgroupProduct
from .memory.bulk_store import ReadHalf
from .memory.global_memory import Access, Allocation

__all__ = [
    "CTA",
    "Access",
    "Allocation",
    "Block",
    "BoxLoad",
    "BoxStore",
    "BytesLoad",
    "BytesStore",
    "ClusterBarrier",
    "Code",
    "Commit",
    "CopiesArrive",
    "Fragment",
    "MBarrier",
    "NamedBarrier",
    "Observer",
    "Origin",
    "ReadHalf",
    "Task",
    "TensorCopy",
    "TensorProduct",
    "ThreadCopies",
    "Token",
    "WarpgroupProduct",
    "watch",
]


class Observer(observer.Observer):
    """Override the hooks that matter, including hooks of `core/observer.py`.

    In all hooks `f` is a fragment (threads in step), `at` the index of an instruction in the kernel's code.
    """

    _issued = 1

    def begins(self) -> None:
        """Handle the start of a cluster; later hooks belong to it until the next start."""

    def ran(self, f: Fragment, block: Block) -> None:
        """Handle a fragment that is about to run a basic block."""

    def asked(self, task: Task) -> None:
        """Handle a request for asynchronous work: a copy, store, product or commit."""

    def issued(self, f: Fragment, at: int, warp: int) -> Token:
        """Return a token that numbers the asynchronous work a warp issues."""
        self._issued += 1
        return Token(np.zeros(0, np.int64), np.zeros(0, np.int64), self._issued, {})


class _Watched(Cluster):
    """A cluster that reports every block it runs and every task it queues."""

    watcher: Observer

    def _trace_line(self, f: Fragment, block: Block) -> str:
        self.watcher.ran(f, block)
        return ""

    def post(self, pipe: Pipe, task: Task) -> None:
        self.watcher.asked(task)
        super().post(pipe, task)


def watch(
    launches: Iterable[Launch],
    observer: Callable[[Launch, Code], Observer],
    schedule: str = "random",
    seed: int = 0,
    *,
    clusters: int | None = None,
    exact: bool = True,
) -> list[list[Finding]]:
    """Run launches in order under one schedule; return each one's findings.

    It stops after the first launch that deadlocks.
    observer: called with a launch and its code, returns the observer of the launch.
    clusters: how many clusters of each launch run; outputs of the others stay unwritten.
    exact: False sums wgmma's products faster, and less exactly.
    Only addresses, barriers and deadlocks are checked.
    Raises PtxError for what cannot be simulated, ValueError for an unknown schedule.
    """
    per_launch: list[list[Finding]] = []
    plan = Schedule(schedule, seed)
    for launch in launches:
        machine = Machine(launch, plan)
        machine.trace = lambda line: None  # without it, clusters make no trace lines
        x, y, z = launch.cluster
        pool = [RegisterFile(launch.kernel.registers, 32 * launch.warps) for _ in range(x * y * z)]
        watcher = observer(launch, machine.program)
        sums = contextlib.nullcontext() if exact else approximate_sums()
        with np.errstate(all="ignore"), one_thread(), sums, contextlib.suppress(Stuck):
            for indices in itertools.islice(machine.waiting, clusters):
                watched = _Watched(machine, indices, pool)
                watched.watcher = watched.observer = watcher
                watcher.begins()
                watched.run()
        per_launch.append(machine.findings)
        if any(finding.kind == "deadlock" for finding in machine.findings):
            break
    return per_launch
