"""A cooperative thread array: its shared memory, barriers and fragments."""

from __future__ import annotations

import numpy as np

from .access import SHARED_BASE
from .mbarrier import MBarrier
from .warp import DONE, RUNNING, WAITING, Fragment, RegisterFile, join_ranges


class NamedBarrier:
    """One of the sixteen CTA barriers: who has arrived and who sleeps."""

    def __init__(self, cta: CTA, number: int) -> None:
        self.cta, self.number = cta, number
        self.arrived, self.expected = 0, None
        self.sleepers: list[Fragment] = []
        self.warps: list[int] = []

    def __str__(self) -> str:
        wanted = self.expected if self.expected is not None else int(np.count_nonzero(self.cta.alive))
        return f"barrier {self.number} of CTA {self.cta.rank} ({self.arrived} of {wanted} threads arrived)"

    def arrive(self, f: Fragment, i: int, expected: int | None, wait: bool, nxt: int) -> None:
        machine = self.cta.machine
        machine.progress += 1
        if self.arrived and expected != self.expected:
            machine.report(
                "barrier", f"{self}: a thread count of {expected} where the others gave {self.expected}", f, i
            )
        self.expected = expected
        # a barrier counts whole warps: lanes that have exited count as there
        self.arrived += 32 * len(f.warps()) if expected is not None else f.count
        self.warps += f.warps()
        if machine.order is not None:
            machine.order.barrier_arrive(f, self, wait)
        if wait:
            f.pc, f.state, f.why = nxt, WAITING, (self, i)
            self.sleepers.append(f)
            machine.counts.barrier_waits += 1
        self.check(f, i)

    def check(self, f: Fragment | None = None, i: int = -1) -> None:
        wanted = self.expected if self.expected is not None else int(np.count_nonzero(self.cta.alive))
        if not self.arrived or self.arrived < wanted:
            return
        if self.arrived > wanted and self.expected is not None:
            self.cta.machine.report("barrier", f"{self}: more threads than the barrier takes", f, i)
        sleepers, self.sleepers = self.sleepers, []
        self.arrived, self.expected, self.warps = 0, None, []
        if self.cta.machine.order is not None:
            self.cta.machine.order.barrier_release(self, sleepers)
        for s in sleepers:
            s.state, s.why = RUNNING, None
        if len(sleepers) > 1 and not self.cta.machine.schedule.apart:
            join_ranges(sleepers)


class ClusterBarrier:
    """barrier.cluster of all threads of a cluster; each CTA's view shares the one state."""

    def __init__(self, machine) -> None:
        self.machine = machine
        self.ctas: list[CTA] = []
        self.arrived, self.phase = 0, 0
        self.sleepers: list[Fragment] = []

    def __str__(self) -> str:
        return f"barrier.cluster ({self.arrived} of {self.threads()} threads arrived)"

    def threads(self) -> int:
        return sum(int(np.count_nonzero(c.alive)) for c in self.ctas)

    def arrive(self, f: Fragment, i: int, relaxed: bool) -> None:
        self.arrived += f.count
        self.machine.progress += 1
        f.cta.cluster_tokens[f.lo : f.hi][f.lanes()] = self.phase + 1
        if self.machine.order is not None:
            self.machine.order.cluster_arrive(f, self, relaxed)
        self.check()

    def wait(self, f: Fragment, i: int, nxt: int) -> None:
        wanted = int(f.cta.cluster_tokens[f.lo : f.hi][f.lanes()].max())
        if self.phase >= wanted:
            if self.machine.order is not None:
                self.machine.order.cluster_wait(f, self)
            return
        f.pc, f.state, f.why = nxt, WAITING, (self, i)
        self.sleepers.append(f)

    def check(self) -> None:
        if not self.arrived or self.arrived < self.threads():
            return
        self.arrived = 0
        self.phase += 1
        if self.machine.order is not None:
            self.machine.order.cluster_release(self, self.sleepers)
        for s in self.sleepers:
            s.state, s.why = RUNNING, None
        by_cta: dict[int, list[Fragment]] = {}
        for s in self.sleepers:
            by_cta.setdefault(s.cta.rank, []).append(s)
        self.sleepers = []
        for group in by_cta.values():
            if not self.machine.schedule.apart:
                join_ranges(group)


