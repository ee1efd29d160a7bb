"""Asynchronous copies: cp.async, cp.async.bulk and cp.async.bulk.tensor (PTX ISA 9.7.9.25 to 9.7.9.27).

Every copy is a task the schedule runs when it likes; a wait that needs it runs it at the latest possible moment.
"""

from __future__ import annotations

import numpy as np

from .access import SHARED_BASE
from .convert import PARAM_WINDOW, SHARED_WINDOW
from .machine import Task
from .parser import Imm, Instruction, Mem
from .tensormap import TensorMap, decode, last_byte, places, region, window
from .translate import Generator, emits, runtime


def _lane_values(f, value, lanes) -> list[int]:
    value = np.asarray(value)
    return [int(x) for x in value[lanes]] if value.ndim else [int(value)] * len(lanes)


def _signed(values: list[int]) -> list[int]:
    return [v - (1 << 32) if v >> 31 & 1 else v for v in values]


# ---- cp.async ----

@emits("cp.async")
def _cp_async(g: Generator, ins: Instruction) -> None:
    parts = ins.parts[2:]
    known = {"ca", "cg", "shared", "shared::cta", "global"}
    if any(p not in known and not p.startswith("L2::") for p in parts):
        raise g.fail(f"unknown opcode {ins.op}")
    dst, src, size, *rest = ins.operands
    da, do = g.address(dst)
    sa, so = g.address(src)
    hints = 1 if any(p == "L2::cache_hint" for p in parts) else 0
    rest = rest[:len(rest) - hints] if hints else rest
    valid = g.read(rest[0], "u4") if rest else g.constant(size.value, "u4")
    g.line(f"cp_async(f, {g.at}, {da}, {do}, {sa}, {so}, {size.value}, {valid})")


