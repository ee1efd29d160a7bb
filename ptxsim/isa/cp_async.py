"""cp.async and st.async: per-thread copies, groups, mbarrier arrivals (PTX ISA 9.7.9)."""

import itertools
from dataclasses import dataclass

import numpy as np

from ..core.barriers import MBarrier
from ..core.counting import flatnonzero
from ..core.cta import CTA
from ..core.warp import Address, Fragment
from ..core.work import Kind, Origin, Pipe, Task
from ..frontend.formats import U32, U64
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, items
from ..memory.address import OFFSET_MASK, RANK_SHIFT, SHARED_BASE, SHARED_WINDOW, SharedAddress
from .mbarrier import located


@dataclass(slots=True, eq=False)
class Move:
    """One lane's copy from a global to a shared address: `valid` bytes, then zeros."""

    to: SharedAddress
    source: int
    valid: int


@dataclass(slots=True, eq=False)
class ThreadCopies(Task):
    """The cp.async copies of a warp's lanes, `size` bytes each."""

    origin: Origin
    moves: list[Move]
    size: int
    kind: Kind = "copy"

    @property
    def label(self) -> str:
        return "cp.async"

    def brings(self, cta: CTA, offset: int) -> bool:
        to = [move.to for move in self.moves if move.to.rank == cta.rank]
        return any(address.offset <= offset < address.offset + self.size for address in to)

    def run(self) -> None:
        for move in self.moves:
            self._copy(move)

    def _copy(self, move: Move) -> None:
        origin, size, at = self.origin, self.size, move.to.offset
        cta, machine = origin.cta, origin.machine
        if not 0 <= at <= cta.shared_bytes - size or at % size:
            return origin.report("out-of-bounds", f"cp.async to shared offset {at} of {cta.shared_bytes}")
        data = np.zeros(size, np.uint8)
        if move.valid:
            source_bytes = None if move.source % size else machine.read_global(move.source, move.valid, origin)
            if source_bytes is None:
                kind = "misaligned" if move.source % size else "out-of-bounds"
                where = machine.memory.location(move.source, move.valid)
                return origin.report(kind, f"cp.async of {move.valid} bytes from {move.source:#x}: {where}")
            data[: move.valid] = source_bytes
        observer = origin.cluster.observer
        observer.shared_copied(cta, at, at + size, origin, None)
        cta.shared[at : at + size] = data
        if observer.doubtful:
            observer.shared_written(cta, True)
        return None


class GroupEnd(Task):
    """The end of a group of a warp's cp.async copies."""

    __slots__ = ()
    kind: Kind = "copy"

    @property
    def label(self) -> str:
        return "cp.async group"

    def run(self) -> None:
        """Do nothing; the task only marks the end of a group."""


@emits("cp.async", results=0)
def _cp_async(g: Generator, ins: Instruction) -> None:
    parts = ins.parts[2:]
    known = {"ca", "cg", "shared", "shared::cta", "global"}
    if any(p not in known and not p.startswith("L2::") for p in parts):
        raise g.unknown()
    dst, src, size, *rest = ins.operands
    if "L2::cache_hint" in parts:
        rest.pop()
    full = g.number(size, "a cp.async size")
    valid = g.read(rest[0], U32) if rest else g.constant(full, U32)
    g.line(f"cp_async(f, {g.at}, {g.address_tuple(dst)}, {g.address_tuple(src)}, {full}, {valid})")


@runtime
def cp_async(f: Fragment, at: int, to: Address, source: Address, size: int, valid: np.ndarray) -> None:
    operands = zip(f.addresses(to), f.addresses(source), f.values(valid), strict=True)
    moves = [Move(SharedAddress.of(t), s, v) for t, s, v in operands]
    start = 0
    for warp, lanes in f.lanes_by_warp(f.lanes()).items():
        own = moves[start : start + len(lanes)]
        start += len(lanes)
        f.cta.uncounted_copies[warp] = at
        f.cta.cluster.post(Pipe("cp.async", f.cta.rank, warp), ThreadCopies(f.issue(at, warp), own, size))


@emits("cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all", results=0)
def _groups(g: Generator, ins: Instruction) -> None:
    if ins.parts[2] == "commit_group":
        g.line("cp_async_commit(f)")
    else:
        left = g.number(ins.operands[0], "a wait_group count") if ins.parts[2] == "wait_group" else -1
        g.line(f"cp_async_wait(f, {left})")


@runtime
def cp_async_commit(f: Fragment) -> None:
    for warp in f.warps():
        f.cta.uncounted_copies.pop(warp, None)
        f.cta.cluster.post(Pipe("cp.async", f.cta.rank, warp), GroupEnd())
        f.cta.cluster.observer.copies_committed(f, warp)


@runtime
def cp_async_wait(f: Fragment, left: int) -> None:
    """Run this warp's copies until at most `left` groups are open (-1: all)."""
    cluster = f.cta.cluster
    for warp in f.warps():
        if left < 0:
            f.cta.uncounted_copies.pop(warp, None)
        pipe = Pipe("cp.async", f.cta.rank, warp)
        while pipe in cluster.pipes.queues:
            open_groups = sum(isinstance(task, GroupEnd) for task in cluster.pipes.queues[pipe])
            if left >= 0 and open_groups <= left:
                break
            cluster.complete(pipe)
        cluster.observer.copies_waited(f, warp, left)


