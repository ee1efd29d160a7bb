"""Barriers: mbarriers, the named barriers of a CTA, the cluster barrier (PTX ISA 9.7.13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .warp import Fragment, join_ranges

if TYPE_CHECKING:
    from .cta import CTA
    from .protocols import Cluster

TX_LIMIT = (1 << 20) - 1  # of the transaction count, either way


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """What a sleeping fragment waits for, and the instruction that put it to sleep.

    `parity` is that of the awaited phase, where an mbarrier is waited for by parity.
    """

    on: MBarrier | NamedBarrier | ClusterBarrier
    at: int
    parity: int | None = None


class MBarrier:
    """One mbarrier: expected and pending arrivals, pending transaction bytes, completed phases, sleepers."""

    def __init__(self, cta: CTA, offset: int, count: int, at: int) -> None:
        self.cta, self.offset, self.initialised_at = cta, offset, at
        self.expected = self.pending = count
        self.tx, self.phase = 0, 0
        self.sleepers: list[Fragment] = []
        self.signals: dict[tuple[int, int, int], int] = {}  # (instruction, rank, warp) → the last phase it arrived for
        self.expected_at: set[int] = set()  # the instructions that announced this phase's bytes
        self.bytes_by: dict[int, int] = {}  # instruction → the bytes that it has sent for this phase
        self.waits: dict[int, int] = {}  # instruction → how often it found its phase complete
        self.sleeps: dict[int, int] = {}  # instruction → how often it had to wait
        self.fenced = False  # fenced by the initialising thread
        self.users: set[tuple[int, int, int]] = set()  # (rank, range of threads) that have used it

    def __str__(self) -> str:
        return (
            f"mbarrier at shared offset {self.offset} of CTA {self.cta.rank} (phase {self.phase}, {self.pending} of "
            f"{self.expected} arrivals and {self.tx} transaction bytes outstanding)"
        )

    def arrive(self, count: int, f: Fragment, at: int) -> None:
        if count > self.pending:
            f.report(at, "barrier", f"{count} arrivals where {self.pending} are pending: {self}")
            count = self.pending
        self.signals[at, f.cta.rank, f.lo // 32] = self.phase
        self.pending -= count
        self._settle()

    def drop(self, count: int, f: Fragment, at: int) -> None:
        """Lower the expected arrivals of all later phases."""
        if count > self.expected:
            f.report(at, "barrier", f"{count} arrivals dropped where {self.expected} are expected: {self}")
        self.expected = max(self.expected - count, 0)

    def expect(self, tx: int, at: int) -> None:
        """Raise the transaction bytes expected in this phase."""
        self.tx += tx
        self.expected_at.add(at)
        if not -TX_LIMIT <= self.tx <= TX_LIMIT:
            self.cta.machine.report("barrier", f"transaction count out of range: {self}")

    def complete_tx(self, count: int, at: int = -1) -> None:
        """Count transaction bytes that an instruction's copy has delivered."""
        self.tx -= count
        self.bytes_by[at] = self.bytes_by.get(at, 0) + count
        self._settle()

    def _settle(self) -> None:
        """Complete the phase when nothing is outstanding."""
        cluster = self.cta.cluster
        cluster.progress += 1
        if self.pending or self.tx:
            return
        self.phase += 1
        self.pending = self.expected
        self.expected_at.clear()
        self.bytes_by.clear()
        cluster.observer.mbarrier_completed(self)
        sleepers, self.sleepers = self.sleepers, []
        for f in sleepers:
            f.wake()

    def passed(self, value: np.ndarray, parity: bool) -> np.ndarray:
        """Return whether the phase of a parity, or of a state token, has completed."""
        return np.not_equal(self.phase & 1, value & 1) if parity else np.not_equal(self.phase, value)


