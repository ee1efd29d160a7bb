"""cp.async.bulk: bulk copies without a tensor map, and groups of bulk stores.

It also decodes the opcodes of TMA copies (PTX ISA 9.7.9.25).
"""

from dataclasses import dataclass

import numpy as np

from ..core.barriers import MBarrier
from ..core.cta import CTA
from ..core.warp import Address, Fragment
from ..core.work import Kind, Origin, Task
from ..frontend.formats import U16, U32
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, Mem, Operand, Vec
from ..memory.address import SharedAddress, ranks_of
from ..memory.bulk_store import REDUCTIONS, Store, combine
from .tma import TensorLoad, TensorStore

_SPACES = ("global", "shared::cta", "shared::cluster")
_TYPES = ("f16", "bf16", "f32", "f64", "u32", "s32", "u64", "s64", "b32", "b64")
_ALLOWED = {
    "bulk",
    "async",
    "tensor",
    "tile",
    "bulk_group",
    "1d",
    "2d",
    "3d",
    "4d",
    "5d",
    "L2::cache_hint",
    "cta_group::1",
    "cta_group::2",
    "multicast::cluster",
    "mbarrier::complete_tx::bytes",
    "prefetch",
    "L2",
    "reduce",
    "noftz",
    *_SPACES,
    *_TYPES,
    *REDUCTIONS,
}


@dataclass(frozen=True, slots=True)
class BulkLoad:
    """cp.async.bulk into shared memory, from global memory or from this CTA's shared memory."""

    at: int
    from_shared: bool


@dataclass(frozen=True, slots=True)
class BulkStore:
    """cp(.reduce).async.bulk to global memory; `op` "" stores, others combine elements of `type`."""

    at: int
    op: str
    type: str


@emits("cp.async.bulk", "cp.reduce.async.bulk", results=0)
def _bulk(g: Generator, ins: Instruction) -> None:
    parts = ins.parts[1:]
    bad = next((p for p in parts if p not in _ALLOWED), None)
    if bad is not None:
        raise g.unknown(f".{bad}")
    if "prefetch" in parts:
        return None  # a hint
    operands = list(ins.operands)
    if "L2::cache_hint" in parts:
        operands.pop()
    mask = g.read(operands.pop(), U16) if "multicast::cluster" in parts else "None"
    op = next((p for p in parts if p in REDUCTIONS), "") if "reduce" in parts else ""
    emit = _tensor_copy if "tensor" in parts else _plain_copy
    return emit(g, ins, operands, mask, op)


def _tensor_copy(g: Generator, ins: Instruction, operands: list[Operand], mask: str, op: str) -> None:
    spaces = [p for p in ins.parts if p in _SPACES]
    load = spaces[0] != "global"
    tensor, shared = (operands[1], operands[0]) if load else (operands[0], operands[1])
    if not isinstance(tensor, Mem) or not tensor.coords or not isinstance(tensor.coords[0], Vec):
        raise g.fail("a tensor access without coordinates")
    coords = g.reads(tensor.coords[0].items, U32)
    if load:
        spec = g.bind(TensorLoad(g.at, "cta_group::2" in ins.parts))
        bar = g.address_tuple(operands[2])
        return g.line(
            f"tma_load(f, {spec}, {g.address_tuple(shared)}, {g.address_tuple(tensor)}, {coords}, {bar}, {mask})"
        )
    spec = g.bind(TensorStore(g.at, op))
    return g.line(f"tma_store(f, {spec}, {g.address_tuple(shared)}, {g.address_tuple(tensor)}, {coords})")


def _plain_copy(g: Generator, ins: Instruction, operands: list[Operand], mask: str, op: str) -> None:
    spaces = [p for p in ins.parts if p in _SPACES]
    dst, src, size, *rest = operands
    copy_operands = f"{g.address_tuple(dst)}, {g.address_tuple(src)}, {g.read(size, U32)}"
    if spaces[0] == "global":
        kind = next((p for p in ins.parts if p in _TYPES), "")
        return g.line(f"bulk_store(f, {g.bind(BulkStore(g.at, op, kind))}, {copy_operands})")
    if op:
        raise g.unknown()
    spec = g.bind(BulkLoad(g.at, spaces[1] != "global"))
    return g.line(f"bulk_load(f, {spec}, {copy_operands}, {g.address_tuple(rest[0])}, {mask})")


@dataclass(slots=True, eq=False)
class BytesLoad(Task):
    """A copy of bytes to a CTA's shared memory, counted on an mbarrier.

    `source` is a global address or, with `from_shared`, a shared one of the issuing CTA.
    """

    origin: Origin
    source: int
    size: int
    target: CTA
    offset: int
    bar: MBarrier
    from_shared: bool
    kind: Kind = "copy"

    @property
    def label(self) -> str:
        return "bulk copy"

    def brings(self, cta: CTA, offset: int) -> bool:
        return cta is self.target and self.offset <= offset < self.offset + self.size

    def run(self) -> None:
        data = self._from_shared() if self.from_shared else self._from_global()
        if data is None:
            return
        end = self.offset + self.size
        self.target.shared[self.offset : end] = data
        self.origin.cluster.observer.shared_copied(self.target, self.offset, end, self.origin, self.bar)
        self.bar.complete_tx(self.size, self.origin.at)

    def _from_shared(self) -> np.ndarray:
        cta, start = self.origin.cta, SharedAddress.of(self.source).offset
        data = cta.shared[start : start + self.size]
        self.origin.cluster.observer.shared_stored(cta, start, start + self.size, self.origin, self.bar)
        return data

    def _from_global(self) -> np.ndarray | None:
        machine = self.origin.machine
        data = machine.read_global(self.source, self.size, self.origin)
        if data is None:
            where = machine.memory.location(self.source, self.size)
            what = f"a bulk copy of {self.size} bytes from {self.source:#x}: {where}"
            self.origin.report("out-of-bounds", what)
        return data


