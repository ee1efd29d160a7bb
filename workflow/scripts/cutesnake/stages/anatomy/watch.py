"""One simulated run, watched: which warps ran which code, and what they asked of copies, tensor cores and barriers.

ptxsim does the work; its observer's hooks and a cluster that notes every queued task say who did what. The numbers that
come out of the run are not looked at here.
"""

from __future__ import annotations

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
    BoxLoad,
    BoxStore,
    BytesLoad,
    BytesStore,
    Code,
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

WATCHED_CLUSTERS = 6  # the first of a launch; the others would do the same, and are not run

Warp = tuple[int, int]  # (rank of the CTA in its cluster, number of the warp in its CTA)


@dataclass
class Copy:
    """TMA or bulk copies of one instruction: by whom, of which tensor, to or from which shared offsets."""

    at: int
    tensor: TensorMap | None
    warps: Counter[Warp] = field(default_factory=Counter)
    offsets: set[int] = field(default_factory=set)
    barriers: set[int] = field(default_factory=set)
    most_targets: int = 1
    touched: int | None = None  # address in global memory of an element of the first box, if it is of boxes
    size: int = 0


@dataclass
class Multiply:
    """Matrix products of one instruction, as first seen; `form` in words that a record can hold."""

    at: int
    form: dict[str, Any]
    warps: Counter[Warp] = field(default_factory=Counter)
    columns: set[int] = field(default_factory=set)  # of tensor memory where D begins
    operands: set[int] = field(default_factory=set)  # shared offsets where descriptors begin


@dataclass
class Bar:
    """What became of the mbarrier at one shared offset, over all watched CTAs."""

    count: int
    completed: int = 0
    arrivals: Counter[tuple[str, int, Warp, bool]] = field(default_factory=Counter)  # kind, at, who, from another CTA
    waits: Counter[tuple[int, Warp]] = field(default_factory=Counter)  # at, who
    made: set[int] = field(default_factory=set)


@dataclass
class Seen:
    """Everything that was noted of one launch. Instructions are indices into `code`."""

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
    drains: dict[Warp, Counter[tuple[int, int]]] = field(default_factory=dict)  # after the last load: (offset, at)
    clusters: int = 0
    findings: list[str] = field(default_factory=list)

    def ran(self, first: int, last: int) -> set[Warp]:
        """The warps that ran a block which overlaps the instructions first..last-1."""
        return {
            (rank, warp)
            for rank, warp, block in self.visits
            if self.blocks[block].first < last and first < self.blocks[block].last
        }