@dataclass(slots=True, eq=False)
class CopiesArrive(Task):
    """An arrival on an mbarrier once the warp's earlier cp.async copies have run."""

    origin: Origin
    bar: MBarrier
    count: int
    kind: Kind = "copy"

    @property
    def label(self) -> str:
        return "cp.async mbarrier arrive"

    def run(self) -> None:
        self.origin.cluster.observer.copies_arrived(self.bar, self.origin)
        self.bar.arrive(self.count, self.origin.fragment, self.origin.at)


@emits("cp.async.mbarrier", results=0)
def _cp_arrive(g: Generator, ins: Instruction) -> None:
    if ins.parts[3] != "arrive" or set(ins.parts[4:]) - {"noinc", "shared", "shared::cta", "b64"}:
        raise g.unknown()
    g.line(f"cp_async_arrive(f, {g.at}, {g.address_tuple(ins.operands[0])}, {'noinc' in ins.parts})")


@runtime
def cp_async_arrive(f: Fragment, at: int, operand: Address, noinc: bool) -> None:
    """Queue an arrival after the copies; with `noinc` the barrier's count already includes it."""
    for bar, lanes in located(f, at, operand):
        for warp, own in f.lanes_by_warp(lanes).items():
            if not noinc:
                bar.pending += len(own)
            f.cta.uncounted_copies.pop(warp, None)
            task = CopiesArrive(f.issue(at, warp), bar, len(own))
            f.cta.cluster.post(Pipe("cp.async", f.cta.rank, warp), task)


@dataclass(slots=True, eq=False)
class RemoteStore(Task):
    """A warp's st.async to a CTA: offsets by lane, data (lanes, bytes), an mbarrier."""

    origin: Origin
    target: CTA
    offsets: np.ndarray
    data: np.ndarray
    bar: MBarrier
    kind: Kind = "copy"

    @property
    def label(self) -> str:
        return f"st.async, line {self.origin.line}"

    def brings(self, cta: CTA, offset: int) -> bool:
        past = offset - self.offsets
        return cta is self.target and bool(((past >= 0) & (past < self.data.shape[1])).any())

    def run(self) -> None:
        size = self.data.shape[1]
        words = self.offsets[:, None] // 4 + np.arange(size // 4)
        self.target.words[4][words] = self.data.view(np.uint32)
        self.origin.cluster.observer.shared_scattered(self.target, words.ravel(), self.origin, self.bar)
        self.bar.complete_tx(self.data.size, self.origin.at)


@emits("st.async", results=0)
def _st_async(g: Generator, ins: Instruction) -> None:
    known = {"weak", "shared::cluster", "mbarrier::complete_tx::bytes", "v2", "v4"}
    types = [p for p in ins.parts[2:] if p in ("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")]
    if len(types) != 1 or set(ins.parts[2:]) - known - set(types):
        raise g.unknown()
    mem, value, bar = ins.operands
    fmt = U32 if types[0][1:] == "32" else U64
    values = g.reads(items(value), fmt)
    g.line(f"st_async(f, {g.at}, {g.address_tuple(mem)}, {g.address_tuple(bar)}, {fmt.bits // 8}, {values})")


@runtime
def st_async(f: Fragment, at: int, to: Address, bar: Address, item: int, values: tuple[np.ndarray, ...]) -> None:
    """Queue a task per warp, CTA and mbarrier; `item`: bytes per value."""
    cta, lanes, size = f.cta, f.lanes(), item * len(values)
    columns = np.empty((len(lanes), len(values)), f"u{item}")
    for j, value in enumerate(values):
        columns[:, j] = _in_lanes(value, lanes)
    signals, addresses = (_in_lanes(base, lanes).astype(np.int64) + offset for base, offset in (bar, to))
    ranks, offsets = (addresses & SHARED_WINDOW - 1) >> RANK_SHIFT, (addresses & OFFSET_MASK) - SHARED_BASE
    groups: dict[tuple[int, int, int], list[int]] = {}
    keys = np.stack([(lanes + f.lo) // 32, ranks, signals], 1)
    starts = [0, *(flatnonzero((keys[1:] != keys[:-1]).any(1)) + 1).tolist(), len(lanes)]
    for first, end in itertools.pairwise(starts):
        warp, rank, signal = keys[first].tolist()
        groups.setdefault((warp, rank, signal), []).extend(range(first, end))
    for (warp, rank, signal), of in groups.items():
        target, barrier = cta.peer(rank), cta.mbarrier(SharedAddress.of(signal))
        if target is None or barrier is None:
            f.report(at, "barrier", "st.async names a CTA or an mbarrier that does not exist", lanes[of])
            continue
        past = offsets[of]
        fits = (past >= 0) & (past + size <= target.shared_bytes) & (past % size == 0)
        own = np.array(of)[fits]
        for n in np.array(of)[~fits].tolist():
            kind = "misaligned" if offsets[n] % size else "out-of-bounds"
            f.report(at, kind, f"st.async of {size} bytes to shared offset {offsets[n]}", lanes[n : n + 1])
        if not len(own):
            continue
        origin = f.issue(at, warp)
        cta.cluster.observer.copy_expected(barrier, origin, target, len(own))
        data = np.ascontiguousarray(columns[own]).view(np.uint8)
        cta.cluster.post(cta.cluster.pipes.own(cta.rank), RemoteStore(origin, target, offsets[own], data, barrier))


def _in_lanes(operand: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Return an operand in some lanes of the range."""
    operand = np.asarray(operand)
    return operand[lanes] if operand.ndim else np.full(len(lanes), operand)