@runtime
def bulk_load(
    f: Fragment, spec: BulkLoad, to: Address, source: Address, size: np.ndarray, bar: Address, mask: np.ndarray | None
) -> None:
    masks: list[int | None] = [None] * f.count if mask is None else [*f.values(mask)]
    operands = [*zip(f.addresses(to), f.addresses(source), f.values(size), f.addresses(bar), masks, strict=True)]
    f.report_repeats(spec.at, "copy", operands)
    for lane, (destination, start, n, signal, bits) in zip(f.lanes(), operands, strict=True):
        address = SharedAddress.of(destination)
        offset, limit, odd = address.offset, f.cta.shared_bytes, (address.offset | n | start) % 16
        if offset < 0 or offset + n > limit or odd:
            what = f"a bulk copy of {n} bytes to shared offset {offset} of {limit}"
            f.report(spec.at, "misaligned" if odd else "out-of-bounds", what)
            continue
        _begin_load(f, spec, int(lane), address, start, n, SharedAddress.of(signal), bits)


def _begin_load(
    f: Fragment,
    spec: BulkLoad,
    lane: int,
    to: SharedAddress,
    source: int,
    size: int,
    signal: SharedAddress,
    mask: int | None,
) -> None:
    """Queue a copy to each target CTA."""
    cta, cluster = f.cta, f.cta.cluster
    origin = f.issue(spec.at, f.warp_of(lane))
    f.machine.counts.tma_instructions += 1
    f.machine.counts.tma_bytes += size
    for rank in [to.rank] if mask is None else ranks_of(mask):
        target, bar = cta.peer(rank), cta.mbarrier(signal if mask is None else signal.at(rank))
        if target is None or bar is None:
            what = f"a bulk copy names CTA rank {rank} or an mbarrier that does not exist"
            f.report(spec.at, "barrier", what)
            continue
        cluster.observer.copy_expected(bar, origin, target)
        task = BytesLoad(origin, source, size, target, to.offset, bar, spec.from_shared)
        cluster.post(cluster.pipes.own(cta.rank), task)


@dataclass(slots=True, eq=False)
class BytesStore(Store):
    """A copy of bytes from shared to global memory."""

    offset: int
    size: int
    to: int
    spec: BulkStore

    @property
    def label(self) -> str:
        return "bulk store"

    def read(self) -> np.ndarray:
        cta, end = self.origin.cta, self.offset + self.size
        self.origin.cluster.observer.shared_stored(cta, self.offset, end, self.origin)
        return cta.shared[self.offset : end].copy()

    def write(self, data: np.ndarray) -> None:
        target = self.origin.machine.write_global(self.to, self.size, self.origin, bool(self.spec.op))
        if target is not None:
            target[...] = combine(target, data, self.spec.type, self.spec.op) if self.spec.op else data


@runtime
def bulk_store(f: Fragment, spec: BulkStore, to: Address, source: Address, size: np.ndarray) -> None:
    cta, machine = f.cta, f.machine
    operands = [*zip(f.addresses(to), f.addresses(source), f.values(size), strict=True)]
    f.report_repeats(spec.at, "copy", operands)
    for lane, (end, start, n) in zip(f.lanes(), operands, strict=True):
        offset = SharedAddress.of(start).offset
        inside = offset >= 0 and offset + n <= cta.shared_bytes and machine.memory.find(end, n) is not None
        if not inside or (offset | n | end) % 16:
            where = machine.memory.location(end, n)
            what = f"a bulk copy of {n} bytes from shared offset {offset} to {end:#x}: {where}"
            f.report(spec.at, "out-of-bounds", what)
            continue
        origin = f.issue(spec.at, f.warp_of(lane))
        machine.counts.tma_instructions += 1
        machine.counts.tma_bytes += n
        BytesStore(origin, (f.lo + int(lane),), offset, n, end, spec).begin()


@emits("cp.async.bulk.commit_group", "cp.async.bulk.wait_group", results=0)
def _groups(g: Generator, ins: Instruction) -> None:
    if ins.parts[3] == "commit_group":
        return g.line("bulk_commit(f)")
    left = g.number(ins.operands[0], "a wait_group count")
    return g.line(f"bulk_wait(f, {left}, {'read' in ins.parts})")


@runtime
def bulk_commit(f: Fragment) -> None:
    for lane in f.lanes():
        groups = f.cta.cluster.stores.get((f.cta.rank, f.lo + int(lane)))
        if groups is not None:
            groups.append([])


@runtime
def bulk_wait(f: Fragment, left: int, read_only: bool) -> None:
    """Complete the thread's bulk groups but the newest `left`; with .read only their shared reads.

    If several threads issued a store, the warp knows it is done only when the last of them has waited: another thread's
    copy of it may still be in flight.
    """
    cluster = f.cta.cluster
    for lane in f.lanes():
        thread = f.lo + int(lane)
        groups = cluster.stores.get((f.cta.rank, thread))
        if groups is None:
            continue
        count = max(len(groups) - 1 - left, 0)
        awaited = [store for group in groups[:count] for store in group]
        for store in awaited:
            store.waiters.add(thread)
            while store.pipe in cluster.pipes.queues and not (store.data is not None if read_only else store.written):
                cluster.complete(store.pipe)
        cluster.observer.stores_waited(f, f.warp_of(lane), [store.origin for store in awaited if store.waited])
        groups[:count] = [group for group in groups[:count] if not all(store.written for store in group)]
