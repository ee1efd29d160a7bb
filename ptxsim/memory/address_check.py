"""Memory that the lanes of an access reach; bad addresses are reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..core.counting import count_nonzero, flatnonzero
from .address import LOCAL_WINDOW, OFFSET_MASK, PARAM_WINDOW, RANK_SHIFT, SHARED_BASE, SHARED_WINDOW, WINDOW_SHIFT
from .global_memory import Access, Cells
from .tensor_memory import TensorMemory

if TYPE_CHECKING:
    from ..core.warp import Fragment

_RANK_SHIFT, _OFFSET_MASK, _SHARED_BASE = np.uint64(RANK_SHIFT), np.uint64(OFFSET_MASK), np.uint64(SHARED_BASE)
Lanes = np.ndarray | None  # indices in the fragment's range; None for all of it


def reach(f: Fragment, access: Access, addr: np.ndarray) -> Iterator[Cells]:
    """Yield the words that active lanes reach, per memory; report and skip bad addresses."""
    addr = np.asarray(addr)
    if addr.ndim == 0:
        addr = np.full(f.n, addr)
    lanes = None
    if f.mask is not None:
        lanes = flatnonzero(f.mask)
        addr = addr[lanes]
    addr = addr.astype(np.uint64)
    if access.offset:
        addr += np.uint64(access.offset % (1 << 64))
        if access.space == "shared":
            addr &= np.uint64(0xFFFFFFFF)
    return (_IN_SPACE.get(access.space) or _generic)(f, access, addr, lanes)


def _own(f: Fragment, lanes: Lanes) -> np.ndarray:
    return np.arange(f.n) if lanes is None else lanes


def _index(offsets: np.ndarray, item: int) -> np.ndarray:
    """Convert byte offsets to indices of words of `item` bytes."""
    return (offsets >> np.uint64(item.bit_length() - 1)).view(np.int64)


def _groups(f: Fragment, key: np.ndarray, addr: np.ndarray, lanes: Lanes) -> list[tuple[int, np.ndarray, Lanes]]:
    """Return (key, addresses, lanes) for each value of a per-lane key."""
    first = key[0]
    if not count_nonzero(key != first):
        return [(int(first), addr, lanes)]
    own = _own(f, lanes)
    return [(int(x), addr[key == x], own[key == x]) for x in np.unique(key)]


def _generic(f: Fragment, access: Access, addr: np.ndarray, lanes: Lanes) -> Iterator[Cells]:
    for window, part, own in _groups(f, addr >> np.uint64(WINDOW_SHIFT), addr, lanes):
        if window == 0:
            yield from _global(f, access, part, own)
        elif window == 1:
            yield from _shared(f, access, part - np.uint64(SHARED_WINDOW), own)
        elif window == 2:
            yield from _local(f, access, part - np.uint64(LOCAL_WINDOW), own)
        elif window == 3:
            yield from _param(f, access, part - np.uint64(PARAM_WINDOW), own)
        else:
            f.report(access.at, "out-of-bounds", f"generic address {int(part[0]):#x} lies in no window")


def _global(f: Fragment, access: Access, addr: np.ndarray, lanes: Lanes) -> Iterator[Cells]:
    """Yield the cells of a global access, fast within the allocation used last."""
    machine, size = f.machine, access.size
    allocation = machine.memory.last
    if allocation is None:
        return _global_anywhere(f, access, addr, lanes)
    offsets = addr - allocation.start8
    top = int(np.bitwise_or.reduce(offsets))
    if top & (size - 1):
        return _global_anywhere(f, access, addr, lanes)
    inside = top + size <= allocation.limit and allocation.slack == 0
    if not inside and (int(offsets.max()) + size > allocation.limit or int(offsets.min()) < allocation.slack):
        return _global_anywhere(f, access, addr, lanes)
    machine.counts.global_access(allocation, offsets, size, access.write)
    f.cta.cluster.observer.global_access(f, allocation, offsets, access)
    return iter((Cells(allocation.words[access.item], _index(offsets, access.item), lanes),))


def _global_anywhere(f: Fragment, access: Access, addr: np.ndarray, lanes: Lanes) -> Iterator[Cells]:
    """Yield the cells of lanes in several allocations; report those outside or misaligned."""
    memory, size, own = f.machine.memory, access.size, _own(f, lanes)
    misaligned = addr & np.uint64(size - 1) != 0
    if count_nonzero(misaligned):
        bad = int(addr[misaligned][0])
        what = f"{size}-byte {'store to' if access.write else 'load from'} global address {bad:#x}"
        f.report(access.at, "misaligned", f"{what} ({memory.location(bad)})", own[misaligned])
    todo = ~misaligned
    while count_nonzero(todo):
        first = int(addr[todo][0])
        allocation = memory.find(first, size)
        if allocation is None:
            same_address = addr == np.uint64(first)
            what = f"{size}-byte {access.verb} at {first:#x}: {memory.location(first, size)}"
            f.report(access.at, "out-of-bounds", what, own[same_address])
            todo &= ~same_address
            continue
        end = np.uint64(allocation.address + allocation.size)
        inside = todo & (addr >= np.uint64(allocation.address)) & (addr + np.uint64(size) <= end)
        offsets = addr[inside] - allocation.start8
        f.machine.counts.global_access(allocation, offsets, size, access.write)
        f.cta.cluster.observer.global_access(f, allocation, offsets, access)
        memory.last = allocation
        yield Cells(allocation.words[access.item], _index(offsets, access.item), own[inside])
        todo &= ~inside


def _shared(f: Fragment, access: Access, addr: np.ndarray, lanes: Lanes) -> Iterator[Cells]:
    cta, size = f.cta, access.size
    for rank, part, own in _groups(f, addr >> _RANK_SHIFT, addr, lanes):
        target = cta.peer(rank)
        if target is None:
            size_of_cluster = f"a cluster of {len(cta.cluster.ctas)}"
            what = f"shared address {int(part[0]):#x} names CTA rank {rank} of {size_of_cluster}"
            f.report(access.at, "out-of-bounds", what, own)
            continue
        offsets = (part & _OFFSET_MASK) - _SHARED_BASE  # below the base this wraps to a huge number
        top = int(np.bitwise_or.reduce(offsets))
        if top & (size - 1) or top + size > target.shared_bytes:
            offsets, own = _shared_inside(f, access, target.shared_bytes, offsets, own)
            if not len(offsets):
                continue
        if cta.shared_starts is not None:
            offsets = offsets + (cta.shared_starts if own is None else cta.shared_starts[own])
        counts = cta.machine.counts
        if counts.tracking:
            counts.shared_access(offsets, f.lo + _own(f, own), size)
        cta.cluster.observer.shared_access(target, f, offsets, own, access)
        yield Cells(target.words[access.item], _index(offsets, access.item), own)


def _shared_inside(
    f: Fragment, access: Access, limit: int, offsets: np.ndarray, lanes: Lanes
) -> tuple[np.ndarray, Lanes]:
    """Return aligned, in-bounds lanes and their offsets; report the others."""
    signed, size = offsets.astype(np.int64), access.size
    ok = (signed & (size - 1) == 0) & (signed + size <= limit) & (signed >= 0)
    if ok.all():
        return offsets, lanes
    own, bad = _own(f, lanes), int(signed[~ok][0])
    kind = "misaligned" if bad & (size - 1) else "out-of-bounds"
    f.report(access.at, kind, f"{size}-byte {access.verb} at shared offset {bad} of {limit}", own[~ok])
    return offsets[ok], own[ok]


def _local(f: Fragment, access: Access, addr: np.ndarray, lanes: Lanes) -> Iterator[Cells]:
    own, per_thread = _own(f, lanes), f.cta.local_bytes
    ok = addr + np.uint64(access.size) <= np.uint64(per_thread)
    if not ok.all():
        what = f"local offset {int(addr[~ok][0])} of {per_thread} bytes"
        f.report(access.at, "out-of-bounds", what, own[~ok])
        own, addr = own[ok], addr[ok]
    offsets = addr + (own + f.lo).astype(np.uint64) * np.uint64(per_thread)
    yield Cells(f.cta.local[access.item], _index(offsets, access.item), own)


def _param(f: Fragment, access: Access, addr: np.ndarray, lanes: Lanes) -> Iterator[Cells]:
    words = f.machine.layout.param_words
    if access.write or int(addr.max()) + access.size > len(words[1]):
        f.report(access.at, "out-of-bounds", f"parameter byte {int(addr.max())} of {len(words[1])}", lanes)
        return
    yield Cells(words[access.item], _index(addr, access.item), lanes)


_IN_SPACE = {"global": _global, "const": _global, "shared": _shared, "local": _local, "param": _param}


def check_columns(f: Fragment, at: int, tm: TensorMemory, first: int, end: int, what: str) -> None:
    """Report columns of tensor memory that are not allocated."""
    note = tm.unallocated_note(first, end)
    if note:
        f.report(at, "out-of-bounds", f"{what} {note}")
