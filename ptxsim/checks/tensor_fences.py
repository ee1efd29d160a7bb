"""tcgen05.fence check: synchronised accesses of tensor memory also need tcgen05 fences.

PTX ISA 9.7.16.6.4 («Canonical synchronization patterns»). Asynchronous tcgen05 instructions of two threads need
tcgen05.fence::before_thread_sync, synchronisation, and tcgen05.fence::after_thread_sync between them.
tcgen05.commit implies the fence before. Allocation is synchronous: work in columns that another warp allocated needs
only the fence after, a deallocation only the fence before.
So a warp has three clocks besides its own: `settled` (tcgen05 work it may depend on), `offered` (fenced for others)
and `heard` (learnt, not yet fenced). An access is a finding if the clock covers the previous access and `settled` does
not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.work import Origin, Token
from ..memory.tensor_memory import COLUMNS
from .global_memory import GlobalClocks
from .happens_before import Clocks
from .shadow import READ_AT, READ_EPOCH, Index
from .tensor_words import CELL_LANES, TensorWords, cells
from .vector_clock import CAPACITY, Clock, Warp

if TYPE_CHECKING:
    from ..core.barriers import MBarrier
    from ..core.warp import Fragment
    from ..memory.tensor_memory import TensorMemory

Known = dict[object, np.ndarray]  # per actor the last epoch


class _Fences(Clocks):
    """The tcgen05.fence check, as a mixin for both kinds of clocks."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self.settled: Known = {}
        self.offered: Known = {}
        self.heard: Known = {}
        self.carried: Known = {}  # by clocks of barriers
        self.at_issue: Known = {}  # of asynchronous work, by its token
        # per column of a tensor memory: owning actor, epoch, instruction
        self.owners: dict[TensorMemory, np.ndarray] = {}

    def _of(self, known: Known, key: object) -> np.ndarray:
        if key not in known:
            known[key] = np.zeros(CAPACITY, np.int64)
        return known[key]

    def _add(self, known: Known, key: object, more: np.ndarray) -> None:
        mine = self._of(known, key)
        np.maximum(mine, more, out=mine)

    # fences, and what carries them
    def tensor_fenced(self, f: Fragment, after: bool) -> None:
        for warp in self._warps(f):
            if after:
                self._add(self.settled, warp, self._of(self.heard, warp))
            else:
                self._add(self.offered, warp, self._of(self.settled, warp))

    def _publish_warp(self, warp: Warp, clock: Clock) -> None:
        self._add(self.carried, clock, self._of(self.offered, warp))
        me = self.ids[warp]  # synchronous work needs no fence before
        self.carried[clock][me] = max(self.carried[clock][me], self.warps[warp].known[me])
        super()._publish_warp(warp, clock)

    def _learn(self, f: Fragment, clock: Clock, lanes: np.ndarray | None = None) -> None:
        for warp in self._warps(f, lanes):
            self._add(self.heard, warp, self._of(self.carried, clock))
        super()._learn(f, clock, lanes)

    def mbarrier_completed(self, bar: MBarrier) -> None:
        phases = self.phases[bar]
        if phases.filling in self.carried:
            self._add(self.carried, phases.completed, self.carried.pop(phases.filling))
        super().mbarrier_completed(bar)

    # tcgen05 work
    def issued(self, f: Fragment, at: int, warp: int) -> Token:
        token = super().issued(f, at, warp)
        if self.machine.program.instructions[at].base == "tcgen05":
            self.at_issue[token] = self._of(self.settled, Warp(f.cta.rank, warp)).copy()
        return token

    def products_committed(self, bar: MBarrier, origin: Origin) -> None:
        filling = self.phases[bar].filling
        self._add(self.carried, filling, self._of(self.at_issue, origin.token))
        pipe = self._pipe(origin.cta.rank)
        self.carried[filling][pipe] = max(self.carried[filling][pipe], origin.token.serial)
        super().products_committed(bar, origin)

    def tmem_waited(self, f: Fragment, stores: bool) -> None:
        super().tmem_waited(f, stores)
        for warp in self._warps(f):
            self._of(self.settled, warp)[self._side("st" if stores else "ld", *warp)] = self.serial

    def tmem_allocated(self, f: Fragment, at: int, warp: int, tm: TensorMemory, first: int, end: int) -> None:
        super().tmem_allocated(f, at, warp, tm, first, end)
        me = Warp(f.cta.rank, warp)
        owners = self.owners.setdefault(tm, np.zeros((3, COLUMNS), np.int64))
        owners[:, first:end] = np.array([[self.ids[me]], [self.warps[me].known[self.ids[me]]], [at]])

    def tmem_freed(self, f: Fragment, at: int, warp: int, tm: TensorMemory, first: int, end: int) -> None:
        self._check_free(f, at, warp, tm, first, end)
        super().tmem_freed(f, at, warp, tm, first, end)

    def pair_freed(
        self, f: Fragment, at: int, warp: int, tm: TensorMemory, peer: TensorMemory, first: int, end: int
    ) -> None:
        self._check_free(f, at, warp, tm, first, end)
        super().pair_freed(f, at, warp, tm, peer, first, end)

    def _check_free(self, f: Fragment, at: int, warp: int, tm: TensorMemory, first: int, end: int) -> None:
        me = Warp(f.cta.rank, warp)
        own = (self._side("ld", *me), self._side("st", *me))
        where = cells(np.arange(0, 128, CELL_LANES), np.arange(first, end))
        heard = np.maximum(self._of(self.heard, me), self._of(self.settled, me))
        self._check(f, at, tm, where, True, self.warps[me].known, me, heard, own)

    # accesses
    def tmem_access(
        self, f: Fragment, at: int, warp: int, tm: TensorMemory, rows: np.ndarray, cols: np.ndarray, write: bool
    ) -> None:
        me = Warp(f.cta.rank, warp)
        own = (self._side("ld", *me), self._side("st", *me))
        self._check(f, at, tm, cells(rows, cols), write, self.warps[me].known, me, self._of(self.settled, me), own)
        self._check_owner(f, at, tm, cols, me, self._of(self.settled, me))
        super().tmem_access(f, at, warp, tm, rows, cols, write)

    def tmem_worked(self, origin: Origin, tm: TensorMemory, rows: np.ndarray, cols: np.ndarray, write: bool) -> None:
        me = Warp(origin.cta.rank, origin.warp)
        own = (self._pipe(origin.cta.rank), self._side("ld", *me), self._side("st", *me))
        settled = self._of(self.at_issue, origin.token)
        where = cells(rows, cols)
        self._check(origin.fragment, origin.at, tm, where, write, origin.token.known, me, settled, own)
        self._check_owner(origin.fragment, origin.at, tm, cols, me, settled)
        super().tmem_worked(origin, tm, rows, cols, write)

    def _check(
        self,
        f: Fragment,
        at: int,
        tm: TensorMemory,
        where: Index,
        write: bool,
        known: np.ndarray,
        me: Warp,
        settled: np.ndarray,
        own: tuple[int, ...],
    ) -> None:
        """Report previous accesses that `known` covers and `settled` does not; `own` need no fence."""
        words = self._tensor_words(tm)
        where = np.arange(len(words.last))[where]
        writer, epoch = words.writers(where), words.epochs(where)
        bad = (epoch <= known[writer]) & (epoch > settled[writer]) & self._is_tcgen05(words, where)
        bad &= ~np.isin(writer, own)
        if bad.any():
            n = int(where[bad][0])
            return self._report_missing_fence(
                f, at, me, words, n, int(writer[bad][0]), int(epoch[bad][0]), int(words.at[n]), "write"
            )
        for reader, rows in words.readers.items() if write else ():
            epochs = rows[where] >> READ_EPOCH
            bad = (epochs <= known[reader]) & (epochs > settled[reader])
            if reader not in own and bad.any():
                n = int(where[bad][0])
                return self._report_missing_fence(
                    f, at, me, words, n, reader, int(rows[n]) >> READ_EPOCH, int(rows[n]) & READ_AT, "read"
                )
        return None

    def _check_owner(
        self, f: Fragment, at: int, tm: TensorMemory, cols: np.ndarray, me: Warp, settled: np.ndarray
    ) -> None:
        """Report work in another warp's columns without a fence after the wait for them."""
        if tm is not f.cta.tensor_memory or tm not in self.owners:  # an allocation for a pair waits for both CTAs
            return
        owner, epoch, owned_at = self.owners[tm][:, np.unique(cols)]
        bad = (owner != 0) & (owner != self.ids[me]) & (epoch > settled[owner])
        if bad.any():
            where = self.machine.program.instructions[int(owned_at[bad][0])].location
            message = f"tensor memory that {self.names[int(owner[bad][0])]} allocated at {where} is accessed, but "
            message += f"warp {me.warp} of CTA {me.rank} executes no tcgen05.fence::after_thread_sync since it waited"
            self.machine.report("tensor fence", f"{message} for that", at, f)

    def _is_tcgen05(self, words: TensorWords, where: np.ndarray) -> np.ndarray:
        """Return whether the last writes are tcgen05 work, not a warp's own deallocation."""
        writer = words.writers(where)
        return (writer > 0) & ~self.generic[writer]

    def _report_missing_fence(
        self, f: Fragment, at: int, me: Warp, words: TensorWords, n: int, actor: int, epoch: int, before: int, kind: str
    ) -> None:
        code = self.machine.program.instructions
        heard = self._of(self.heard, me)[actor] >= epoch
        fence = "after_thread_sync" if heard else "before_thread_sync"
        side = f"warp {me.warp} of CTA {me.rank} executes no" if heard else "the other thread executes no"
        between = "between the wait for it and this" if heard else "between that, waited for, and the arrival for it"
        access = f"{kind} by {self.names[actor]} at {code[before].location}"
        message = f"{words.location(n)} is accessed after the {access}, but {side}"
        self.machine.report("tensor fence", f"{message} tcgen05.fence::{fence} {between}", at, f)


class FencedClocks(_Fences):
    """Vector clocks with the tcgen05.fence check."""


class FencedGlobalClocks(_Fences, GlobalClocks):
    """Vector clocks for global memory with the tcgen05.fence check."""