class NamedBarrier:
    """One of the sixteen CTA barriers: arrived threads and sleepers."""

    def __init__(self, cta: CTA, number: int) -> None:
        self.cta, self.number = cta, number
        self.arrived = 0
        self.expected: int | None = None  # None: all living threads of the CTA
        self.sleepers: list[Fragment] = []

    def __str__(self) -> str:
        return f"barrier {self.number} of CTA {self.cta.rank} ({self.arrived} of {self.required} threads arrived)"

    @property
    def required(self) -> int:
        return self.expected if self.expected is not None else self.cta.living

    def arrive(self, f: Fragment, at: int, expected: int | None, sleep: bool) -> None:
        """Count a fragment's threads as arrived; with `sleep` they wait for the release."""
        cluster = self.cta.cluster
        cluster.progress += 1
        if self.arrived and expected != self.expected:
            f.report(at, "barrier", f"{self}: a thread count of {expected} where the others gave {self.expected}")
        self.expected = expected
        # a barrier counts whole warps, including exited lanes
        self.arrived += 32 * len(f.warps()) if expected is not None else f.count
        cluster.observer.barrier_arrived(f, self, at)
        if sleep:
            f.sleep(Wait(self, at))
            self.sleepers.append(f)
            cluster.machine.counts.barrier_waits += 1
        self.check(f, at)

    def check(self, f: Fragment | None = None, at: int = -1) -> None:
        """Release the barrier if all have arrived, after an arrival or an exit."""
        if not self.arrived or self.arrived < self.required:
            return
        if self.arrived > self.required and self.expected is not None:
            message = f"{self}: more threads than the barrier takes"
            self.cta.machine.report("barrier", message, at, f)
        sleepers, self.sleepers = self.sleepers, []
        self.arrived, self.expected = 0, None
        self.cta.cluster.observer.barrier_released(self, sleepers)
        _release(self.cta.cluster, sleepers)


class ClusterBarrier:
    """The barrier of all threads of a cluster (barrier.cluster)."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.phase = 0
        self.arrived_at = -1  # the last instruction that arrived
        self.sleepers: list[Fragment] = []

    def __str__(self) -> str:
        return f"barrier.cluster ({self.arrived} of {self.required} threads arrived)"

    @property
    def required(self) -> int:
        return sum(cta.living for cta in self.cluster.ctas)

    @property
    def arrived(self) -> int:
        """The number of living threads that have arrived; an exited thread is not waited for."""
        return sum(int(np.count_nonzero(cta.alive & (cta.cluster_phases > self.phase))) for cta in self.cluster.ctas)

    def arrive(self, f: Fragment, at: int) -> None:
        """Arrive, after an arrival that was not waited for at a phase of its own."""
        self.cluster.progress += 1
        self.arrived_at = at
        lanes, phases, unwaited = f.lanes(), f.cta.cluster_phases[f.lo : f.hi], f.cta.cluster_unwaited[f.lo : f.hi]
        if unwaited[lanes].any():
            why = "each thread may arrive only once before the barrier completes"
            f.report(at, "barrier", f"threads arrive at barrier.cluster again without barrier.cluster.wait: {why}")
        phases[lanes], unwaited[lanes] = np.maximum(phases[lanes], self.phase) + 1, True
        self.cluster.observer.cluster_arrived(f, self)
        self.check()

    def wait(self, f: Fragment, at: int) -> None:
        """Sleep until the phase has completed that the fragment's threads have arrived for."""
        f.cta.cluster_unwaited[f.lo : f.hi][f.lanes()] = False
        if self.phase >= int(f.cta.cluster_phases[f.lo : f.hi][f.lanes()].max()):
            self.cluster.observer.cluster_waited(f, self)
            return
        f.sleep(Wait(self, at))
        self.sleepers.append(f)

    def check(self) -> None:
        """Release the barrier if all have arrived, after an arrival or an exit."""
        arrived = self.arrived
        if not arrived or arrived < self.required:
            return
        self.phase += 1
        sleepers, self.sleepers = self.sleepers, []
        for f in sleepers:
            self.cluster.observer.cluster_waited(f, self)
        by_cta: dict[int, list[Fragment]] = {}
        for f in sleepers:
            by_cta.setdefault(f.cta.rank, []).append(f)
        for group in by_cta.values():
            _release(self.cluster, group)


def _release(cluster: Cluster, sleepers: list[Fragment]) -> None:
    """Wake fragments of one CTA; adjacent ones continue in step."""
    for f in sleepers:
        f.wake()
    if len(sleepers) > 1 and not cluster.machine.apart:
        join_ranges(sleepers)
