"""TMA loads, stores and reductions: cp.async.bulk.tensor (PTX ISA 9.7.9.27).

Every copy is a task the schedule runs when it likes; a wait that needs it runs it at the latest possible moment.
"""

from __future__ import annotations

import numpy as np

from .access import SHARED_BASE
from .convert import PARAM_WINDOW, SHARED_WINDOW
from .machine import Task
from .tensormap import TensorMap, decode, last_byte, places, region, window
from .translate import runtime


def _lane_values(f, value, lanes) -> list[int]:
    value = np.asarray(value)
    return [int(x) for x in value[lanes]] if value.ndim else [int(value)] * len(lanes)


def _signed(values: list[int]) -> list[int]:
    return [v - (1 << 32) if v >> 31 & 1 else v for v in values]


@runtime
def descriptor(f, i: int, addr: int) -> TensorMap | None:
    """The TMA descriptor at a generic, global or parameter address."""
    machine = f.cta.machine
    if addr >> 56 == 3:
        raw = f.cta.launch.params[addr - PARAM_WINDOW : addr - PARAM_WINDOW + 128]
    else:
        a = machine.memory.find(addr, 128)
        raw = b"" if a is None else a.bytes[addr - a.start : addr - a.start + 128].tobytes()
    if len(raw) < 64:
        machine.report("out-of-bounds", f"no TMA descriptor at {addr:#x}", f, i)
        return None
    try:
        return decode(bytes(raw))
    except ValueError as error:
        from .syntax import PtxError

        raise PtxError(f"kernel {machine.launch.name[:80]}: {error}") from None


def _aligned_start(machine, f, i: int, tm: TensorMap, coords: tuple[int, ...]) -> bool:
    """Whether a box begins at a multiple of 16 bytes of its row; an H200 calls anything else an illegal instruction."""
    byte = coords[0] * tm.bits // 8
    if byte % 16 == 0:
        return True
    machine.report("misaligned", f"a TMA box at {coords} begins at byte {byte} of its row: no multiple of 16", f, i)
    return False


