"""Completion times of asynchronous work: copies, stores and products, per engine."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.work import Pipe, Task
from ..frontend.pending import product_origin
from ..isa import bulk, cp_async, tcgen05, tma, wgmma
from ..isa.tensor_product import TensorProduct
from ..memory.bulk_store import ReadHalf, Store, WriteHalf
from .cluster_clock import ClusterClock
from .l1_cache import Lines

_WGMMA_DEPTH = 2  # products that a warp can have issued before the first of them has begun
_BITS = {"tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
_INTEGERS = range(1, 6)  # TMA element types that may hold indices or lengths, so these copies execute
_NOTHING = np.zeros(0, np.uint8)
_RATE = {"tf32": 0.5, "f16": 1.0, "i8": 2.0, "f8f6f4": 2.0, "mxf8f6f4": 2.0, "mxf4": 4.0, "mxf4nvf4": 4.0}


class Engines:
    """The engines as one cluster sees them."""

    def __init__(self, clock: ClusterClock) -> None:
        self.clock, self.sms = clock, clock.sms
        self.constants = clock.constants
        self.machine, self.memory, self.recorder = clock.shared.machine, clock.shared.memory, clock.shared.recorder
        self.last: dict[Pipe, float] = {}  # when the latest task of a pipe will be done
        self.computed: dict[int, float] = {}  # when a CTA's tcgen05 work completes
        self.stores: dict[Store, float] = {}  # when a bulk store will be in L2
        code = self.machine.code
        self.one_product = code is not None and code.one_product_at_a_time
        self._latest_store: tuple[tuple[float, ...], float, float] = ((), 0.0, 0.0)
        self.how: dict[type[Task], Callable[[Any, Pipe, float], float]] = {
            tma.BoxLoad: self._box_load,
            bulk.BytesLoad: self._bytes_load,
            cp_async.ThreadCopies: self._thread_copies,
            cp_async.RemoteStore: self._remote_store,
            ReadHalf: self._read_half,
            WriteHalf: self._write_half,
            wgmma.WarpgroupProduct: self._wgmma,
            TensorProduct: self._tcgen05,
            tcgen05.TensorCopy: self._tensor_copy,
            tcgen05.Commit: self._commit,
        }

    def begin(self, pipe: Pipe, task: Task, at: float) -> float:
        """Return when a task issued at `at` completes; tasks of a pipe complete in order."""
        how = self.how.get(type(task))
        end = at if how is None else how(task, pipe, at)
        end = self.last[pipe] = max(end, self.last.get(pipe, 0.0))
        return end

    def _allocation(self, address: int) -> int:
        region = self.machine.memory.find(address)
        return 0 if region is None else region.address

    # copies
    def _box_load(self, task: tma.BoxLoad, pipe: Pipe, at: float) -> float:
        tensor = task.tensor
        size = tensor.box_bytes
        sm = self.sms[task.origin.cta.rank]
        fills = [self.sms[target.cta.rank] for target in task.targets]
        rows = size // max(tensor.inner_bytes, 1)
        end = self.memory.box(sm, fills, self._allocation(task.tensor.nearest(task.corner)), size, rows, at)
        self.recorder.engine("TMA loads", "copy", task.origin, at, end)
        return end

    def _bytes_load(self, task: bulk.BytesLoad, pipe: Pipe, at: float) -> float:
        sm, fill = self.sms[task.origin.cta.rank], self.sms[task.target.rank]
        if task.from_shared:
            return sm.network.take(task.size, at) + self.constants.dsm_latency
        end = self.memory.box(sm, [fill], self._allocation(task.source), task.size, 1, at)
        self.recorder.engine("TMA loads", "copy", task.origin, at, end)
        return end

    def _thread_copies(self, task: cp_async.ThreadCopies, pipe: Pipe, at: float) -> float:
        lines: Lines = {}
        for sector in {(move.source + k) >> 5 for move in task.moves if move.valid for k in range(0, task.size, 32)}:
            lines[sector >> 2] = lines.get(sector >> 2, 0) | 1 << (sector & 3)
        if not lines:
            return at
        origin = task.origin
        in_l1 = "ca" in self.machine.program.instructions[origin.at].parts
        sm, allocation = self.sms[origin.cta.rank], self._allocation(task.moves[0].source)
        return self.memory.load(sm, allocation, lines, task.size * len(task.moves), at, in_l1)[0]

    def _remote_store(self, task: cp_async.RemoteStore, pipe: Pipe, at: float) -> float:
        sm = self.sms[task.origin.cta.rank]
        return sm.network.take(task.data.size, at) + self.constants.dsm_latency

    def _read_half(self, task: ReadHalf, pipe: Pipe, at: float) -> float:
        store = task.store
        if isinstance(store, tma.BoxStore):
            size, address = store.tensor.box_bytes, store.tensor.nearest(store.corner)
        else:
            assert isinstance(store, bulk.BytesStore)
            size, address = store.size, store.to
        # Identical stores of a warp's lanes count once: the instruction takes uniform operands.
        request = (at, store.origin.at, store.origin.warp, store.origin.cta.rank, store.offset, address)
        if request == self._latest_store[0]:
            read, self.stores[store] = self._latest_store[1:]
            return read
        sm = self.sms[store.origin.cta.rank]
        read, written = self.memory.box_store(sm, self._allocation(address), size, at)
        self.stores[store] = written
        self._latest_store = (request, read, written)
        self.recorder.engine("TMA stores", "store", store.origin, at, written)
        return read

    def _write_half(self, task: WriteHalf, pipe: Pipe, at: float) -> float:
        return self.stores.pop(task.store, at)

    # products
    def _wgmma(self, task: wgmma.WarpgroupProduct, pipe: Pipe, at: float) -> float:
        """Return when a wgmma product completes.

        Each warp's quarter runs on the tensor core of its scheduler; A and B are read once for all four.
        If ptxas waits for each product, so does the warp.
        """
        spec, f = task.spec, self.constants
        bits = _BITS[spec.a_type]
        rate = f.wgmma_flops_per_cycle * 16 / bits
        cycles = 2 * 64 * spec.n * spec.k / rate
        operands = (spec.n + (0 if task.a is None else 64)) * spec.k * bits / 8
        cycles = max(cycles, operands / f.shared_bytes_per_cycle)
        if task.a is None:
            cycles += f.wgmma_register_cycles
        clock = self.clock.warps[task.origin.cta.rank, task.warps[0]]
        start = max(at, clock.scheduler.tensor_free)
        clock.scheduler.tensor_free = end = start + cycles
        clock.sm.tensor_busy += cycles * len(task.warps) / 4
        clock.products.append(start)
        if len(clock.products) > _WGMMA_DEPTH:
            clock.time = max(clock.time, clock.products.popleft())
        if self.one_product:
            clock.time = max(clock.time, end + f.wgmma_latency)
        self.recorder.engine("tensor cores", "product", task.origin, start, end)
        return end + f.wgmma_latency

    def _tcgen05(self, task: TensorProduct, pipe: Pipe, at: float) -> float:
        w, group, f = task.descriptor, task.form.group, self.constants
        rows = w.m // group
        if group == 1:  # with 64 rows half the lanes are idle; a CTA pair with 64 rows each fills them
            rows = max(rows, 128)
        cycles = 2 * rows * w.n * w.k / (f.tcgen05_flops_per_cycle * _RATE[task.form.kind])
        read = w.n // group * w.k * w.bits / 8
        if not task.form.a_in_tensor_memory:
            read += w.m // group * w.k * w.bits / 8
        return self._on_tensor_cores(task, group, max(cycles, read / f.shared_bytes_per_cycle), at)

    def _tensor_copy(self, task: tcgen05.TensorCopy, pipe: Pipe, at: float) -> float:
        size = 4 * task.form.rows * task.form.columns
        return self._on_tensor_cores(task, task.form.group, size / self.constants.tcgen05_cp_bytes_per_cycle, at)

    def _on_tensor_cores(self, task: Any, group: int, cycles: float, at: float) -> float:
        rank = task.origin.cta.rank
        ranks = [rank] if group == 1 else [rank & ~1, rank | 1]
        sms = [self.sms[r] for r in ranks if r < len(self.sms)]
        start = max([at, *(sm.tensor.free for sm in sms)])
        for sm in sms:
            sm.tensor.free = start + cycles
            sm.tensor_busy += cycles
        self.computed[rank] = start + cycles
        self.recorder.engine("tensor cores", "product", task.origin, start, start + cycles)
        return start + cycles

    def _commit(self, task: tcgen05.Commit, pipe: Pipe, at: float) -> float:
        f = self.constants
        pair = f.tcgen05_pair_latency if len(task.bars) > 1 else 0.0
        return max(at, self.computed.get(pipe.rank, 0.0)) + f.tcgen05_latency + pair


def skip(task: Task) -> bool:
    """Run only a task's signals; return False if it must run fully."""
    if isinstance(task, wgmma.WarpgroupProduct):
        unfinished = task.origin.cta.unfinished
        for warp in task.warps:
            key = (warp, product_origin(task.spec.at))
            if key in unfinished:
                unfinished[key] -= 1
    elif isinstance(task, tma.BoxLoad) and task.tensor.dtype not in _INTEGERS:
        for _, bar in task.targets:
            bar.complete_tx(task.tensor.transaction_bytes)
    elif isinstance(task, ReadHalf):
        task.store.data = _NOTHING
    elif isinstance(task, WriteHalf):
        task.store.written = True
    elif not isinstance(task, TensorProduct | tcgen05.TensorCopy):
        return False
    return True


class Copied(NamedTuple):
    """The global memory of a copy: address of its first byte, size in bytes, direction."""

    address: int
    size: float
    writes: bool = False


def copied(task: Task) -> Copied | None:
    """Return the global memory that a task reads or writes; None if it does neither."""
    if isinstance(task, tma.BoxLoad):
        return Copied(task.tensor.nearest(task.corner), float(task.tensor.box_bytes))
    if isinstance(task, bulk.BytesLoad) and not task.from_shared:
        return Copied(task.source, float(task.size))
    if isinstance(task, cp_async.ThreadCopies) and task.moves:
        return Copied(task.moves[0].source, float(sum(move.valid for move in task.moves)))
    if isinstance(task, ReadHalf):
        store = task.store
        if isinstance(store, tma.BoxStore):
            return Copied(store.tensor.nearest(store.corner), float(store.tensor.box_bytes), True)
        if isinstance(store, bulk.BytesStore):
            return Copied(store.to, float(store.size), True)
    return None
