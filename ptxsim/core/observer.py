"""What can be watched while a cluster runs: the seam for checks, and for a clock.

An Observer does nothing. The race check (checks/happens_before.py) overrides what it needs; whoever else wants to know
when work is issued, when a barrier lets go or who touches which word does the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from .work import NO_TOKEN, Origin, Token

if TYPE_CHECKING:
    from ..memory.global_memory import Access, Allocation, Part
    from ..memory.matrix_operand import Chunks
    from ..memory.tensor_memory import TensorMemory
    from .barriers import ClusterBarrier, MBarrier, NamedBarrier
    from .cta import CTA
    from .warp import Fragment


class Observer:
    """Hooks, called by the thread or the asynchronous work that does something. `at` is an instruction's index."""

    serial = 1  # of the last piece of work issued
    doubtful = False  # whether it wants to be told when the write under way has been made

    # asynchronous work is asked for, and waited for
    def issued(self, f: Fragment, at: int, warp: int) -> Token:
        return NO_TOKEN

    def copy_expected(self, bar: MBarrier, origin: Origin, target: CTA, times: int = 1) -> None:
        """Copies into a CTA's shared memory were issued, so many in one, that will signal an mbarrier."""

    def products_committed(self, bar: MBarrier, origin: Origin) -> None:
        """Return an mbarrier is signalled by tcgen05.commit: all tensor-core work before it has run."""

    def copies_committed(self, f: Fragment, warp: int) -> None:
        """Return a warp closed a group of cp.async copies."""

    def copies_waited(self, f: Fragment, warp: int, left: int) -> None:
        """Return a warp has waited for all but `left` of its groups of cp.async copies (-1: for every copy)."""

    def copies_arrived(self, bar: MBarrier, origin: Origin) -> None:
        """Return an mbarrier is signalled by cp.async.mbarrier.arrive."""

    def stores_waited(self, f: Fragment, warp: int, stores: Iterable[Origin]) -> None:
        """Return a thread has waited for bulk stores."""

    def wgmma_started(self, origin: Origin, group: int) -> None:
        """Return a product of a warpgroup is about to read its operands and write its registers."""

    def wgmma_waited(self, rank: int, warp: int, group: int) -> None:
        """Return a warp has waited for products of its warpgroup."""

    def tmem_waited(self, f: Fragment, stores: bool) -> None:
        """Return a fragment has executed tcgen05.wait::ld or, with `stores`, ::st."""

    def tmem_loaded(self, rank: int, warp: int, serial: int) -> None:
        """Return a tcgen05.ld of a warp, and those before it, have read tensor memory."""

    def tensor_fenced(self, f: Fragment, after: bool) -> None:
        """tcgen05.fence::before_thread_sync or, with `after`, ::after_thread_sync."""

    # fences and barriers
    def proxy_fenced(self, f: Fragment) -> None:
        """fence.proxy.async."""

    def init_fenced(self, f: Fragment) -> None:
        """Return a fence after which copies may signal the mbarriers that these warps made."""

    def memory_fenced(self, f: Fragment) -> None:
        """Return a fence of the whole device or system: what these warps did before is released by what they write next."""

    def mbarrier_initialised(self, f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None: ...

    def mbarrier_first_used(self, f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None:
        """Threads use an mbarrier for the first time: they arrive on it, or find a phase complete."""

    def mbarrier_released(self, f: Fragment, bar: MBarrier, lanes: np.ndarray) -> None:
        """Threads arrive on an mbarrier with release semantics."""

    def peer_arrived(self, f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None:
        """Threads arrive, with any semantics, on an mbarrier of another CTA."""

    def mbarrier_acquired(self, f: Fragment, bar: MBarrier, lanes: np.ndarray) -> None:
        """Threads have seen a phase complete, with acquire semantics."""

    def mbarrier_completed(self, bar: MBarrier) -> None:
        """Return a phase has completed; its sleepers have not yet been woken."""

    def barrier_arrived(self, f: Fragment, barrier: NamedBarrier, at: int) -> None: ...

    def barrier_released(self, barrier: NamedBarrier, sleepers: list[Fragment]) -> None: ...

    def cluster_arrived(self, f: Fragment, barrier: ClusterBarrier) -> None: ...

    def cluster_waited(self, f: Fragment, barrier: ClusterBarrier) -> None:
        """Return a fragment goes on after barrier.cluster.wait."""

    # memory
    def shared_access(
        self, target: CTA, f: Fragment, offsets: np.ndarray, lanes: np.ndarray | None, access: Access
    ) -> None:
        """Return an ordinary access at byte `offsets` of `target`'s shared memory, one per lane of `lanes` (None: all)."""

    def global_access(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        """Return an ordinary access at byte `offsets` of an allocation, one per active lane."""

    def global_written(self, agree: bool) -> None:
        """Return the same as shared_written, of global memory."""

    def shared_written(self, target: CTA, agree: bool) -> None:
        """What was told of last has been written; `agree` says that every lane finds there what it wrote.

        Called only where the observer is `doubtful`.
        """

    def shared_copied(self, target: CTA, start: int, end: int, origin: Origin, bar: MBarrier | None) -> None:
        """Return bytes start..end were written by a copy that signals `bar`, or are about to be by a cp.async (None)."""

    def shared_scattered(self, target: CTA, words: np.ndarray, origin: Origin, bar: MBarrier) -> None:
        """Words of four bytes, by their numbers, were written by an st.async that signals `bar`."""

    def shared_stored(self, source: CTA, start: int, end: int, origin: Origin) -> None:
        """Return bytes start..end were read by a bulk store."""

    def operand_read(self, source: CTA, chunks: Chunks, origin: Origin, group: int | None = None) -> None:
        """16-byte chunks were read by tcgen05.mma or cp or, with `group`, by that warpgroup's wgmma."""

    def tmem_access(
        self, f: Fragment, at: int, warp: int, tm: TensorMemory, rows: np.ndarray, cols: np.ndarray, write: bool
    ) -> None:
        """tcgen05.ld or st of a warp."""

    def tmem_worked(self, origin: Origin, tm: TensorMemory, rows: np.ndarray, cols: np.ndarray, write: bool) -> None:
        """tcgen05.mma or cp reads or writes tensor memory."""

    def tmem_allocated(self, f: Fragment, warp: int, tm: TensorMemory, first: int, end: int) -> None:
        """Return a warp has been given columns first..end."""

    def tmem_freed(self, f: Fragment, at: int, warp: int, tm: TensorMemory, first: int, end: int) -> None:
        """Return a warp gives columns first..end back."""

    # global memory
    def global_copied(
        self, allocation: Allocation, origin: Origin, part: Part, write: bool, combines: bool = False
    ) -> None:
        """Return a copy reads or writes bytes of an allocation; one that `combines` does so with what is there."""

    def dependency_waited(self, f: Fragment) -> None:
        """griddepcontrol.wait: the launch before is over and all that it wrote is there."""

    # the end
    def cta_exited(self, cta: CTA) -> None:
        """Return the last thread of a CTA has exited."""
