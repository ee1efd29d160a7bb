"""A CTA: its threads as fragments, its memories, its barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..memory.address import SharedAddress
from ..memory.global_memory import word_views
from ..memory.tensor_memory import TensorMemory
from .barriers import MBarrier, NamedBarrier
from .counting import count_nonzero
from .launch import Dim3, Launch
from .register_pool import RegisterPool
from .registers import RegisterFile
from .special_registers import CLOCKS, special_register
from .warp import Fragment

if TYPE_CHECKING:
    from .protocols import Cluster, Machine


class CTA:
    """One CTA: index in the grid, rank in its cluster, registers, memories and fragments."""

    VOLATILE = frozenset(f"%{name}" for name in CLOCKS)
    shared_starts: np.ndarray | None = None  # per thread, where its shared memory begins; None: at 0

    def __init__(self, cluster: Cluster, index: Dim3, rank: int, registers: RegisterFile) -> None:
        self.cluster: Cluster = cluster
        self.machine: Machine = cluster.machine
        self.launch: Launch = self.machine.launch
        self.index: Dim3 = index
        self.rank: int = rank
        self.registers = registers
        registers.forget_specials()
        n = registers.threads
        self.alive = np.arange(n) < self.launch.threads
        self.carry = np.zeros(n, bool)
        self.cluster_phases = np.zeros(n, np.int64)  # per thread the phase of barrier.cluster it has arrived for
        self.cluster_unwaited = np.zeros(n, bool)  # threads that have not waited since they arrived
        self.shared_bytes: int = self.machine.layout.shared_bytes
        self.local_bytes: int = self.machine.layout.local_bytes  # per thread
        # NaN in every format, so that unwritten bytes do not look like a result.
        self.shared = np.full(-(-self.shared_bytes // 16) * 16, self.machine.fill, np.uint8)
        self.words = word_views(self.shared)
        self.local = word_views(np.zeros(max(n * self.local_bytes, 16), np.uint8))
        self.mbarriers: dict[int, MBarrier] = {}
        self.barriers: dict[int, NamedBarrier] = {}
        self.wgmma_commits: dict[int, int] = {}  # warp → wgmma groups it has closed
        self.unfinished: dict[tuple[int, int], int] = {}  # pending.py: (warp, origin) → how many, or a serial
        self.uncommitted = -1  # the last tcgen05.mma that no commit has followed
        self.fences: dict[int, int] = {}  # warp → how many wgmma.fence it has executed
        self.writes: dict[tuple[int, int], int] = {}  # wgmma_fences.py: (warp, write) → the fences before it
        self.written: dict[tuple[int, int], np.ndarray] = {}  # register → threads that wrote it (uninitialized.py)
        self._tensor_memory: TensorMemory | None = None
        self.uncounted_copies: dict[int, int] = {}  # warp → its last cp.async, until its group or arrival
        self.barrier_users: set[int] = set()  # warps that have used an mbarrier
        self.parted: dict[int, int] = {}  # warp → its block after the last branch before that where warps parted
        self.register_pool: RegisterPool | None = None  # made by the first setmaxnreg
        self.fragments = self._threads(n)

    def _threads(self, n: int) -> list[Fragment]:
        """Return all threads as one fragment, or one per warp for schedules apart."""
        if self.launch.threads < n:
            first = Fragment(self, 0, n, 0, self.alive.copy())
            first.family = [first]
            return [first]
        if self.machine.apart:
            return [Fragment(self, w, w + 32, 0) for w in range(0, n, 32)]
        return [Fragment(self, 0, n, 0)]

    @property
    def living(self) -> int:
        """Return how many threads have not exited."""
        return int(count_nonzero(self.alive))

    @property
    def tensor_memory(self) -> TensorMemory:
        if self._tensor_memory is None:
            self._tensor_memory = TensorMemory(self.rank, "uninitialised" in self.machine.checks, self.machine.fill)
        return self._tensor_memory

    def finish(self) -> None:
        """Report tensor memory and register requests left at the end of a CTA."""
        program = self.machine.program
        unreleased = "" if self._tensor_memory is None else self._tensor_memory.unreleased()
        if unreleased:
            end_location = f"the kernel ends after {program.instructions[program.end].location}"
            message = f"CTA {self.index} ends with tensor memory allocated: {unreleased}; {end_location}"
            self.machine.report("leak", message, program.end)
        if self.register_pool is not None:
            begins = {warp: program.blocks[block].first for warp, block in self.parted.items()}
            self.register_pool.finish(program.instructions, begins)

    def exited(self, f: Fragment) -> None:
        """Remove an exited fragment; other lanes of its warps, and barriers, may now proceed."""
        self.fragments.remove(f)
        self.cluster.progress += 1
        self.cluster.steps = 0
        for other in self.fragments:
            other.unpart()
        if not self.fragments:
            self.cluster.observer.cta_exited(self)
        for barrier in self.barriers.values():
            barrier.check()
        self.cluster.barrier.check()

    def peer(self, rank: int) -> CTA | None:
        ctas = self.cluster.ctas
        return ctas[rank] if 0 <= rank < len(ctas) else None

    def pair(self) -> list[CTA | None]:
        """Return the two CTAs of cta_group::2, the even rank first."""
        return [self.peer(self.rank & ~1), self.peer(self.rank | 1)]

    def barrier(self, number: int) -> NamedBarrier:
        if number not in self.barriers:
            self.barriers[number] = NamedBarrier(self, number)
        return self.barriers[number]

    def mbarrier(self, address: SharedAddress) -> MBarrier | None:
        """Return the mbarrier at a shared address of the cluster, or None."""
        target = self.peer(address.rank)
        return None if target is None else target.mbarriers.get(address.offset)

    def symbol(self, name: str) -> int:
        """Return the address of a symbol in its own state space."""
        return self.machine.layout.symbol(name).address(self.rank)

    def special(self, name: str, lo: int, hi: int) -> np.ndarray:
        """Return a special register in threads lo..hi."""
        return special_register(self, name, lo, hi)
