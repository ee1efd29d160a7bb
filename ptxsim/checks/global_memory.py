"""Race check for global memory: of clusters and launches (access_history.py), of warps (stored.py)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..core.counting import count_nonzero
from ..core.work import Origin
from ..memory.global_memory import Access, Allocation, Part
from .access_history import AccessHistory, Copy, Lanes, Standing
from .happens_before import Clocks
from .stored import Doubt, Store, Stored
from .vector_clock import Clock, Warp

if TYPE_CHECKING:
    from ..core.protocols import Cluster
    from ..core.warp import Fragment


@lru_cache
def _warp_numbers(lo: int, lanes: int) -> np.ndarray:
    """Return the warp of each lane of a range of threads."""
    return ((np.arange(lanes) + lo) // 32).astype(np.int32)


class GlobalClocks(Clocks):
    """Vector clocks that also follow global memory."""

    def __init__(self, cluster: Cluster, history: AccessHistory) -> None:
        super().__init__(cluster)
        self.history = history
        history.begin_cluster()
        self.before = self.actor(("launch before",), "the launch before")
        self.stored: dict[Allocation, Stored] = {}  # ordinary stores of this cluster
        self.storing: tuple[Fragment, int]  # last store: fragment, instruction
        self.unreleased: set[Warp] = set()  # warps with stores since their last device-scope fence
        # ordered word → clock its writers published; with a rank after the word: to the CTA of that rank
        self.published: dict[tuple[int, ...], Clock] = {}
        self.unfenced_reads: dict[
            Warp, set[int]
        ] = {}  # clusters that relaxed loads heard of since the warp's last fence
        self.left: Standing | None = None  # where a suspended cluster stands in the history

    def dependency_waited(self, f: Fragment) -> None:
        for warp in self._warps(f):
            self.warps[warp].cover(self.before, 1)

    def memory_fenced(self, f: Fragment) -> None:
        warps = self._warps(f)
        self.unreleased.difference_update(warps)
        if self.unfenced_reads:
            for warp in warps:
                self.history.known |= self.unfenced_reads.pop(warp, set())

    def cluster_suspended(self) -> None:
        self.left = self.history.standing()

    def cluster_resumed(self) -> None:
        assert self.left is not None
        self.history.resume(self.left)

    def global_access(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        history = self.history
        if access.ordered:
            words = [(allocation.address, int(x)) for x in np.unique(offsets)]
            if access.scope == "gpu":
                self._order_clusters(f, words, access)
            self._order(f, words, access)
        elif access.write or allocation in self.stored:
            self._among_warps(f, allocation, offsets, access)
        if access.write and not access.ordered:
            self.unreleased.update(self._warps(f))
        waited = history.before is None or all(self.warps[warp].known[self.before] for warp in self._warps(f))
        history.touch(f, allocation, Lanes(offsets, access.size), access, waited)

    def _order_clusters(self, f: Fragment, words: list[tuple[int, int]], access: Access) -> None:
        """Record an ordered access whose scope reaches other clusters.

        A relaxed load learns only at the next fence of its warp. Relaxed atomics are believed without one.
        """
        warps = self._warps(f)
        released = access.releases or self.unreleased.isdisjoint(warps)
        self.history.order(words, write=access.write, read=access.atomic or access.acquires, released=released)
        if not access.write and not access.acquires:
            of_others = set().union(*(self.history.words.get(word, set()) for word in words)) - self.history.known
            for warp in warps if of_others else ():
                self.unfenced_reads.setdefault(warp, set()).update(of_others)

    def _order(self, f: Fragment, words: list[tuple[int, int]], access: Access) -> None:
        """Join the clocks of warps that read an ordered word with those that wrote it.

        Words with one history share a clock, which is copied when some of them are written: a clock takes 16 KiB.
        """
        keys: list[tuple[int, ...]] = [] if access.scope == "cta" else list(words)
        keys += [(*word, f.cta.rank) for word in words]
        by_history: dict[Clock | None, list[tuple[int, ...]]] = {}
        for key in keys:
            by_history.setdefault(self.published.get(key), []).append(key)
        for clock, some in by_history.items():
            if clock is not None and (access.atomic or not access.write):
                self._learn(f, clock)
            if access.write:
                new = Clock()
                if clock is not None:
                    new.learn(clock)
                self._publish(f, new)
                self.published.update(dict.fromkeys(some, new))

    def _among_warps(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        """Check an ordinary access against stores by other warps of the cluster."""
        numbers = _warp_numbers(f.lo, f.n)
        if f.mask is not None:
            numbers = numbers[f.mask]
        if len(numbers) != len(offsets):  # lanes in several allocations, or with addresses that are reported elsewhere
            return
        stored = self.stored.get(allocation)
        if stored is None:
            stored = self.stored[allocation] = Stored(allocation, access.size)
        units = stored.units(offsets, access.size)
        last = stored.last[units]
        if count_nonzero(last):
            self._against(f, stored, units, last, numbers, access)
        if access.write:
            self._store(f, stored, units, numbers, access)

    def _against(
        self, f: Fragment, stored: Stored, units: np.ndarray, last: np.ndarray, numbers: np.ndarray, access: Access
    ) -> None:
        """Report loads that race with stores; defer stores that may write equal values."""
        for number in np.unique(numbers).tolist():
            warp, mine = Warp(f.cta.rank, number), numbers == number
            for store in stored.unordered(last[mine], self.ids[warp], self.warps[warp].known):
                touched = units[mine][last[mine] == store]
                if access.write:
                    doubt = Doubt(touched, stored.content(touched).copy(), number, stored.stores[store])
                    stored.doubts.append(doubt)
                    self.doubtful = True
                else:
                    self._race(f, stored, Doubt(touched, None, number, stored.stores[store]), access.at, "reads")

    def _store(self, f: Fragment, stored: Stored, units: np.ndarray, numbers: np.ndarray, access: Access) -> None:
        first, end = int(numbers[0]), int(numbers[-1]) + 1
        new = numbers + np.int32(len(stored.stores) - first)
        for warp in self.warps_by_rank[f.cta.rank][first:end]:
            me = self.ids[warp]
            stored.stores.append(Store(me, self.warps[warp].known[me], access.at))
        if units.ndim > 1:
            new = np.broadcast_to(new[:, None], units.shape)
        stored.last[units] = new
        if end - first > 1 and (others := stored.last[units] != new).any():
            other = stored.stores[int(stored.last[units][others][0])]
            stored.doubts.append(Doubt(units[others], None, int(numbers[np.nonzero(others)[0][0]]), other))
            self.doubtful = True
        self.storing = f, access.at

    def _race(self, f: Fragment, stored: Stored, doubt: Doubt, at: int, verb: str) -> None:
        name, other = self.names[self.ids[Warp(f.cta.rank, doubt.warp)]], self.names[doubt.other.actor]
        where = self.machine.program.instructions[doubt.other.at].location
        what = f"{name} {verb} {stored.location(int(doubt.units.flat[0]))}"
        message = f"{what}, and nothing orders that after the write by {other} at {where}"
        self.machine.report("race", message, at, f)

    def global_written(self, agree: bool) -> None:
        self.doubtful = False
        for stored in self.stored.values():
            for doubt in stored.settle(agree):
                self._race(self.storing[0], stored, doubt, self.storing[1], "writes")

    def global_copied(
        self, allocation: Allocation, origin: Origin, part: Part, write: bool, combines: bool = False
    ) -> None:
        waited = self.history.before is None or bool(origin.token.known[self.before])
        access = Copy(origin.at, write, combines)
        self.history.touch(origin.fragment, allocation, part, access, waited)
