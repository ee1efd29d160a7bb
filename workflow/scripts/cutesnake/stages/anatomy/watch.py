"""Watch one simulated run: which warps ran which code, and their copies, products and barriers.

ptxsim's observer hooks report who did what. Results of the run are ignored.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxsim import Launch
from ptxsim.descriptors import TensorMap
from ptxsim.hooks import (
    CTA,
    Access,
    Allocation,
    BoxLoad,
    BoxStore,
    BytesLoad,
    BytesStore,
    Code,
    CopiesArrive,
    Fragment,
    MBarrier,
    NamedBarrier,
    Observer,
    Origin,
    ReadHalf,
    Task,
    TensorProduct,
    ThreadCopies,
    WarpgroupProduct,
)
from ptxsim.hooks import watch as watch_launches
from ptxsim.ptx import Block, Instruction

WATCHED_CLUSTERS = 6  # of a launch, the first ones: the others do the same with other tiles
MORE_CLUSTERS = 4  # times as many, where the first ones had no work

MOST_OFFSETS = 64  # kept of an ordinary access

Warp = tuple[int, int]  # (rank of the CTA in its cluster, number of the warp in its CTA)


@dataclass
class Copy:
    """Copies of one instruction: warps, tensor, shared offsets, mbarriers."""

    at: int
    tensor: TensorMap | None
    warps: Counter[Warp] = field(default_factory=Counter)
    offsets: set[int] = field(default_factory=set)
    barriers: dict[int, set[int]] = field(default_factory=dict)  # mbarrier -> shared offsets that it counts
    most_targets: int = 1
    touched: int | None = None  # an address in global memory that the first copy reads or writes
    size: int = 0

    @property
    def ranges(self) -> list[range]:
        """Return the shared offsets that each copy reads or writes."""
        size = self.tensor.box_bytes if self.tensor else self.size
        return [range(offset, offset + size) for offset in self.offsets]

    @property
    def span(self) -> range:
        """Return shared offsets from the first to the last byte of an ordinary access."""
        return range(min(self.offsets), max(self.offsets) + max(self.size, 1))

    @property
    def addresses(self) -> set[int]:
        """Return shared offsets of the four-byte words that an ordinary access covers."""
        return {at & -4 for offset in self.offsets for at in range(offset, offset + max(self.size, 1), 4)}


@dataclass
class Multiply:
    """Matrix products of one instruction; `form` as in a record."""

    at: int
    form: dict[str, Any]
    warps: Counter[Warp] = field(default_factory=Counter)
    columns: set[int] = field(default_factory=set)  # of tensor memory where D begins
    operands: set[int] = field(default_factory=set)  # shared offsets where descriptors begin
    operand_columns: set[int] = field(default_factory=set)  # of tensor memory where A begins


@dataclass
class Bar:
    """Uses of the mbarrier at one shared offset, in all watched CTAs."""

    count: int
    completed: int = 0
    arrivals: Counter[tuple[str, int, Warp, bool]] = field(default_factory=Counter)  # kind, at, who, from another CTA
    waits: Counter[tuple[int, Warp]] = field(default_factory=Counter)  # at, who
    made: set[int] = field(default_factory=set)
    phases: int = 0  # that it completed in one CTA, at most
    first: int | None = None  # place of its first phase among all that completed
    early: bool = False  # whether a wait for the phase before the first one passed, as a producer's first wait does


@dataclass
class Seen:
    """Observations of one launch. Instructions are indices into `code`."""

    launch: Launch
    code: list[Instruction]
    blocks: list[Block]
    visits: Counter[tuple[int, int, int]] = field(default_factory=Counter)  # (rank, warp, block)
    loads: dict[tuple[int, TensorMap | None], Copy] = field(default_factory=dict)
    stores: dict[tuple[int, TensorMap | None], Copy] = field(default_factory=dict)
    products: dict[tuple[int, str], Multiply] = field(default_factory=dict)
    bars: dict[int, Bar] = field(default_factory=dict)
    named: dict[int, dict[str, Counter[Any]]] = field(default_factory=dict)
    shared: dict[tuple[int, bool], Copy] = field(default_factory=dict)  # (at, of another CTA) -> ordinary accesses
    drains: dict[Warp, Counter[tuple[int, int]]] = field(default_factory=dict)  # after the last load or product
    sent: set[int] = field(default_factory=set)  # shared offsets that st.async wrote, the ends of each
    touched: dict[int, set[str]] = field(default_factory=dict)  # ordinary global access -> names of its tensors
    columns: dict[int, set[int]] = field(default_factory=dict)  # tcgen05.st -> first columns of tensor memory
    clusters: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def stored(self) -> bool:
        """Return whether anything was written to global memory."""
        plain = (self.code[at].base in ("st", "red", "atom") for at in self.touched)
        return bool(self.stores) or any(plain)


class Watcher(Observer):
    """Records blocks, tasks, barriers and memory accesses of each warp."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self._line_cache: dict[tuple[int, tuple[str, ...]], set[int]] = {}
        self._phases = 0

    def begins(self) -> None:
        """Count a cluster."""
        self.seen.clusters += 1

    def ran(self, f: Fragment, block: Block) -> None:
        """Count the visits of a block by warps."""
        for warp in f.warps():
            self.seen.visits[f.cta.rank, warp, block.index] += 1

    def asked(self, task: Task) -> None:
        """Note a task of a warp."""
        if isinstance(task, CopiesArrive):
            self._arrival(task.bar, "cp.async", task.origin.at, task.origin.cta, task.origin.warp, task.count)
        _note_task(self.seen, task)

    def global_access(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        """Note an access to global memory."""
        self.seen.touched.setdefault(access.at, set()).add(allocation.name)

    def tmem_access(
        self, f: Fragment, at: int, warp: int, tm: object, rows: np.ndarray, cols: np.ndarray, write: bool
    ) -> None:
        """Note an access to tensor memory."""
        if write:
            self.seen.columns.setdefault(at, set()).add(int(cols.min()))

    def mbarrier_initialised(self, f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None:
        """Note an mbarrier's address and count."""
        self._bar(bar).made |= self._current_lines(f, "mbarrier", "init")

    def copy_expected(self, bar: MBarrier, origin: Origin, target: CTA, times: int = 1) -> None:
        """Note an arrival by copies."""
        self._arrival(bar, "copy", origin.at, origin.cta, origin.warp, times)

    def products_committed(self, bar: MBarrier, origin: Origin) -> None:
        """Note an arrival by a commit of products."""
        self._arrival(bar, "commit", origin.at, origin.cta, origin.warp)

    def mbarrier_released(self, f: Fragment, bar: MBarrier, lanes: np.ndarray) -> None:
        """Note an arrival by threads."""
        at = max(self._current_lines(f, "mbarrier", "arrive"), default=-1)
        for lane in np.atleast_1d(lanes):
            self._arrival(bar, "threads", at, f.cta, f.warp_of(int(lane)))

    def peer_arrived(self, f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None:
        """Note a relaxed arrival from another CTA, which releases nothing."""
        if {"relaxed", "cta"} & set(self.seen.code[at].parts):
            for lane in np.atleast_1d(lanes):
                self._arrival(bar, "threads", at, f.cta, f.warp_of(int(lane)))

    def mbarrier_acquired(self, f: Fragment, bar: MBarrier, lanes: np.ndarray) -> None:
        """Note a wait."""
        at = self.seen.blocks[f.pc].first
        self._bar(bar).early |= bar.phase == 0
        for warp in {f.warp_of(int(lane)) for lane in np.atleast_1d(lanes)}:
            who = (f.cta.rank, warp)
            self._bar(bar).waits[at, who] += 1
            self.seen.drains.setdefault(who, Counter())[bar.offset, at] += 1

    def mbarrier_completed(self, bar: MBarrier) -> None:
        """Count a completed phase."""
        note = self._bar(bar)
        note.completed += 1
        note.phases = max(note.phases, bar.phase)
        note.first = self._phases if note.first is None else note.first
        self._phases += 1

    def barrier_arrived(self, f: Fragment, barrier: NamedBarrier, at: int) -> None:
        """Note the use of a named barrier."""
        note = self.seen.named.setdefault(barrier.number, {"warps": Counter(), "at": Counter(), "threads": Counter()})
        for warp in f.warps():
            note["warps"][f.cta.rank, warp] += 1
        note["at"][at] += 1
        note["threads"][barrier.required] += 1

    def shared_access(
        self, target: CTA, f: Fragment, offsets: np.ndarray, lanes: np.ndarray | None, access: Access
    ) -> None:
        """Note an ordinary access to shared memory."""
        key = (access.at, target is not f.cta)
        note = self.seen.shared.get(key)
        if note is None:
            note = self.seen.shared[key] = Copy(access.at, None, size=access.size)
        for warp in f.warps():
            note.warps[f.cta.rank, warp] += 1
        if len(note.offsets) < MOST_OFFSETS:
            note.offsets |= {int(offsets.min()), int(offsets.max())}

    def shared_scattered(self, target: CTA, addresses: np.ndarray, origin: Origin, bar: MBarrier) -> None:
        """Note a scattered write to shared memory."""
        self.seen.sent |= {4 * int(addresses.min()), 4 * int(addresses.max())}

    def _current_lines(self, f: Fragment, *parts: str) -> set[int]:
        """Return instructions of the fragment's block whose opcode begins with `parts`."""
        result = self._line_cache.get((f.pc, parts))
        if result is None:
            block = self.seen.blocks[f.pc]
            result = {at for at in range(block.first, block.last) if self.seen.code[at].parts[: len(parts)] == parts}
            self._line_cache[f.pc, parts] = result
        return result

    def _bar(self, bar: MBarrier) -> Bar:
        note = self.seen.bars.get(bar.offset)
        if note is None:
            note = self.seen.bars[bar.offset] = Bar(bar.expected)
        return note

    def _arrival(self, bar: MBarrier, kind: str, at: int, cta: CTA, warp: int, times: int = 1) -> None:
        self._bar(bar).arrivals[kind, at, (cta.rank, warp), bar.cta is not cta] += times


def _note_task(seen: Seen, task: Task) -> None:
    if isinstance(task, BoxLoad):
        targets = [(t.cta, t.bar) for t in task.targets]
        _note_load(seen, task.origin, task.tensor, task.offset, targets, 0, task.tensor.nearest(task.corner))
    elif isinstance(task, BytesLoad):
        source = None if task.from_shared else task.source
        _note_load(seen, task.origin, None, task.offset, [(task.target, task.bar)], task.size, source)
    elif isinstance(task, ThreadCopies):
        copy = _note_load(seen, task.origin, None, task.moves[0].to.offset, [], task.size, task.moves[0].source)
        copy.offsets |= {move.to.offset for move in task.moves[1:]} if len(copy.offsets) < MOST_OFFSETS else set()
    elif isinstance(task, ReadHalf) and isinstance(task.store, (BoxStore, BytesStore)):
        store = task.store
        tensor = store.tensor if isinstance(store, BoxStore) else None
        copy = seen.stores.setdefault((store.origin.at, tensor), Copy(store.origin.at, tensor))
        copy.warps[store.origin.cta.rank, store.origin.warp] += len(store.threads)
        copy.offsets.add(store.offset)
        copy.size = 0 if isinstance(store, BoxStore) else store.size
        if copy.touched is None:
            copy.touched = store.tensor.nearest(store.corner) if isinstance(store, BoxStore) else store.to
    elif isinstance(task, TensorProduct):
        _note_tensor_product(seen, task)
    elif isinstance(task, WarpgroupProduct):
        _note_wgmma(seen, task)
    # a commit is noted where it arrives, a copy into tensor memory in the code


def _note_load(
    seen: Seen,
    origin: Origin,
    tensor: TensorMap | None,
    offset: int,
    targets: Iterable[tuple[CTA, MBarrier]],
    size: int,
    source: int | None,
) -> Copy:
    copy = seen.loads.get((origin.at, tensor))
    if copy is None:
        copy = seen.loads[origin.at, tensor] = Copy(origin.at, tensor, touched=source)
    who = (origin.cta.rank, origin.warp)
    copy.warps[who] += 1
    copy.offsets.add(offset)
    targets = list(targets)
    for _, bar in targets:
        copy.barriers.setdefault(bar.offset, set()).add(offset)
    copy.most_targets = max(copy.most_targets, len(targets))
    copy.size = max(copy.size, size)
    seen.drains[who] = Counter()  # waits from here on come after this warp's last load so far
    return copy


def _note_tensor_product(seen: Seen, task: TensorProduct) -> None:
    seen.drains[task.origin.cta.rank, task.origin.warp] = Counter()  # waits from here on come after the last product
    w = task.descriptor
    form = {
        "instruction": "tcgen05.mma",
        "shape": [w.m, w.n, w.k],
        "kind": task.form.kind,
        "cta_group": task.form.group,
        "types": {"a": w.a, "b": w.b, "d": w.d},
        "a_in": "tensor memory" if task.form.a_in_tensor_memory else "shared memory",
        "b_in": "shared memory",
        "d_in": "tensor memory",
        "major": {"a": "mn" if w.a_mn else "k", "b": "mn" if w.b_mn else "k"},
        "scale_factors": task.form.scales,
        "descriptor_bits": f"{task.b:#018x}",
    }
    note = seen.products.setdefault((task.origin.at, str(form["shape"]) + w.d), Multiply(task.origin.at, form))
    note.warps[task.origin.cta.rank, task.origin.warp] += 1
    note.columns.add(task.d & 0xFFFF)
    starts = [task.b] if task.form.a_in_tensor_memory else [task.a, task.b]
    if task.form.a_in_tensor_memory:
        note.operand_columns.add(task.a & 0xFFFF)
    note.operands |= {((bits & 0x3FFF) << 4) - 1024 for bits in starts}


def _note_wgmma(seen: Seen, task: WarpgroupProduct) -> None:
    spec = task.spec
    form = {
        "instruction": "wgmma.mma_async",
        "shape": [64, spec.n, spec.k],
        "kind": None,
        "cta_group": None,
        "types": {"a": spec.a_type, "b": spec.b_type, "d": spec.d_type},
        "a_in": "registers" if task.a is None else "shared memory",
        "b_in": "shared memory",
        "d_in": "registers",
        "major": {"a": "mn" if spec.a_mn else "k", "b": "mn" if spec.b_mn else "k"},
        "scale_factors": 0,
        "descriptor_bits": f"{task.b:#018x}",
    }
    note = seen.products.setdefault((task.origin.at, ""), Multiply(task.origin.at, form))
    for warp in task.warps:
        note.warps[task.origin.cta.rank, warp] += 1
    note.operands |= {((bits & 0x3FFF) << 4) - 1024 for bits in (task.a, task.b) if bits is not None}


def watch(
    launches: Iterable[Launch], schedule: str = "random", seed: int = 0, most_clusters: int | None = None
) -> list[Seen]:
    """Run launches in order under one schedule; end after one that deadlocks.

    Of each launch only the first `most_clusters` run, six by default. A launch whose first clusters store nothing runs
    more of them. Raises PtxError for what ptxsim cannot execute.
    """
    seen: list[Seen] = []
    for launch in launches:
        clusters = most_clusters or WATCHED_CLUSTERS
        note = _watch_one(launch, schedule, seed, clusters)
        while most_clusters is None and not note.findings and not note.stored and note.clusters == clusters:
            clusters *= MORE_CLUSTERS
            note = _watch_one(launch, schedule, seed, clusters)
        seen.append(note)
        if any(finding.startswith("deadlock") for finding in note.findings):
            break
    return seen


def _watch_one(launch: Launch, schedule: str, seed: int, clusters: int) -> Seen:
    seen: list[Seen] = []

    def watcher(launch: Launch, code: Code) -> Watcher:
        seen.append(Seen(launch, code.instructions, code.blocks))
        return Watcher(seen[-1])

    (findings,) = watch_launches([launch], watcher, schedule, seed, clusters=clusters, exact=False)
    seen[0].findings = [str(finding) for finding in findings]
    return seen[0]