class Watcher(Observer):
    """Notes who arrives at, waits for and completes which barrier, and who reaches into which shared memory."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self._found: dict[tuple[int, tuple[str, ...]], set[int]] = {}

    def begins(self) -> None:
        self.seen.clusters += 1

    def ran(self, f: Fragment, block: Block) -> None:
        for warp in f.warps():
            self.seen.visits[f.cta.rank, warp, block.index] += 1

    def asked(self, task: Task) -> None:
        _note_task(self.seen, task)

    def mbarrier_initialised(self, f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None:
        self._bar(bar).made |= self._here(f, "mbarrier", "init")

    def copy_expected(self, bar: MBarrier, origin: Origin, target: CTA, times: int = 1) -> None:
        self._arrival(bar, "copy", origin.at, origin.cta, origin.warp, times)

    def products_committed(self, bar: MBarrier, origin: Origin) -> None:
        self._arrival(bar, "commit", origin.at, origin.cta, origin.warp)

    def copies_arrived(self, bar: MBarrier, origin: Origin) -> None:
        self._arrival(bar, "cp.async", origin.at, origin.cta, origin.warp)

    def mbarrier_released(self, f: Fragment, bar: MBarrier, lanes: np.ndarray) -> None:
        at = max(self._here(f, "mbarrier", "arrive"), default=-1)
        for lane in np.atleast_1d(lanes):
            self._arrival(bar, "threads", at, f.cta, f.warp_of(int(lane)))

    def mbarrier_acquired(self, f: Fragment, bar: MBarrier, lanes: np.ndarray) -> None:
        at = self.seen.blocks[f.pc].first
        for warp in {f.warp_of(int(lane)) for lane in np.atleast_1d(lanes)}:
            who = (f.cta.rank, warp)
            self._bar(bar).waits[at, who] += 1
            self.seen.drains.setdefault(who, Counter())[bar.offset, at] += 1

    def mbarrier_completed(self, bar: MBarrier) -> None:
        self._bar(bar).completed += 1

    def barrier_arrived(self, f: Fragment, barrier: NamedBarrier, at: int) -> None:
        note = self.seen.named.setdefault(barrier.number, {"warps": Counter(), "at": Counter(), "threads": Counter()})
        for warp in f.warps():
            note["warps"][f.cta.rank, warp] += 1
        note["at"][at] += 1
        note["threads"][barrier.required] += 1

    def shared_access(
        self, target: CTA, f: Fragment, offsets: np.ndarray, lanes: np.ndarray | None, access: Access
    ) -> None:
        key = (access.at, target is not f.cta)
        note = self.seen.shared.get(key)
        if note is None:
            note = self.seen.shared[key] = Copy(access.at, None, size=access.size)
        for warp in f.warps():
            note.warps[f.cta.rank, warp] += 1
        if len(note.offsets) < 64:
            note.offsets |= {int(offsets.min()), int(offsets.max())}

    def _here(self, f: Fragment, *parts: str) -> set[int]:
        """Instructions of the fragment's block whose opcode begins so."""
        found = self._found.get((f.pc, parts))
        if found is None:
            block = self.seen.blocks[f.pc]
            found = {at for at in range(block.first, block.last) if self.seen.code[at].parts[: len(parts)] == parts}
            self._found[f.pc, parts] = found
        return found

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
        copy = _note_load(seen, task.origin, task.tensor, task.offset, targets, 0)
        copy.touched = copy.touched or task.tensor.nearest(task.corner)
    elif isinstance(task, BytesLoad):
        _note_load(seen, task.origin, None, task.offset, [(task.target, task.bar)], task.size)
    elif isinstance(task, ThreadCopies):
        copy = _note_load(seen, task.origin, None, task.moves[0].to.offset, [], task.size)
        copy.offsets |= {move.to.offset for move in task.moves[1:]} if len(copy.offsets) < 64 else set()
    elif isinstance(task, ReadHalf) and isinstance(task.store, (BoxStore, BytesStore)):
        store = task.store
        tensor = store.tensor if isinstance(store, BoxStore) else None
        copy = seen.stores.setdefault((store.origin.at, tensor), Copy(store.origin.at, tensor))
        copy.warps[store.origin.cta.rank, store.origin.warp] += len(store.threads)
        copy.offsets.add(store.offset)
        copy.size = 0 if isinstance(store, BoxStore) else store.size
        if isinstance(store, BoxStore):
            copy.touched = copy.touched or store.tensor.nearest(store.corner)
    elif isinstance(task, TensorProduct):
        _note_tensor_product(seen, task)
    elif isinstance(task, WarpgroupProduct):
        _note_wgmma(seen, task)
    # a commit is seen where it arrives, a copy into tensor memory in the code


def _note_load(
    seen: Seen,
    origin: Origin,
    tensor: TensorMap | None,
    offset: int,
    targets: Iterable[tuple[CTA, MBarrier]],
    size: int,
) -> Copy:
    copy = seen.loads.get((origin.at, tensor))
    if copy is None:
        copy = seen.loads[origin.at, tensor] = Copy(origin.at, tensor)
    who = (origin.cta.rank, origin.warp)
    copy.warps[who] += 1
    copy.offsets.add(offset)
    targets = list(targets)
    copy.barriers |= {bar.offset for _, bar in targets}
    copy.most_targets = max(copy.most_targets, len(targets))
    copy.size = max(copy.size, size)
    seen.drains[who] = Counter()  # what this warp waits for from here on comes after its last load, as far as is known
    return copy


def _note_tensor_product(seen: Seen, task: TensorProduct) -> None:
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
    """Run launches in order under one schedule and give what was seen of each; ends after one that deadlocks.

    Of each launch the first `most_clusters` are run, six by default: enough to see how it works, and its results are
    not looked at.
    Raises PtxError for what ptxsim cannot execute.
    """
    seen: list[Seen] = []

    def watcher(launch: Launch, code: Code) -> Watcher:
        seen.append(Seen(launch, code.instructions, code.blocks))
        return Watcher(seen[-1])

    found = watch_launches(launches, watcher, schedule, seed, clusters=most_clusters or WATCHED_CLUSTERS, exact=False)
    for note, findings in zip(seen, found, strict=True):
        note.findings = [str(finding) for finding in findings]
    return seen
