"""Asynchronous work: what was asked of the copy engines and tensor cores, and in which pipes it waits its turn.

A task is a dataclass with named fields for all that it needs, so that a schedule can look at it (how many bytes, which
product) before it runs it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from .barriers import MBarrier
    from .cta import CTA
    from .protocols import Cluster, Machine
    from .warp import Fragment

Kind = Literal["copy", "store", "mma"]


class Pipe(NamedTuple):
    """Where asynchronous work queues: tasks of one pipe run in order, those of different pipes in any order.

    `engine` is "tcgen05" (one per CTA), "wgmma" (one per warpgroup) or "cp.async" (one per warp); copies that nothing
    orders have a pipe "bulk" each, told apart by `number`.
    """

    engine: str
    rank: int
    number: int = 0


@dataclass(slots=True, eq=False)
class Token:
    """The clocks of a warp when it issued asynchronous work (happens_before.py), and the work's serial number.

    `phases` has, per mbarrier the work signals, the phase that its signal belongs to.
    """

    known: np.ndarray
    proxied: np.ndarray
    serial: int
    phases: dict[MBarrier, int]


NO_TOKEN = Token(np.zeros(0, np.int64), np.zeros(0, np.int64), 0, {})  # where nobody keeps clocks


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Who asked for a piece of work: the fragment and its warp, the instruction, and the clocks of that moment."""

    fragment: Fragment
    at: int
    warp: int
    token: Token

    @property
    def cta(self) -> CTA:
        return self.fragment.cta

    @property
    def cluster(self) -> Cluster:
        return self.fragment.cta.cluster

    @property
    def machine(self) -> Machine:
        return self.fragment.machine

    @property
    def location(self) -> str:
        """Where the instruction stands: its PTX line and its source line."""
        return self.fragment.machine.program.instructions[self.at].location

    @property
    def line(self) -> int:
        """The PTX line of the instruction."""
        return self.fragment.machine.program.instructions[self.at].line

    def report(self, kind: str, message: str) -> None:
        self.fragment.report(self.at, kind, message)


class Task:
    """A piece of asynchronous work, run once. Schedules tell tasks apart by `kind`."""

    __slots__ = ()
    kind: Kind
    origin: Origin

    @property
    def label(self) -> str:
        """What a trace calls it."""
        raise NotImplementedError

    def run(self) -> None:
        """Do the work at the moment the schedule has picked."""
        raise NotImplementedError

    def brings(self, cta: CTA, offset: int) -> bool:
        """Return whether it will write a byte of a CTA's shared memory."""
        return False


class Pipes:
    """The queues of a cluster, in the order in which they came to hold work."""

    def __init__(self) -> None:
        self.queues: dict[Pipe, deque[Task]] = {}
        self.heads: Counter[Kind] = Counter()  # how many tasks whose turn it is are of a kind
        self._unordered = 0

    def post(self, pipe: Pipe, task: Task) -> None:
        """Queue a task after what is queued in the same pipe."""
        if pipe in self.queues:
            self.queues[pipe].append(task)
        else:
            self.queues[pipe] = deque([task])
            self.heads[task.kind] += 1

    def bringing(self, cta: CTA, offset: int) -> Task | None:
        """Return a task that waits its turn and will write a byte of a CTA's shared memory."""
        return next((t for queue in self.queues.values() for t in queue if t.brings(cta, offset)), None)

    def own(self, rank: int) -> Pipe:
        """Return a pipe for work that nothing orders with any other."""
        self._unordered += 1
        return Pipe("bulk", rank, self._unordered)

    def take(self, pipe: Pipe) -> Task:
        """Return the task whose turn it is in a pipe, taken out of it."""
        queue = self.queues[pipe]
        task = queue.popleft()
        self.heads[task.kind] -= 1
        if queue:
            self.heads[queue[0].kind] += 1
        else:
            del self.queues[pipe]
        return task


class Heads(Sequence[Task]):
    """The tasks whose turn it is in pipes, looked up when they are asked for, and how many of them are of a kind."""

    def __init__(self, of: Pipes, pipes: list[Pipe]) -> None:
        self.queues, self.pipes, self.kinds = of.queues, pipes, of.heads

    def __len__(self) -> int:
        return len(self.pipes)

    def __getitem__(self, k: Any) -> Any:
        return self.queues[self.pipes[k]][0]
