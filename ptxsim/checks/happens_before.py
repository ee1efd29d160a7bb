"""Happens-before by vector clocks.

Actors: each warp, each mbarrier (for the copies that signal it), a CTA's tensor pipe, a warpgroup's wgmma. Each warp
also has actors for its cp.async copies, bulk stores, tcgen05.ld and tcgen05.st.
An access races if it touches a word last written (or, for a write, read) at an epoch outside its own clock;
shadow.py keeps those epochs. A second clock covers what a proxy fence has made visible to the async proxy: tensor
cores and bulk stores may only read ordinary writes that it covers. Lanes of one warp count as ordered.
global_memory.py adds global memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..core.counting import flatnonzero
from ..core.observer import Observer
from ..core.work import Origin, Token
from .lanes import LaneWrite, LaneWrites
from .lifetime import Lifetimes
from .named_barriers import NamedBarrierUses
from .shadow import Event, Index, SharedWords, words_and_bytes
from .tensor_words import TensorWords, cells
from .vector_clock import Actors, Clock, Phases, Warp

if TYPE_CHECKING:
    from ..core.barriers import ClusterBarrier, MBarrier, NamedBarrier
    from ..core.cta import CTA
    from ..core.protocols import Cluster
    from ..core.warp import Fragment
    from ..memory.global_memory import Access
    from ..memory.matrix_operand import Chunks
    from ..memory.tensor_memory import TensorMemory

SIDES = {"cp": "cp.async of", "store": "a bulk store of", "st": "tcgen05.st of", "ld": "tcgen05.ld of"}


class Clocks(Actors, Observer):
    """The vector clocks of a cluster, and the shadows of its memories."""

    def __init__(self, cluster: Cluster) -> None:
        Actors.__init__(self, cluster.machine)
        self.serial = 0
        self.phases: dict[MBarrier, Phases] = {}
        self.cluster_clock = Clock()
        self.initialised: dict[MBarrier, tuple[int, int, int]] = {}  # initialisation: actor, epoch, instruction
        self.unfenced: dict[Warp, list[MBarrier]] = {}  # initialised but not fenced
        self.copy_groups: dict[Warp, list[int]] = {}  # serials at which groups of cp.async were closed
        self.wgmma_done: dict[tuple[int, int], int] = {}  # (rank, warpgroup) → serial of the last product begun
        self.uses = NamedBarrierUses(self)
        self.freed: dict[TensorMemory, Clock] = {}  # clock from tcgen05.dealloc to the next tcgen05.alloc
        self.entered: dict[Warp, np.ndarray] = {}  # what a warp knew after its last wait for a cluster barrier
        self.allocs: dict[tuple[TensorMemory, int], tuple[Event, bool]] = {}  # and whether it may come late
        self.pair_frees: dict[tuple[TensorMemory, int], Event] = {}  # dealloc of a pair that waits for the peer's
        self.lifetimes = Lifetimes(self)
        self.lanes = LaneWrites(self)
        self.races = "race" in self.machine.checks
        self.read_fences = "read-fence" in self.machine.checks
        self.ctas = cluster.ctas
        self.shared = {cta: SharedWords(self, cta) for cta in cluster.ctas}
        self.tensor: dict[TensorMemory, TensorWords] = {}
        self.warps_by_rank = [[Warp(cta.rank, n) for n in range(cta.launch.warps)] for cta in cluster.ctas]
        for cta in cluster.ctas:
            for number, warp in enumerate(self.warps_by_rank[cta.rank]):
                me = self.actor(warp, f"warp {number} of CTA {cta.rank}", generic=True)
                self.warps[warp] = Clock()
                self.warps[warp].known[me] = 1

    # actors
    def _pipe(self, rank: int) -> int:
        return self.actor(("mma", rank), f"the tensor pipe of CTA {rank}")

    def _wgmma(self, rank: int, group: int) -> int:
        return self.actor(("wgmma", rank, group), f"wgmma of warpgroup {group} of CTA {rank}")

    def _side(self, kind: str, rank: int, warp: int) -> int:
        """Return the actor for a warp's asynchronous work of a kind."""
        return self.actor((kind, rank, warp), f"{SIDES[kind]} warp {warp} of CTA {rank}", kind == "cp")

    def _warps(self, f: Fragment, lanes: np.ndarray | None = None) -> list[Warp]:
        of_cta = self.warps_by_rank[f.cta.rank]
        if f.n <= 32 and (lanes is None or len(lanes)):
            return of_cta[f.lo // 32 : f.lo // 32 + 1]
        if f.mask is None and (lanes is None or len(lanes) == f.n):
            return of_cta[f.lo // 32 : -(-f.hi // 32)]
        numbers = f.warps() if lanes is None else sorted(set(((lanes + f.lo) // 32).tolist()))
        return [of_cta[number] for number in numbers]

    def _advance(self, warp: Warp) -> None:
        """Start a new, unpublished epoch of a warp."""
        self.warps[warp].known[self.ids[warp]] += 1

    def _publish(self, f: Fragment, clock: Clock) -> None:
        for warp in self._warps(f):
            self._publish_warp(warp, clock)

    def _publish_warp(self, warp: Warp, clock: Clock) -> None:
        clock.learn(self.warps[warp])
        self._advance(warp)

    def _learn(self, f: Fragment, clock: Clock, lanes: np.ndarray | None = None) -> None:
        for warp in self._warps(f, lanes):
            self.warps[warp].learn(clock)

    # asynchronous work
    def issued(self, f: Fragment, at: int, warp: int) -> Token:
        me = Warp(f.cta.rank, warp)
        self.serial += 1
        token = Token(self.warps[me].known.copy(), self.warps[me].proxied.copy(), self.serial, {})
        self._advance(me)
        self.lanes.issued(f, at, me, self.serial)
        return token

    def copy_expected(self, bar: MBarrier, origin: Origin, target: CTA, times: int = 1) -> None:
        if not bar.fenced and "race" in self.machine.checks:
            message = f"a copy is to signal an mbarrier initialised without fence.mbarrier_init or a proxy fence: {bar}"
            where = self.machine.program.instructions[self.initialised[bar][2]].location
            self.machine.report("barrier", f"{message}, initialised at {where}", origin.at)
            bar.fenced = True
        phase = origin.token.phases[bar] = bar.phase + 1
        self.lifetimes.signalled(target, bar, phase, origin)

    def products_committed(self, bar: MBarrier, origin: Origin) -> None:
        filling = self.phases[bar].filling
        filling.learn(origin.token)
        pipe, serial = self._pipe(origin.cta.rank), origin.token.serial
        filling.cover(pipe, serial)
        if bar.cta is not origin.cta:  # commits of a pipe arrive in order, so a later one implies this one
            what = f"arrives on {bar}, in"
            self.lifetimes.peer_accesses(origin.fragment, bar.cta, pipe, serial, origin.at, what, bar)

    def copies_committed(self, f: Fragment, warp: int) -> None:
        self.copy_groups.setdefault(Warp(f.cta.rank, warp), []).append(self.serial)

    def copies_waited(self, f: Fragment, warp: int, left: int) -> None:
        me = Warp(f.cta.rank, warp)
        groups = self.copy_groups.get(me, [])
        upto = self.serial if left < 0 else groups[-left - 1] if len(groups) > left else 0
        self.warps[me].cover(self._side("cp", *me), upto)

    def copies_arrived(self, bar: MBarrier, origin: Origin) -> None:
        filling = self.phases[bar].filling
        filling.learn(origin.token)
        filling.cover(self._side("cp", origin.cta.rank, origin.warp), origin.token.serial)

    def stores_waited(self, f: Fragment, warp: int, stores: Iterable[Origin]) -> None:
        me = Warp(f.cta.rank, warp)
        side = self._side("store", *me)
        for store in stores:
            self.warps[me].cover(side, store.token.serial)

    def wgmma_started(self, origin: Origin, group: int) -> None:
        self.wgmma_done[origin.cta.rank, group] = origin.token.serial

    def wgmma_waited(self, rank: int, warp: int, group: int) -> None:
        self.warps[Warp(rank, warp)].known[self._wgmma(rank, group)] = self.wgmma_done.get((rank, group), 0)

    def tmem_waited(self, f: Fragment, stores: bool) -> None:
        for warp in self._warps(f):
            self.warps[warp].known[self._side("st" if stores else "ld", *warp)] = self.serial

    def tmem_loaded(self, rank: int, warp: int, serial: int) -> None:
        self.warps[Warp(rank, warp)].cover(self._side("ld", rank, warp), serial)

    # fences and barriers
    def proxy_fenced(self, f: Fragment) -> None:
        for warp in self._warps(f):
            clock = self.warps[warp]
            np.maximum(clock.proxied, clock.known, out=clock.proxied)
            self._advance(warp)

    def init_fenced(self, f: Fragment) -> None:
        for warp in self._warps(f):
            for bar in self.unfenced.pop(warp, ()):
                bar.fenced = True

    def mbarrier_initialised(self, f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None:
        me = self._warps(f, lanes)[0]
        self.unfenced.setdefault(me, []).append(bar)
        self.initialised[bar] = self.ids[me], int(self.warps[me].known[self.ids[me]]), at
        self.phases[bar] = Phases()
        self.shared[bar.cta].forget(bar.offset, 8)  # their previous content is no longer data

    def mbarrier_first_used(self, f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None:
        if "race" not in self.machine.checks:
            return
        initialiser, epoch, initialised_at = self.initialised[bar]
        for warp in self._warps(f, lanes):
            if self.warps[warp].known[initialiser] < epoch:
                code = self.machine.program.instructions
                message = f"{self.names[self.ids[warp]]} uses {bar}, and nothing orders that after its initialisation"
                message += f" by {self.names[initialiser]} at {code[initialised_at].location}"
                if f.cta.cluster_unwaited[f.lo : f.hi][lanes].any():
                    arrived = code[f.cta.cluster.barrier.arrived_at].location
                    message += f"; barrier.cluster, where it arrived at {arrived}, was not waited for"
                return self.machine.report("barrier", message, at, f)

    def peer_arrived(self, f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None:
        for warp in self._warps(f, lanes):
            me = self.ids[warp]
            epoch = int(self.warps[warp].known[me])
            self.lifetimes.peer_accesses(f, bar.cta, me, epoch, at, f"arrives on {bar}, in", bar)

    def mbarrier_released(self, f: Fragment, bar: MBarrier, lanes: np.ndarray) -> None:
        filling = self.phases[bar].filling
        for number, own in by_warp(f, lanes):
            warp = self.warps_by_rank[f.cta.rank][number]
            some = len(lanes[own]) < min(32, f.cta.launch.threads - 32 * number)
            side = self.ids.get(("lanes", *warp), 0) if some and warp in self.lanes.dirty else 0
            before = filling.known[side]
            self._publish_warp(warp, filling)
            filling.known[side] = before
            if not some:
                self.lanes.released(warp)
            elif self.races:
                self._hold(f, warp, lanes[own] + f.lo)

    def _hold(self, f: Fragment, warp: Warp, threads: np.ndarray) -> None:
        """Give earlier writes of a warp's other lanes to an actor of their own."""
        unreleased = self.lanes.unreleased(warp, threads)
        if not unreleased:
            return
        side = self.actor(("lanes", *warp), f"other lanes of warp {warp.warp} of CTA {warp.rank}", generic=True)
        self.serial += 1
        self.warps[warp].known[side] = self.serial
        self.lanes.dirty.add(warp)
        for index, at in unreleased:
            self.shared[f.cta].pass_on(index, at, self.ids[warp], side, self.serial)

    def warp_synchronised(self, f: Fragment) -> None:
        self.lanes.synchronised(self._warps(f))

    def mbarrier_acquired(self, f: Fragment, bar: MBarrier, lanes: np.ndarray) -> None:
        self.lanes.synchronised(self._warps(f, lanes))
        self._learn(f, self.phases[bar].completed, lanes)

    def mbarrier_completed(self, bar: MBarrier) -> None:
        phases = self.phases[bar]
        phases.completed.learn(phases.filling)
        phases.completed.known[self.copies_of(bar)] = bar.phase
        phases.filling = Clock()

    def barrier_arrived(self, f: Fragment, barrier: NamedBarrier, at: int) -> None:
        self.lanes.synchronised(self._warps(f))  # any barrier instruction waits for its warp's threads
        self._publish(f, self.uses.arrived(f, barrier, at, [self.warps[warp].known for warp in self._warps(f)]))

    def barrier_released(self, barrier: NamedBarrier, sleepers: list[Fragment]) -> None:
        clock = self.uses.released(barrier)
        for f in sleepers:
            self.lanes.synchronised(self._warps(f))
            self._learn(f, clock)

    def cluster_arrived(self, f: Fragment, barrier: ClusterBarrier) -> None:
        self.lanes.synchronised(self._warps(f))
        self._publish(f, self.cluster_clock)

    def cluster_waited(self, f: Fragment, barrier: ClusterBarrier) -> None:
        self.lanes.synchronised(self._warps(f))
        self._learn(f, self.cluster_clock)
        for warp in self._warps(f):
            self.entered[warp] = self.warps[warp].known.copy()

    # memory
    def shared_access(
        self, target: CTA, f: Fragment, offsets: np.ndarray, lanes: np.ndarray | None, access: Access
    ) -> None:
        words, size = self.shared[target], access.size
        index = (offsets >> np.uint64(2)).astype(np.int64)
        if size > 4:
            index = index[:, None] + np.arange(size // 4)[None, :]
        plain_store = self.races and access.write and not access.atomic and target is f.cta
        co_writers: tuple[int, ...] | None = () if access.write and not access.atomic else None
        for number, own in by_warp(f, lanes):
            warp = self.warps_by_rank[f.cta.rank][number]
            me, known = self.ids[warp], self.warps[warp].known
            if target is not f.cta:
                what = "writes" if access.write else "reads"
                self.lifetimes.peer_accesses(f, target, me, int(known[me]), access.at, what)
            event = Event(me, int(known[me]), known, access.at, f, atomic=access.atomic, co_writers=co_writers)
            if size < 4:
                touched, event.part = words_and_bytes(offsets[own], size)
            else:
                touched = index[own].ravel()
            words.touch(touched, event, access.write)
            if plain_store:
                threads = f.lo + (f.lanes() if lanes is None else lanes)[own]
                self.lanes.wrote(warp, LaneWrite(offsets[own], threads, size, access.at))
            co_writers = None if co_writers is None else (*co_writers, me)

    def shared_written(self, target: CTA, agree: bool) -> None:
        self.doubtful = False
        self.shared[target].settle(agree)

    def shared_copied(self, target: CTA, start: int, end: int, origin: Origin, bar: MBarrier | None) -> None:
        words = slice(start // 4, -(-end // 4))
        if bar is not None:
            self._copied_for(target, words, origin, bar, origin.token.proxied if self.read_fences else None)
        else:
            actor, token = self._side("cp", origin.cta.rank, origin.warp), origin.token
            self.shared[target].write(words, Event(actor, token.serial, token.known, origin.at, None, co_writers=()))

    def shared_scattered(self, target: CTA, words: np.ndarray, origin: Origin, bar: MBarrier) -> None:
        self._copied_for(target, words, origin, bar, None)

    def _copied_for(self, target: CTA, words: Index, origin: Origin, bar: MBarrier, proxied: np.ndarray | None) -> None:
        """Record words written by a copy that signals an mbarrier."""
        token = origin.token
        epoch = token.phases.get(bar, bar.phase + 1)
        event = Event(self.copies_of(bar), epoch, token.known, origin.at, None, proxied=proxied)
        self.shared[target].write(words, event)

    def shared_stored(self, source: CTA, start: int, end: int, origin: Origin, bar: MBarrier | None = None) -> None:
        self.lanes.stored(origin, start, end)
        if bar is None:
            event = self._async_read(self._side("store", origin.cta.rank, origin.warp), origin)
        else:  # the mbarrier's phase completes only after the read
            event = self._async_read(self.copies_of(bar), origin)
            event.epoch = origin.token.phases.get(bar, bar.phase + 1)
        self.shared[source].read(slice(start // 4, -(-end // 4)), event)

    def descriptor_copied(self, f: Fragment, at: int, lanes: np.ndarray, start: int) -> None:
        if self.races:
            warp = self.warps_by_rank[f.cta.rank][(f.lo + int(lanes[0])) // 32]
            self.lanes.copied(f, at, warp, f.lo + lanes, start)

    def operand_read(self, source: CTA, chunks: Chunks, origin: Origin, group: int | None = None) -> None:
        rank = origin.cta.rank
        actor = self._pipe(rank) if group is None else self._wgmma(rank, group)
        self.shared[source].read(chunks.words, self._async_read(actor, origin))

    def _async_read(self, actor: int, origin: Origin) -> Event:
        """Return the event of a read of shared memory through the async proxy."""
        token = origin.token
        return Event(actor, token.serial, token.known, origin.at, origin.fragment, proxied=token.proxied)

    def tmem_access(
        self, f: Fragment, at: int, warp: int, tm: TensorMemory, rows: np.ndarray, cols: np.ndarray, write: bool
    ) -> None:
        me = Warp(f.cta.rank, warp)
        self.serial += 1
        loads, stores = self._side("ld", *me), self._side("st", *me)
        actor, own = (stores, loads) if write else (loads, -1)
        event = Event(actor, self.serial, self.warps[me].known, at, f, own=own)
        self._tensor_words(tm).touch(cells(rows, cols), event, write)

    def tmem_worked(self, origin: Origin, tm: TensorMemory, rows: np.ndarray, cols: np.ndarray, write: bool) -> None:
        token = origin.token
        event = Event(self._pipe(origin.cta.rank), token.serial, token.known, origin.at, origin.fragment)
        self._tensor_words(tm).touch(cells(rows, cols), event, write)

    def tmem_allocated(self, f: Fragment, at: int, warp: int, tm: TensorMemory, first: int, end: int) -> None:
        if tm in self.freed:
            self.warps[Warp(f.cta.rank, warp)].learn(self.freed[tm])
        self._tensor_words(tm).forget(first, end)
        me = Warp(f.cta.rank, warp)
        actor, known = self.ids[me], self.warps[me].known
        learned = me not in self.entered or flatnonzero(known > self.entered[me]).tolist() not in ([], [actor])
        self.allocs[tm, first] = Event(actor, int(known[actor]), known.copy(), at, f), learned
        self._advance(me)

    def pair_allocated(self, f: Fragment, at: int, warp: int, peer: CTA) -> None:
        """Report a pair's alloc before the peer is known to run (PTX 9.7.16.7.1)."""
        me = Warp(f.cta.rank, warp)
        if self.races and not self.warps[me].known[self._warps_of(peer)].any():
            message = f"{self.names[self.ids[me]]} allocates tensor memory of both CTAs, and nothing orders that after"
            f.report(at, "race", f"{message} the start of CTA {peer.rank}: put it after a cluster barrier")

    def _warps_of(self, cta: CTA) -> list[int]:
        return [self.ids[Warp(cta.rank, number)] for number in range(cta.launch.warps)]

    def tmem_freed(self, f: Fragment, at: int, warp: int, tm: TensorMemory, first: int, end: int) -> None:
        self._tensor_words(tm).free(first, end, self._dealloc(f, at, warp, tm))

    def _dealloc(self, f: Fragment, at: int, warp: int, tm: TensorMemory) -> Event:
        """Return the event of a dealloc; a later alloc is ordered after it."""
        me = Warp(f.cta.rank, warp)
        clock, actor = self.warps[me], self.ids[me]
        event = Event(actor, int(clock.known[actor]), clock.known.copy(), at, f, own=self._side("ld", *me))
        self.freed.setdefault(tm, Clock()).learn(clock)
        self._advance(me)
        return event

    def pair_freed(
        self, f: Fragment, at: int, warp: int, tm: TensorMemory, peer: TensorMemory, first: int, end: int
    ) -> None:
        event = self._dealloc(f, at, warp, tm)
        other = self.pair_frees.pop((peer, first), None)
        if other is None:
            self.pair_frees[tm, first] = event
            return
        mine, others = self.allocs.get((tm, first)), self.allocs.get((peer, first))
        if self.races and mine is not None and others is not None:
            self._after_alloc(event, mine[0], *others, peer)
            self._after_alloc(other, others[0], *mine, tm)
        known = np.maximum(event.known, other.known)  # each CTA frees both halves, once both have asked
        for each, memory in ((event, tm), (other, peer)):
            self._tensor_words(memory).free(first, end, replace(each, known=known))

    def _after_alloc(self, event: Event, mine: Event, others: Event, late: bool, peer: TensorMemory) -> None:
        """Report a pair's dealloc if its CTA heard nothing from the peer since its alloc.

        Any signal of the peer suffices. An alloc right after a cluster barrier is not late (docs/ptxsim/checks.md).
        """
        warps = self._warps_of(self.ctas[peer.rank])
        heard = (event.known[warps] > mine.known[warps]).any()
        if late and not heard and event.known[others.actor] < others.epoch:
            where = self.machine.program.instructions[others.at].location
            message = f"{self.names[event.actor]} frees tensor memory of both CTAs, and nothing orders that after"
            message += f" the alloc by {self.names[others.actor]} at {where}"
            self.machine.report("race", message, event.at, event.fragment)

    def cta_exited(self, cta: CTA) -> None:
        self.lifetimes.exits(cta)

    def _tensor_words(self, tm: TensorMemory) -> TensorWords:
        if tm not in self.tensor:
            self.tensor[tm] = TensorWords(self, self.ctas[tm.rank])
        return self.tensor[tm]


def by_warp(f: Fragment, lanes: np.ndarray | None) -> Iterator[tuple[int, slice]]:
    """Yield (warp, slice of ascending `lanes`) per warp of a range; None: all lanes."""
    first = f.lo // 32
    if lanes is None:
        yield from ((first + n, slice(32 * n, 32 * n + 32)) for n in range(-(-f.n // 32)))
    elif f.n <= 32:
        yield first, slice(None)
    else:
        numbers = lanes // 32
        starts = [0, *(flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(lanes)]
        yield from ((first + int(numbers[a]), slice(a, b)) for a, b in itertools.pairwise(starts))
