"""Protocols: what parts of a run see of their launch and cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..frontend.program import Program
from ..memory.global_memory import Memory
from ..memory.tensor_map import ChangedMap
from .counts import Counts
from .launch import Dim3, Launch, Layout

if TYPE_CHECKING:
    from .barriers import ClusterBarrier
    from .cta import CTA
    from .observer import Observer
    from .warp import Fragment
    from .work import Origin, Pipe, Pipes, Task


class Machine(Protocol):
    """The state of one launch, shared by its clusters."""

    launch: Launch
    program: Program
    memory: Memory
    layout: Layout
    counts: Counts
    checks: frozenset[str]
    apart: bool  # whether warps run apart
    fill: int  # each byte of shared and tensor memory before it is written
    sm_count: int
    ticks: int  # %clock counts its reads
    waiting: Iterator[list[Dim3]]  # clusters not yet launched; a running one may take over the next
    changed_maps: dict[int, ChangedMap]  # TMA descriptors in global memory that the launch has changed
    visits: dict[int, int]  # block → warps that have run it

    @property
    def later(self) -> int:
        """Return how many clusters have not begun."""

    def report(
        self,
        kind: str,
        message: str,
        at: int = -1,
        f: Fragment | None = None,
        lanes: np.ndarray | None = None,
        warp: int | None = None,
    ) -> None:
        """Record a finding; repeats of a kind at an instruction are counted."""

    def read_global(self, address: int, size: int, origin: Origin) -> np.ndarray | None:
        """Return global bytes for a copy, counted as read; None if outside one allocation."""

    def write_global(
        self, address: int, size: int, origin: Origin | None = None, combines: bool = False
    ) -> np.ndarray | None:
        """Return global bytes to fill, counted as written; None if outside one allocation."""


class Cluster(Protocol):
    """Concurrent CTAs; `progress` counts changes, `rest`: the slice only waited or polled."""

    program: Program
    pipes: Pipes
    stores: dict[tuple[int, int], list[list[Any]]]  # (rank, thread) → its groups of bulk stores
    progress: int
    rest: bool
    steps: int  # blocks that were run since a thread exited or asynchronous work completed
    granted_clusters: int  # granted by cluster launch control
    request_refused: bool  # whether a request was refused
    barrier: ClusterBarrier
    observer: Observer

    @property
    def machine(self) -> Machine:
        """Return the launch."""

    @property
    def ctas(self) -> Sequence[CTA]:
        """Return the CTAs by rank."""

    @property
    def later(self) -> int:
        """Return the number of clusters that have not begun."""

    def post(self, pipe: Pipe, task: Task) -> None:
        """Queue asynchronous work."""

    def complete(self, pipe: Pipe) -> None:
        """Run the first task of a pipe."""