@runtime
def tma_load(f, i: int, dst, doff: int, tensor, toff: int, coords, bar, boff: int, mask, pair: bool) -> None:
    cta, lanes = f.cta, f.lanes()
    machine = cta.machine
    columns = [_signed(_lane_values(f, c, lanes)) for c in coords]
    d, t, b = (_lane_values(f, x, lanes) for x in (dst, tensor, bar))
    masks = _lane_values(f, mask, lanes) if mask is not None else [None] * len(lanes)
    for n in range(len(lanes)):
        tm = descriptor(f, i, t[n] + toff)
        if tm is None:
            continue
        if len(tm.sizes) != len(coords):
            machine.report("out-of-bounds", f"{len(coords)} coordinates for a tensor map of rank {len(tm.sizes)}", f, i)
            continue
        place, where = (d[n] + doff) & (SHARED_WINDOW - 1), (b[n] + boff) & (SHARED_WINDOW - 1)
        ranks = [place >> 24] if masks[n] is None else [r for r in range(16) if masks[n] >> r & 1]
        at = (place & 0xFFFFFF) - SHARED_BASE
        machine.counts.tma_instructions += 1
        machine.counts.tma_bytes += tm.box_bytes
        token = machine.order.issue(f, i, (f.lo + int(lanes[n])) // 32) if machine.order is not None else None
        targets = []
        for r in ranks:
            home = r if masks[n] is not None else None
            if home is None:
                bar_rank = where >> 24
            else:
                bar_rank = (r & ~1) | (where >> 24 & 1) if pair else r
            target, barrier = cta.peer(r), cta.mbarrier(bar_rank << 24 | where & 0xFFFFFF)
            if target is None or barrier is None:
                what = (
                    f"CTA rank {r}"
                    if target is None
                    else f"mbarrier at shared address {where:#x} of CTA rank {bar_rank}"
                )
                machine.report("barrier", f"a TMA load names {what}, which is not there", f, i)
                continue
            targets.append((target, barrier))
        if at < 0 or at + tm.box_bytes > cta.shared_bytes or at % (128 if tm.swizzle or len(tm.sizes) > 1 else 16):
            machine.report(
                "misaligned" if at % 128 else "out-of-bounds",
                f"a TMA load of {tm.box_bytes} bytes to shared offset {at} of {cta.shared_bytes}",
                f,
                i,
            )
            continue
        where_ = tuple(c[n] for c in columns)
        if not _aligned_start(machine, f, i, tm, where_):
            continue
        for _, barrier in targets:
            if machine.order is not None:
                machine.order.expect_copy(barrier, token)
        machine.post(
            object(),
            Task(
                "copy",
                lambda tm=tm, w=where_, at=at, ts=targets, k=token: _tma_run(machine, f, i, tm, w, at, ts, k),
                f"TMA load, line {machine.program.instructions[i].line}",
            ),
        )


def fetch_box(machine, f, i: int, tm: TensorMap, coords: tuple[int, ...]) -> np.ndarray:
    """A box as bytes in its linear order, zeros outside the tensor."""
    inside = window(tm, coords)
    shape = (*tm.box[:0:-1], tm.inner_bytes)
    if inside is None:
        return np.zeros(int(np.prod(shape)) * (2 if tm.padded else 1), np.uint8)
    slices, first, extent = inside
    start, end = last_byte(tm, first, extent)
    a = machine.memory.find(start, end - start)
    if a is None:
        machine.report(
            "out-of-bounds",
            f"a TMA box at {coords} reads bytes {start:#x} to {end:#x}: {machine.memory.place(end - 1)}",
            f,
            i,
        )
        return np.zeros(int(np.prod(shape)) * (2 if tm.padded else 1), np.uint8)
    source = region(tm, a.bytes, a.start, first, extent)
    machine.counts.global_read_bytes += source.size
    if machine.counts.tracking:
        region(tm, a.read_map, a.start, first, extent)[...] = 1
    if extent == tm.box:
        box = np.ascontiguousarray(source).reshape(-1)
    else:
        box = np.zeros(shape, np.uint8)
        inner = slice(slices[0].start * tm.bits // 8, slices[0].stop * tm.bits // 8)
        box[(*slices[:0:-1], inner)] = source
        box = box.reshape(-1)
    if tm.padded:
        wide = np.zeros((box.size // 8, 16), np.uint8)
        wide[:, :8] = box.reshape(-1, 8)
        box = wide.reshape(-1)
    return box


def _tma_run(machine, f, i: int, tm: TensorMap, coords, at: int, targets, token) -> None:
    box = fetch_box(machine, f, i, tm, coords)
    index = places(at % 1024, box.size, tm.swizzle, tm.atom)  # SHARED_BASE is a multiple of 1024
    for target, barrier in targets:
        if index is None:
            target.shared[at : at + box.size] = box
        else:
            chunks = target.shared[: target.shared.size].view(np.uint64).reshape(-1, 2)
            base = (at - at % 1024) // 16
            chunks[base + index] = box.view(np.uint64).reshape(-1, 2)
        if target.shadow is not None:
            target.shadow.async_write(at, at + box.size, token, i, barrier=barrier)
        barrier.complete_tx(box.size)


def gather_box(cta, tm: TensorMap, at: int) -> np.ndarray:
    """The bytes of a box out of shared memory, in linear order."""
    n = tm.box_bytes
    index = places(at % 1024, n, tm.swizzle, tm.atom)
    if index is None:
        return cta.shared[at : at + n].copy()
    chunks = cta.shared.view(np.uint64).reshape(-1, 2)
    return chunks[(at - at % 1024) // 16 + index].view(np.uint8).reshape(-1)[:n]


class Transfer:
    """A bulk store on its way: the read of shared memory, then the write to global memory."""

    __slots__ = ("key", "read", "serial", "written")

    def __init__(self) -> None:
        self.key, self.read, self.written, self.serial = object(), False, False, 0


def _begin_store(f, i: int, lane: int, read, write, label: str, token) -> None:
    """Queue the two halves of a bulk store and put it into the thread's open group."""
    machine, thread = f.cta.machine, f.lo + lane
    transfer = Transfer()
    transfer.serial = token.serial if token is not None else 0
    box: list = []

    def first() -> None:
        box.append(read())
        transfer.read = True

    def second() -> None:
        write(box[0])
        transfer.written = True

    machine.post(transfer.key, Task("store", first, label + " (read)"))
    machine.post(transfer.key, Task("store", second, label + " (write)"))
    machine.stores.setdefault((f.cta.rank, thread), [[]])[-1].append(transfer)


@runtime
def tma_store(f, i: int, src, soff: int, tensor, toff: int, coords, op: str) -> None:
    cta, lanes = f.cta, f.lanes()
    machine = cta.machine
    columns = [_signed(_lane_values(f, c, lanes)) for c in coords]
    s, t = (_lane_values(f, x, lanes) for x in (src, tensor))
    for n, lane in enumerate(lanes):
        tm = descriptor(f, i, t[n] + toff)
        if tm is None:
            continue
        at = (s[n] + soff & 0xFFFFFF) - SHARED_BASE
        if at < 0 or at + tm.box_bytes > cta.shared_bytes or at % 128:
            machine.report(
                "misaligned" if at % 128 else "out-of-bounds",
                f"a TMA store of {tm.box_bytes} bytes from shared offset {at} of {cta.shared_bytes}",
                f,
                i,
            )
            continue
        machine.counts.tma_instructions += 1
        machine.counts.tma_bytes += tm.box_bytes
        where = tuple(c[n] for c in columns)
        if not _aligned_start(machine, f, i, tm, where):
            continue
        token = machine.order.issue(f, i, (f.lo + int(lane)) // 32) if machine.order is not None else None

        def read(tm=tm, at=at, token=token):
            if cta.shadow is not None:
                cta.shadow.async_read(at, at + tm.box_bytes, token, i, f)
            return gather_box(cta, tm, at)

        _begin_store(
            f,
            i,
            int(lane),
            read,
            lambda box, tm=tm, w=where: _put_box(machine, f, i, tm, w, box, op),
            f"TMA store, line {machine.program.instructions[i].line}",
            token,
        )


def _put_box(machine, f, i: int, tm: TensorMap, coords, box: np.ndarray, op: str) -> None:
    inside = window(tm, coords)
    if inside is None:
        return
    slices, first, extent = inside
    start, end = last_byte(tm, first, extent)
    a = machine.memory.find(start, end - start)
    if a is None:
        machine.report(
            "out-of-bounds",
            f"a TMA box at {coords} writes bytes {start:#x} to {end:#x}: {machine.memory.place(end - 1)}",
            f,
            i,
        )
        return
    target = region(tm, a.bytes, a.start, first, extent)
    inner = slice(slices[0].start * tm.bits // 8, slices[0].stop * tm.bits // 8)
    data = box.reshape(*tm.box[:0:-1], tm.inner_bytes)[(*slices[:0:-1], inner)]
    machine.counts.global_write_bytes += data.size
    if machine.counts.tracking:
        region(tm, a.write_map, a.start, first, extent)[...] = 1
    target[...] = data if not op else combine(target, data, tm.dtype, op)


def combine(old: np.ndarray, new: np.ndarray, dtype: int | str, op: str) -> np.ndarray:
    """old op new, element by element, as bytes of the shape of `old`."""
    from .numeric import bf16_to_f32, f32_to_bf16

    names = {
        0: "u1",
        1: "u2",
        2: "u4",
        3: "i4",
        4: "u8",
        5: "i8",
        6: "f2",
        7: "f4",
        8: "f4",
        9: "f8",
        10: "bf16",
        "f16": "f2",
        "bf16": "bf16",
        "f32": "f4",
        "f64": "f8",
        "u32": "u4",
        "s32": "i4",
        "u64": "u8",
        "s64": "i8",
        "b32": "u4",
        "b64": "u8",
    }
    kind = names[dtype]
    a, b = (np.ascontiguousarray(x).view("u2" if kind == "bf16" else kind) for x in (old, new))
    if kind == "bf16":
        a, b = bf16_to_f32(a), bf16_to_f32(b)
    r = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "inc": lambda x, top: np.where(x >= top, x.dtype.type(0), x + x.dtype.type(1)),
        "dec": lambda x, top: np.where((x == 0) | (x > top), top, x - x.dtype.type(1)),
    }[op](a, b)
    r = f32_to_bf16(r) if kind == "bf16" else r
    return np.ascontiguousarray(r).view(np.uint8).reshape(old.shape)
