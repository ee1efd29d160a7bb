"""Hooks of a running cluster, for checks and for the clock.

An Observer does nothing. The race check (checks/happens_before.py) and the clock override the hooks that they need.
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
    """Hooks, called by the thread or task that acts; `at` is an instruction's index."""

    serial = 1  # of the last work issued
    doubtful = False  # whether it needs a call after the current write

    # asynchronous work is asked for, and waited for
    def issued(self, f: Fragment, at: int, warp: int) -> Token:
        return NO_TOKEN

    def copy_expected(self, bar: MBarrier, origin: Origin, target: CTA, times: int = 1) -> None:
        """Handle `times` issued copies into a CTA's shared memory that will signal an mbarrier."""

    def products_committed(self, bar: MBarrier, origin: Origin) -> None:
        """Handle tcgen05.commit signalling an mbarrier: all earlier tensor-core work has run."""

    def copies_committed(self, f: Fragment, warp: int) -> None:
        """Handle a warp closing a group of cp.async copies."""

    def copies_waited(self, f: Fragment, warp: int, left: int) -> None:
        """Handle a warp's wait for all but `left` cp.async groups (-1: for every copy)."""

    def copies_arrived(self, bar: MBarrier, origin: Origin) -> None:
        """Handle cp.async.mbarrier.arrive signalling an mbarrier."""

    def stores_waited(self, f: Fragment, warp: int, stores: Iterable[Origin]) -> None:
        """Handle a thread's wait for bulk stores."""

    def wgmma_started(self, origin: Origin, group: int) -> None:
        """Handle a warpgroup product that is about to read operands and write registers."""

    def wgmma_waited(self, rank: int, warp: int, group: int) -> None:
        """Handle a warp's wait for products of its warpgroup."""

    def tmem_waited(self, f: Fragment, stores: bool) -> None:
        """Handle tcgen05.wait::ld or, with `stores`, tcgen05.wait::st."""

    def tmem_loaded(self, rank: int, warp: int, serial: int) -> None:
        """Handle the completion of a warp's tcgen05.ld and all before it."""

    def tensor_fenced(self, f: Fragment, after: bool) -> None:
        """Handle tcgen05.fence::before_thread_sync or, with `after`, ::after_thread_sync."""

    # fences and barriers
    def proxy_fenced(self, f: Fragment) -> None:
        """Handle fence.proxy.async."""

    def init_fenced(self, f: Fragment) -> None:
        """Handle a fence after which copies may signal mbarriers that these warps initialised."""

    def memory_fenced(self, f: Fragment) -> None:
        """Handle a device- or system-scope fence: later writes release what the warps did before."""

    def warp_synchronised(self, f: Fragment) -> None:
        """Handle bar.warp.sync."""

    def mbarrier_initialised(self, f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None: ...

    def mbarrier_first_used(self, f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None:
        """Handle threads' first use of an mbarrier: an arrival or a completed wait."""

    def mbarrier_released(self, f: Fragment, bar: MBarrier, lanes: np.ndarray) -> None:
        """Handle an arrival on an mbarrier with release semantics."""

    def peer_arrived(self, f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None:
        """Handle an arrival, with any semantics, on an mbarrier of another CTA."""

    def mbarrier_acquired(self, f: Fragment, bar: MBarrier, lanes: np.ndarray) -> None:
        """Handle threads that saw a phase complete, with acquire semantics."""

    def mbarrier_completed(self, bar: MBarrier) -> None:
        """Handle a completed phase, before its sleepers wake."""

    def barrier_arrived(self, f: Fragment, barrier: NamedBarrier, at: int) -> None: ...

    def barrier_released(self, barrier: NamedBarrier, sleepers: list[Fragment]) -> None: ...

    def cluster_arrived(self, f: Fragment, barrier: ClusterBarrier) -> None: ...

    def cluster_waited(self, f: Fragment, barrier: ClusterBarrier) -> None:
        """Handle a fragment that continues after barrier.cluster.wait."""

    # memory
    def shared_access(
        self, target: CTA, f: Fragment, offsets: np.ndarray, lanes: np.ndarray | None, access: Access
    ) -> None:
        """Handle ordinary access at byte `offsets` of `target`'s shared memory, by `lanes` (None: all)."""

    def global_access(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        """Handle an ordinary access at byte `offsets` of an allocation, one per active lane."""

    def global_written(self, agree: bool) -> None:
        """Handle a global write's end, while `doubtful`; `agree`: all lanes find theirs."""

    def shared_written(self, target: CTA, agree: bool) -> None:
        """Handle a shared write's end, while `doubtful`; `agree`: all lanes find theirs."""

    def shared_copied(self, target: CTA, start: int, end: int, origin: Origin, bar: MBarrier | None) -> None:
        """Handle bytes start..end of a copy signalling `bar`, or before cp.async's (None)."""

    def shared_scattered(self, target: CTA, words: np.ndarray, origin: Origin, bar: MBarrier) -> None:
        """Handle 4-byte words, by number, written by an st.async that signals `bar`."""

    def shared_stored(self, source: CTA, start: int, end: int, origin: Origin, bar: MBarrier | None = None) -> None:
        """Handle bytes start..end read by a bulk store, or by a copy that signals `bar`."""

    def descriptor_copied(self, f: Fragment, at: int, lanes: np.ndarray, start: int) -> None:
        """Handle lanes of a warp that copy a tensor map from shared memory at `start`."""

    def operand_read(self, source: CTA, chunks: Chunks, origin: Origin, group: int | None = None) -> None:
        """Handle 16-byte chunks read by tcgen05.mma, tcgen05.cp or, with `group`, by wgmma."""

    def tmem_access(
        self, f: Fragment, at: int, warp: int, tm: TensorMemory, rows: np.ndarray, cols: np.ndarray, write: bool
    ) -> None:
        """Handle tcgen05.ld or tcgen05.st of a warp."""

    def tmem_worked(self, origin: Origin, tm: TensorMemory, rows: np.ndarray, cols: np.ndarray, write: bool) -> None:
        """Handle tensor memory read or written by tcgen05.mma or tcgen05.cp."""

    def tmem_allocated(self, f: Fragment, at: int, warp: int, tm: TensorMemory, first: int, end: int) -> None:
        """Handle the allocation of columns first..end to a warp."""

    def pair_allocated(self, f: Fragment, at: int, warp: int, peer: CTA) -> None:
        """Handle an allocation for a pair of CTAs, before `tmem_allocated`."""

    def tmem_freed(self, f: Fragment, at: int, warp: int, tm: TensorMemory, first: int, end: int) -> None:
        """Handle the deallocation of columns first..end by a warp."""

    def pair_freed(
        self, f: Fragment, at: int, warp: int, tm: TensorMemory, peer: TensorMemory, first: int, end: int
    ) -> None:
        """Handle a deallocation for a pair: it is complete when the peer issues it, too."""

    # global memory
    def global_copied(
        self, allocation: Allocation, origin: Origin, part: Part, write: bool, combines: bool = False
    ) -> None:
        """Handle a copy that reads or writes an allocation; `combines`: a reduction."""

    def dependency_waited(self, f: Fragment) -> None:
        """Handle griddepcontrol.wait: the previous launch has ended and its writes are visible."""

    # the end
    def cluster_suspended(self) -> None:
        """Handle a cluster that only polls: other clusters run before it resumes."""

    def cluster_resumed(self) -> None: ...

    def cta_exited(self, cta: CTA) -> None:
        """Handle the exit of a CTA's last thread."""