class CTA:
    """One CTA: index in the grid, rank in its cluster, registers, memories and fragments."""

    VOLATILE = frozenset({"%clock", "%clock64", "%globaltimer", "%lanemask_lt", "%clock_hi", "%globaltimer_lo"})

    def __init__(
        self,
        machine,
        index: tuple[int, int, int],
        rank: int,
        cluster: list[CTA],
        registers: RegisterFile,
        barrier: ClusterBarrier,
    ) -> None:
        self.machine, self.launch, self.index, self.rank, self.cluster = machine, machine.launch, index, rank, cluster
        self.registers = registers
        registers_views = registers._views.values()
        for v in registers_views:
            v.special.clear()
        n = registers.threads
        self.alive = np.zeros(n, bool)
        self.alive[: machine.launch.threads] = True
        self.shared_bytes = machine.shared_bytes
        self.shared = np.zeros(-(-self.shared_bytes // 16) * 16, np.uint8)
        if machine.poison:
            self.shared.fill(0xFF)  # NaN in every format: what nobody wrote must not look like a result
        self.words = {k: self.shared.view(f"u{k}") for k in (1, 2, 4, 8)}
        self.mbarriers: dict[int, MBarrier] = {}
        self.barriers: dict[int, NamedBarrier] = {}
        self.cluster_barrier = barrier
        self.cluster_tokens = np.zeros(n, np.int64)
        self.carry = np.zeros(n, bool)
        self.wgmma_commits: dict[int, int] = {}
        self.unfinished: dict[tuple[int, int], int] = {}  # (warp, origin as in pending.py) → how many
        self.shadow = None
        self.tmem = None
        self.local_bytes = machine.local_bytes
        local = np.zeros(max(n * self.local_bytes, 16), np.uint8)
        self.local = {k: local.view(f"u{k}") for k in (1, 2, 4, 8)}
        whole = machine.launch.threads
        first = Fragment(self, 0, n, 0, None if whole == n else np.arange(n) < whole)
        if first.mask is not None:
            first.family = [first]
        self.fragments: list[Fragment] = [first]
        if machine.schedule.apart and first.mask is None:
            self.fragments = [Fragment(self, w, w + 32, 0) for w in range(0, n, 32)]

    def add(self, f: Fragment) -> None:
        self.fragments.append(f)
        self.machine.fragments_changed = True

    def remove(self, f: Fragment) -> None:
        if f in self.fragments:
            self.fragments.remove(f)
        self.machine.fragments_changed = True

    def exited(self, f: Fragment) -> None:
        self.remove(f)
        self.machine.progress += 1
        for g in self.fragments:
            if g.why == "whole":
                g.why = None
        for b in self.barriers.values():
            b.check()
        self.cluster_barrier.check()

    def peer(self, rank: int) -> CTA | None:
        return self.cluster[rank] if 0 <= rank < len(self.cluster) else None

    def barrier(self, number: int) -> NamedBarrier:
        if number not in self.barriers:
            self.barriers[number] = NamedBarrier(self, number)
        return self.barriers[number]

    def mbarrier(self, address: int) -> MBarrier | None:
        """The mbarrier at a shared address (rank in bits 24 and up), or None."""
        target = self.peer(address >> 24)
        return None if target is None else target.mbarriers.get((address & 0xFFFFFF) - SHARED_BASE)

    def symbol(self, name: str) -> int:
        """Address of a shared, global, local or parameter symbol in its own state space."""
        return self.machine.symbol(name, self)

    def special(self, name: str, lo: int, hi: int) -> np.ndarray:
        """A special register in lanes lo..hi."""
        launch, t = self.launch, np.arange(lo, hi, dtype=np.uint32)
        bx, by, _ = launch.block
        axis = name[-1]
        k = {"x": 0, "y": 1, "z": 2}.get(axis, 0)
        base = name[1:].split(".")[0]
        if base == "tid":
            return (t % bx, t // bx % by, t // (bx * by))[k].astype(np.uint32)
        cx = launch.cluster
        per = [g // c for g, c in zip(launch.grid, cx, strict=False)]
        values = {
            "ntid": launch.block[k],
            "ctaid": self.index[k],
            "nctaid": launch.grid[k],
            "cluster_ctaid": self.index[k] % cx[k],
            "cluster_nctaid": cx[k],
            "clusterid": self.index[k] // cx[k],
            "nclusterid": per[k],
            "cluster_ctarank": self.rank,
            "cluster_nctarank": len(self.cluster),
            "nwarpid": -(-launch.threads // 32),
            "smid": 0,
            "nsmid": self.machine.sm_count,
            "gridid": 0,
            "dynamic_smem_size": launch.dynamic_shared,
            "total_smem_size": self.shared_bytes,
            "is_explicit_cluster": int(launch.explicit_cluster),
        }
        if base == "laneid":
            return t % np.uint32(32)
        if base == "warpid":
            return t // np.uint32(32)
        if base.startswith("lanemask_"):
            lane = (t % 32).astype(np.uint64)
            one = np.uint64(1)
            low = (one << lane) - one
            masks = {"eq": one << lane, "lt": low, "le": (low << one) | one, "gt": ~((low << one) | one), "ge": ~low}
            return (masks[base[-2:]] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        if base in ("clock", "clock64", "globaltimer", "clock_hi", "globaltimer_lo"):
            self.machine.clock += 1
            wide = base in ("clock64", "globaltimer")
            return np.full(hi - lo, self.machine.clock, np.uint64 if wide else np.uint32)
        if base not in values:
            from .syntax import PtxError

            raise PtxError(f"kernel {launch.kernel.name[:80]}: unknown special register {name}")
        return np.full(hi - lo, values[base], np.uint32)


__all__ = ["CTA", "DONE", "ClusterBarrier", "NamedBarrier"]