@runtime
def cp_async(f, i: int, dst, doff: int, src, soff: int, size: int, valid) -> None:
    cta, lanes = f.cta, f.lanes()
    machine = cta.machine
    d, s, v = (_lane_values(f, x, lanes) for x in (dst, src, valid))
    by_warp: dict[int, list] = {}
    for n, lane in enumerate(lanes):
        by_warp.setdefault((f.lo + int(lane)) // 32, []).append((d[n] + doff, s[n] + soff, v[n]))
    for warp, moves in by_warp.items():
        token = machine.order.issue(f, i, warp) if machine.order is not None else None
        machine.post((cta.rank, "cp", warp), Task("copy", lambda m=moves, t=token: _cp_run(cta, f, i, m, size, t), "cp.async"))


def _cp_run(cta, f, i: int, moves, size: int, token) -> None:
    machine = cta.machine
    for dst, src, valid in moves:
        at = (dst & 0xFFFFFF) - SHARED_BASE
        if not 0 <= at <= cta.shared_bytes - size or at % size:
            machine.report("out-of-bounds", f"cp.async to shared offset {at} of {cta.shared_bytes}", f, i)
            continue
        data = np.zeros(size, np.uint8)
        if valid:
            a = machine.memory.find(src, valid)
            if a is None or src % size:
                kind = "misaligned" if src % size else "out-of-bounds"
                machine.report(kind, f"cp.async of {valid} bytes from {src:#x}: {machine.memory.place(src)}", f, i)
                continue
            data[:valid] = a.bytes[src - a.start:src - a.start + valid]
            machine.counts.global_read_bytes += valid
            if machine.counts.tracking:
                a.read_map[src - a.start:src - a.start + valid] = 1
        cta.shared[at:at + size] = data
        if cta.shadow is not None:
            cta.shadow.async_write(at, at + size, token, i, generic=True)


@emits("cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all")
def _cp_group(g: Generator, ins: Instruction) -> None:
    if ins.parts[2] == "commit_group":
        g.line("cp_commit(f)")
    else:
        left = ins.operands[0].value if ins.parts[2] == "wait_group" else -1
        g.line(f"cp_wait(f, {left})")


@runtime
def cp_commit(f) -> None:
    for warp in f.warps():
        f.cta.machine.post((f.cta.rank, "cp", warp), Task("copy", _nothing, "cp.async group"))
        if f.cta.machine.order is not None:
            f.cta.machine.order.cp_commit(f, warp)


def _nothing() -> None:
    pass


@runtime
def cp_wait(f, left: int) -> None:
    """Run this warp's copies until at most `left` groups are open (-1: all)."""
    machine = f.cta.machine
    for warp in f.warps():
        key = (f.cta.rank, "cp", warp)
        while key in machine.queues:
            queue = machine.queues[key]
            if left >= 0:
                last = max((n for n, t in enumerate(queue) if t.run is _nothing), default=-1)
                if last < 0 or sum(t.run is _nothing for t in queue) <= left:
                    break
            machine._task(key)
        if machine.order is not None:
            machine.order.joined(f, warp, left)


@emits("cp.async.mbarrier")
def _cp_arrive(g: Generator, ins: Instruction) -> None:
    if ins.parts[3] != "arrive" or set(ins.parts[4:]) - {"noinc", "shared", "shared::cta", "b64"}:
        raise g.fail(f"unknown opcode {ins.op}")
    addr, offset = g.address(ins.operands[0])
    g.line(f"cp_arrive(f, {g.at}, {addr}, {offset}, {'noinc' in ins.parts})")


@runtime
def cp_arrive(f, i: int, addr, offset: int, noinc: bool) -> None:
    from .mbarrier import locate
    machine = f.cta.machine
    for bar, lanes in locate(f, i, addr, offset):
        by_warp: dict[int, int] = {}
        for lane in lanes:
            w = (f.lo + int(lane)) // 32
            by_warp[w] = by_warp.get(w, 0) + 1
        for warp, count in by_warp.items():
            if not noinc:
                bar.pending += count
            token = machine.order.issue(f, i, warp) if machine.order is not None else None

            def arrive(bar=bar, count=count, token=token, warp=warp) -> None:
                if machine.order is not None:
                    machine.order.release_token(bar, token, ("cp", f.cta.rank, warp))
                bar.arrive(count, f, i)
            machine.post((f.cta.rank, "cp", warp), Task("copy", arrive, "cp.async mbarrier arrive"))


# ---- bulk copies ----

_BULK_KNOWN = {"bulk", "async", "tensor", "tile", "bulk_group", "global", "shared::cta", "shared::cluster", "1d", "2d", "3d",
               "4d", "5d", "L2::cache_hint", "cta_group::1", "cta_group::2", "multicast::cluster",
               "mbarrier::complete_tx::bytes", "add", "min", "max", "and", "or", "xor", "inc", "dec", "prefetch", "L2",
               "reduce", "f16", "bf16", "f32", "f64", "u32", "s32", "u64", "s64", "b32", "b64", "noftz"}


@emits("cp.async.bulk", "cp.reduce.async.bulk", boundary=False)
def _bulk(g: Generator, ins: Instruction) -> None:
    parts = ins.parts[1:]
    if any(p not in _BULK_KNOWN for p in parts):
        bad = next(p for p in parts if p not in _BULK_KNOWN)
        raise g.fail(f"unknown opcode {ins.op} (.{bad})")
    if "prefetch" in parts:
        return None  # a hint
    spaces = [p for p in parts if p in ("global", "shared::cta", "shared::cluster")]
    operands = list(ins.operands)
    if "L2::cache_hint" in parts:
        operands.pop()
    mask = "None"
    if "multicast::cluster" in parts:
        mask = g.read(operands.pop(), "u2")
    op = next((p for p in parts if p in ("add", "min", "max", "and", "or", "xor", "inc", "dec")), "") if "reduce" in parts else ""
    kind = next((p for p in parts if p in ("f16", "bf16", "f32", "f64", "u32", "s32", "u64", "s64", "b32", "b64")), "")
    if "tensor" in parts:
        load = spaces[0] != "global"
        tensor = operands[1] if load else operands[0]
        coords = ", ".join(g.read(c, "u4") for c in tensor.coords[0].items)
        ta, to = g.address(Mem(tensor.base, tensor.offset))
        sa, so = g.address(operands[0] if load else operands[1])
        if load:
            ba, bo = g.address(operands[2])
            return g.line(f"tma_load(f, {g.at}, {sa}, {so}, {ta}, {to}, ({coords},), {ba}, {bo}, {mask}, "
                          f"{'cta_group::2' in parts})")
        return g.line(f"tma_store(f, {g.at}, {sa}, {so}, {ta}, {to}, ({coords},), '{op}')")
    dst, src, size, *rest = operands
    da, do = g.address(dst)
    sa, so = g.address(src)
    n = g.read(size, "u4")
    if spaces[0] == "global":
        return g.line(f"bulk_store(f, {g.at}, {da}, {do}, {sa}, {so}, {n}, '{op}', '{kind}')")
    ba, bo = g.address(rest[0])
    if op:
        raise g.fail(f"unknown opcode {ins.op}")
    return g.line(f"bulk_load(f, {g.at}, {da}, {do}, {sa}, {so}, {n}, {ba}, {bo}, {mask}, {spaces[1] != 'global'})")


@runtime
def descriptor(f, i: int, addr: int) -> TensorMap | None:
    """The TMA descriptor at a generic, global or parameter address."""
    machine = f.cta.machine
    if addr >> 56 == 3:
        raw = f.cta.launch.params[addr - PARAM_WINDOW:addr - PARAM_WINDOW + 128]
    else:
        a = machine.memory.find(addr, 128)
        raw = b"" if a is None else a.bytes[addr - a.start:addr - a.start + 128].tobytes()
    if len(raw) < 64:
        machine.report("out-of-bounds", f"no TMA descriptor at {addr:#x}", f, i)
        return None
    try:
        return decode(bytes(raw))
    except ValueError as error:
        from .parser import PtxError
        raise PtxError(f"kernel {machine.launch.name[:80]}: {error}") from None


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
                what = f"CTA rank {r}" if target is None else f"mbarrier at shared address {where:#x} of CTA rank {bar_rank}"
                machine.report("barrier", f"a TMA load names {what}, which is not there", f, i)
                continue
            targets.append((target, barrier))
        if at < 0 or at + tm.box_bytes > cta.shared_bytes or at % (128 if tm.swizzle or len(tm.sizes) > 1 else 16):
            machine.report("misaligned" if at % 128 else "out-of-bounds", f"a TMA load of {tm.box_bytes} bytes to shared "
                           f"offset {at} of {cta.shared_bytes}", f, i)
            continue
        where_ = tuple(c[n] for c in columns)
        for target, barrier in targets:
            if machine.order is not None:
                machine.order.expect_copy(barrier, token)
        machine.post(object(), Task("copy", lambda tm=tm, w=where_, at=at, ts=targets, k=token:
                                    _tma_run(machine, f, i, tm, w, at, ts, k), f"TMA load, line "
                                    f"{machine.program.instructions[i].line}"))


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
        machine.report("out-of-bounds", f"a TMA box at {coords} reads bytes {start:#x} to {end:#x}: "
                       f"{machine.memory.place(end - 1)}", f, i)
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
            target.shared[at:at + box.size] = box
        else:
            chunks = target.shared[:target.shared.size].view(np.uint64).reshape(-1, 2)
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
        return cta.shared[at:at + n].copy()
    chunks = cta.shared.view(np.uint64).reshape(-1, 2)
    return chunks[(at - at % 1024) // 16 + index].view(np.uint8).reshape(-1)[:n]


class Transfer:
    """A bulk store on its way: the read of shared memory, then the write to global memory."""

    __slots__ = ("key", "read", "written", "serial")

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
            machine.report("misaligned" if at % 128 else "out-of-bounds", f"a TMA store of {tm.box_bytes} bytes from "
                           f"shared offset {at} of {cta.shared_bytes}", f, i)
            continue
        machine.counts.tma_instructions += 1
        machine.counts.tma_bytes += tm.box_bytes
        where = tuple(c[n] for c in columns)
        token = machine.order.issue(f, i, (f.lo + int(lane)) // 32) if machine.order is not None else None

        def read(tm=tm, at=at, token=token):
            if cta.shadow is not None:
                cta.shadow.async_read(at, at + tm.box_bytes, token, i, f)
            return gather_box(cta, tm, at)
        _begin_store(f, i, int(lane), read, lambda box, tm=tm, w=where: _put_box(machine, f, i, tm, w, box, op),
                     f"TMA store, line {machine.program.instructions[i].line}", token)


def _put_box(machine, f, i: int, tm: TensorMap, coords, box: np.ndarray, op: str) -> None:
    inside = window(tm, coords)
    if inside is None:
        return
    slices, first, extent = inside
    start, end = last_byte(tm, first, extent)
    a = machine.memory.find(start, end - start)
    if a is None:
        machine.report("out-of-bounds", f"a TMA box at {coords} writes bytes {start:#x} to {end:#x}: "
                       f"{machine.memory.place(end - 1)}", f, i)
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
    names = {0: "u1", 1: "u2", 2: "u4", 3: "i4", 4: "u8", 5: "i8", 6: "f2", 7: "f4", 8: "f4", 9: "f8", 10: "bf16",
             "f16": "f2", "bf16": "bf16", "f32": "f4", "f64": "f8", "u32": "u4", "s32": "i4", "u64": "u8", "s64": "i8",
             "b32": "u4", "b64": "u8"}
    kind = names[dtype]
    a, b = (np.ascontiguousarray(x).view("u2" if kind == "bf16" else kind) for x in (old, new))
    if kind == "bf16":
        a, b = bf16_to_f32(a), bf16_to_f32(b)
    r = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
         "xor": np.bitwise_xor}[op](a, b)
    r = f32_to_bf16(r) if kind == "bf16" else r
    return np.ascontiguousarray(r).view(np.uint8).reshape(old.shape)


@runtime
def bulk_load(f, i: int, dst, doff: int, src, soff: int, size, bar, boff: int, mask, from_shared: bool) -> None:
    """cp.async.bulk into shared memory, from global or from this CTA's shared memory."""
    cta, lanes = f.cta, f.lanes()
    machine = cta.machine
    d, s, n_, b = (_lane_values(f, x, lanes) for x in (dst, src, size, bar))
    masks = _lane_values(f, mask, lanes) if mask is not None else [None] * len(lanes)
    for k, lane in enumerate(lanes):
        place, where = (d[k] + doff) & (SHARED_WINDOW - 1), (b[k] + boff) & (SHARED_WINDOW - 1)
        ranks = [place >> 24] if masks[k] is None else [r for r in range(16) if masks[k] >> r & 1]
        at, n, source = (place & 0xFFFFFF) - SHARED_BASE, n_[k], s[k] + soff
        if at < 0 or at + n > cta.shared_bytes or (at | n | source) % 16:
            machine.report("misaligned" if (at | n | source) % 16 else "out-of-bounds",
                           f"a bulk copy of {n} bytes to shared offset {at} of {cta.shared_bytes}", f, i)
            continue
        token = machine.order.issue(f, i, (f.lo + int(lane)) // 32) if machine.order is not None else None
        machine.counts.tma_instructions += 1
        machine.counts.tma_bytes += n
        for r in ranks:
            bar_rank = where >> 24 if masks[k] is None else r
            target, barrier = cta.peer(r), cta.mbarrier(bar_rank << 24 | where & 0xFFFFFF)
            if target is None or barrier is None:
                machine.report("barrier", f"a bulk copy names CTA rank {r} or an mbarrier that is not there", f, i)
                continue
            if machine.order is not None:
                machine.order.expect_copy(barrier, token)

            def go(target=target, barrier=barrier, at=at, n=n, source=source, token=token) -> None:
                if from_shared:
                    o = (source & 0xFFFFFF) - SHARED_BASE
                    data = cta.shared[o:o + n]
                    if cta.shadow is not None:
                        cta.shadow.async_read(o, o + n, token, i, f)
                else:
                    a = machine.memory.find(source, n)
                    if a is None:
                        machine.report("out-of-bounds", f"a bulk copy of {n} bytes from {source:#x}: "
                                       f"{machine.memory.place(source + n - 1)}", f, i)
                        return
                    data = a.bytes[source - a.start:source - a.start + n]
                    machine.counts.global_read_bytes += n
                    if machine.counts.tracking:
                        a.read_map[source - a.start:source - a.start + n] = 1
                target.shared[at:at + n] = data
                if target.shadow is not None:
                    target.shadow.async_write(at, at + n, token, i, barrier=barrier)
                barrier.complete_tx(n)
            machine.post(object(), Task("copy", go, "bulk copy"))


@runtime
def bulk_store(f, i: int, dst, doff: int, src, soff: int, size, op: str, kind: str) -> None:
    cta, lanes = f.cta, f.lanes()
    machine = cta.machine
    d, s, n_ = (_lane_values(f, x, lanes) for x in (dst, src, size))
    for k, lane in enumerate(lanes):
        at, n, to = (s[k] + soff & 0xFFFFFF) - SHARED_BASE, n_[k], d[k] + doff
        a = machine.memory.find(to, n)
        if a is None or at < 0 or at + n > cta.shared_bytes or (at | n | to) % 16:
            machine.report("out-of-bounds", f"a bulk copy of {n} bytes from shared offset {at} to {to:#x}: "
                           f"{machine.memory.place(to + n - 1)}", f, i)
            continue
        token = machine.order.issue(f, i, (f.lo + int(lane)) // 32) if machine.order is not None else None
        machine.counts.tma_instructions += 1
        machine.counts.tma_bytes += n

        def read(at=at, n=n, token=token):
            if cta.shadow is not None:
                cta.shadow.async_read(at, at + n, token, i, f)
            return cta.shared[at:at + n].copy()

        def write(data, a=a, to=to, n=n) -> None:
            target = a.bytes[to - a.start:to - a.start + n]
            machine.counts.global_write_bytes += n
            if machine.counts.tracking:
                a.write_map[to - a.start:to - a.start + n] = 1
            target[...] = data if not op else combine(target, data, kind, op)
        _begin_store(f, i, int(lane), read, write, "bulk store", token)


@emits("cp.async.bulk.commit_group", "cp.async.bulk.wait_group")
def _bulk_group(g: Generator, ins: Instruction) -> None:
    if ins.parts[3] == "commit_group":
        return g.line("bulk_commit(f)")
    if not isinstance(ins.operands[0], Imm):
        raise g.fail("a wait_group count that is no constant")
    return g.line(f"bulk_wait(f, {ins.operands[0].value}, {'read' in ins.parts})")


@runtime
def bulk_commit(f) -> None:
    for lane in f.lanes():
        groups = f.cta.machine.stores.get((f.cta.rank, f.lo + int(lane)))
        if groups is not None:
            groups.append([])


@runtime
def bulk_wait(f, left: int, read_only: bool) -> None:
    """Complete the thread's bulk groups but the newest `left`; with .read only their reads of shared memory."""
    machine = f.cta.machine
    for lane in f.lanes():
        groups = machine.stores.get((f.cta.rank, f.lo + int(lane)))
        if groups is None:
            continue
        closed = groups[:-1]
        for group in closed[:len(closed) - left] if left else closed:
            for transfer in group:
                while transfer.key in machine.queues and not (transfer.read if read_only else transfer.written):
                    machine._task(transfer.key)
        if machine.order is not None:
            machine.order.stores_done(f, (f.lo + int(lane)) // 32, [t for g in closed[:len(closed) - left] for t in g])
