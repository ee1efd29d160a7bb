"""tcgen05.alloc, dealloc and relinquish_alloc_permit (PTX ISA 9.7.16)."""

from dataclasses import dataclass

import numpy as np

from ..core.warp import Fragment, Poll
from ..frontend.formats import U32
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction
from ..memory.global_memory import Access
from ..memory.tensor_memory import COLUMNS, SHARED_COLUMNS, TensorMemory
from .memory import store


@dataclass(frozen=True, slots=True)
class Allocation:
    """tcgen05.alloc; `pair` is cta_group::2. `result` stores the address to shared memory.

    `exclusive` is of sm_107a. What NVIDIA's compiler emits is simulated: an alloc of all columns.
    """

    at: int
    pair: bool
    exclusive: bool
    result: Access


@emits("tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish_alloc_permit", own_block=True, results=0)
def _alloc(g: Generator, ins: Instruction) -> None:
    known = {"cta_group::1", "cta_group::2", "sync", "aligned", "shared::cta", "b32"}
    exclusive = "exclusive" in ins.parts and g.program.module.target.startswith("sm_107")
    if set(ins.parts[2:]) - known - ({"exclusive"} if exclusive else set()):
        raise g.unknown()
    g.collective()
    if ins.parts[1] == "alloc":
        addr, offset = g.address(ins.operands[0])
        result = Access.of(g.at, "shared", U32.dtype, 1, offset, write=True)
        spec = g.bind(Allocation(g.at, "cta_group::2" in ins.parts, exclusive, result))
        columns = g.read(ins.operands[1], U32)
        g.line(f"if not tmem_alloc(f, {spec}, {addr}, {columns}): return {g.block.index}")
    elif ins.parts[1] == "dealloc":
        pair = "cta_group::2" in ins.parts
        g.line(f"tmem_dealloc(f, {g.at}, {pair}, {g.read(ins.operands[0], U32)}, {g.read(ins.operands[1], U32)})")
    else:
        g.line("tmem_relinquish(f)")


@runtime
def tmem_alloc(f: Fragment, spec: Allocation, addr: np.ndarray, columns: np.ndarray) -> bool:
    """Allocate columns, store their address; False while columns or cta_group::2's peer are missing."""
    cta, cluster, tm = f.cta, f.cta.cluster, f.cta.tensor_memory
    peer = cta.peer(cta.rank ^ 1) if spec.pair else None
    other = None if peer is None else peer.tensor_memory
    if other is not None and not _peer_arrived(f, spec.at, tm, other):
        return False
    n = _requested_columns(f, spec, columns)
    start = tm.granted.pop(0) if tm.granted else _take_columns(tm, other, n)
    if start is None:
        cluster.rest = True
        return False
    tm.done += 1
    tm.locations[start] = f.machine.program.instructions[spec.at].location
    cluster.progress += 1
    warp = f.warp_of(f.lanes()[0])
    if peer is not None:
        cluster.observer.pair_allocated(f, spec.at, warp, peer)
    cluster.observer.tmem_allocated(f, spec.at, warp, tm, start, start + n)
    _store_by_first_lane(f, spec.result, addr, np.full(f.n, start, np.uint32))
    return True


def _peer_arrived(f: Fragment, at: int, tm: TensorMemory, other: TensorMemory) -> bool:
    """Return whether the peer CTA has reached the matching alloc."""
    poll = Poll(at, -1, tm.done)
    if f.poll != poll:
        f.poll = poll
        tm.arrived += 1
        f.cta.cluster.progress += 1
    if other.arrived <= tm.done:
        f.cta.cluster.rest = True
        return False
    return True


def _requested_columns(f: Fragment, spec: Allocation, columns: np.ndarray) -> int:
    n = f.value(columns)
    if spec.exclusive and n != COLUMNS:
        f.report(spec.at, "out-of-bounds", f"tcgen05.alloc.exclusive of {n} columns: {COLUMNS} are needed")
        n = COLUMNS
    elif not spec.exclusive and (n < 32 or n > SHARED_COLUMNS or n & (n - 1)):
        what = f"tcgen05.alloc of {n} columns: a power of two from 32 to 512 is needed"
        f.report(spec.at, "out-of-bounds", what)
        n = max(32, min(SHARED_COLUMNS, 1 << (n - 1).bit_length()))
    if not f.cta.tensor_memory.permit:
        f.report(spec.at, "barrier", "tcgen05.alloc after the permit was relinquished")
    return n


def _take_columns(tm: TensorMemory, other: TensorMemory | None, columns: int) -> int | None:
    """Allocate columns in both CTAs of a pair; return the first or None."""
    start = tm.allocate(columns)
    if start is not None and other is not None:
        granted = other.allocate(columns)
        if granted is not None:
            other.granted.append(granted)
    return start


def _store_by_first_lane(f: Fragment, access: Access, addr: np.ndarray, value: np.ndarray) -> None:
    """Store a value by one lane of a whole warp."""
    mask, one = f.mask, np.zeros(f.n, bool)
    one[f.lanes()[0]] = True
    f.set_mask(one)
    store(f, access, addr, (value,))
    f.set_mask(mask)


@runtime
def tmem_dealloc(f: Fragment, at: int, pair: bool, addr: np.ndarray, columns: np.ndarray) -> None:
    tm = f.cta.tensor_memory
    start, n = f.value(addr) & 0xFFFF, f.value(columns)
    if tm.blocks.get(start) != n or start in tm.freeing:
        f.report(at, "leak", f"tcgen05.dealloc of {n} columns at {start}{_why_not_freed(tm, start, n)}")
        return
    warp, where = f.warp_of(f.lanes()[0]), f.machine.program.instructions[at].location
    observer, peer = f.cta.cluster.observer, f.cta.peer(f.cta.rank ^ 1) if pair else None
    tm.freeing[start] = f"by warp {warp} of CTA {f.cta.rank} at {where}"
    if peer is None:
        observer.tmem_freed(f, at, warp, tm, start, start + n)
        tm.release(start)
    else:
        other = peer.tensor_memory
        observer.pair_freed(f, at, warp, tm, other, start, start + n)
        if start in other.freeing:  # the later of both completes the deallocation
            tm.release(start)
            other.release(start)
    f.cta.cluster.progress += 1


def _why_not_freed(tm: TensorMemory, start: int, columns: int) -> str:
    """Return why a dealloc is wrong, and what would be right, as a sentence end."""
    if start in tm.freeing:
        return f", issued before {tm.freeing[start]} and not yet by the peer CTA: each CTA of a pair issues it once"
    if start in tm.blocks:
        return f", allocated as {tm.blocks[start]} columns by {tm.locations[start]}: free as many"
    if freed := tm.freed_note(start, start + columns):
        return f", which are not allocated{freed}: free each allocation once"
    allocated = ", ".join(f"{n} columns at {first}" for first, n in tm.blocks.items())
    return f", where no allocation begins; allocated: {allocated or 'none'}"


@runtime
def tmem_relinquish(f: Fragment) -> None:
    f.cta.tensor_memory.permit = False
