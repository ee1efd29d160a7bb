"""Asynchronous work: tasks for copy engines and tensor cores, queued in pipes.

A task is a dataclass with all its operands as fields, so that a schedule can inspect it before it runs.
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
    """A queue of asynchronous work: in order within a pipe, unordered between pipes.

    `engine` is "tcgen05" (one per CTA), "wgmma" (one per warpgroup) or "cp.async" (one per warp). Copies that nothing
    orders each have a pipe "bulk", distinguished by `number`.
    """

    engine: str
    rank: int
    number: int = 0


@dataclass(slots=True, eq=False)
class Token:
    """A warp's clocks when it issued asynchronous work, and the work's serial number.

    `phases` has, per mbarrier that the work signals, the phase of the signal.
    """

    known: np.ndarray
    proxied: np.ndarray
    serial: int
    phases: dict[MBarrier, int]


NO_TOKEN = Token(np.zeros(0, np.int64), np.zeros(0, np.int64), 0, {})  # without vector clocks


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The issuer of asynchronous work: fragment, instruction, warp, and clocks at issue."""

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
        """The PTX line and source line of the instruction."""
        return self.fragment.machine.program.instructions[self.at].location

    @property
    def line(self) -> int:
        """The PTX line of the instruction."""
        return self.fragment.machine.program.instructions[self.at].line

    def report(self, kind: str, message: str) -> None:
        self.fragment.report(self.at, kind, message)


class Task:
    """A unit of asynchronous work, run once; `kind` selects how schedules treat it."""

    __slots__ = ()
    kind: Kind
    origin: Origin

    @property
    def label(self) -> str:
        """The task's name in a trace."""
        raise NotImplementedError

    def run(self) -> None:
        """Do the work, when the schedule picks it."""
        raise NotImplementedError

    def brings(self, cta: CTA, offset: int) -> bool:
        """Return whether the task will write a byte of a CTA's shared memory."""
        return False


class Pipes:
    """The queues of a cluster, in the order in which they became non-empty."""

    def __init__(self) -> None:
        self.queues: dict[Pipe, deque[Task]] = {}
        self.heads: Counter[Kind] = Counter()  # first tasks of the queues, by kind
        self._unordered = 0

    def post(self, pipe: Pipe, task: Task) -> None:
        """Append a task to a pipe's queue."""
        if pipe in self.queues:
            self.queues[pipe].append(task)
        else:
            self.queues[pipe] = deque([task])
            self.heads[task.kind] += 1

    def bringing(self, cta: CTA, offset: int) -> Task | None:
        """Return a queued task that will write a byte of a CTA's shared memory."""
        return next((t for queue in self.queues.values() for t in queue if t.brings(cta, offset)), None)

    def own(self, rank: int) -> Pipe:
        """Return a new pipe for work that nothing orders."""
        self._unordered += 1
        return Pipe("bulk", rank, self._unordered)

    def take(self, pipe: Pipe) -> Task:
        """Remove and return the first task of a pipe."""
        queue = self.queues[pipe]
        task = queue.popleft()
        self.heads[task.kind] -= 1
        if queue:
            self.heads[queue[0].kind] += 1
        else:
            del self.queues[pipe]
        return task


class Heads(Sequence[Task]):
    """The first task of each pipe, looked up on access; `kinds` counts them by kind."""

    def __init__(self, of: Pipes, pipes: list[Pipe]) -> None:
        self.queues, self.pipes, self.kinds = of.queues, pipes, of.heads

    def __len__(self) -> int:
        return len(self.pipes)

    def __getitem__(self, k: Any) -> Any:
        return self.queues[self.pipes[k]][0]
