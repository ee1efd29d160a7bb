"""Tensor memory of a CTA: 128 lanes of 512 32-bit columns; allocation, ld and st (PTX ISA 9.7.16)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .access import SHARED_BASE, store
from .collective import gather_warp
from .syntax import Imm, Instruction, Vec
from .translate import Generator, emits, runtime

COLUMNS, LANES = 512, 128


class TensorMemory:
    """Words, who wrote them, and which columns are allocated."""

    def __init__(self, cta) -> None:
        self.cta = cta
        self.words = np.full((LANES, COLUMNS), 0xFFFFFFFF, np.uint32)
        self.written = np.zeros((LANES, COLUMNS), bool)
        self.owned = np.zeros(COLUMNS, bool)
        self.blocks: dict[int, int] = {}
        self.permit = True
        self.arrived = self.done = 0
        self.granted: list[int] = []

    def allocate(self, columns: int) -> int | None:
        """First column of a free, aligned run, or None. Granularity and order of placement are the allocator's own."""
        for start in range(0, COLUMNS - columns + 1, max(columns, 32)):
            if not self.owned[start : start + columns].any():
                self.owned[start : start + columns] = True
                self.blocks[start] = columns
                self.written[:, start : start + columns] = False
                return start
        return None

    def check(self, f, i: int, first: int, end: int, what: str) -> bool:
        if first < 0 or end > COLUMNS or not self.owned[first:end].all():
            self.cta.machine.report(
                "out-of-bounds", f"{what} tensor-memory columns {first} to {end}, not all of them allocated", f, i
            )
            return first >= 0 and end <= COLUMNS
        return True

    def finish(self) -> None:
        """Report what was never given back."""
        if self.blocks:
            cols = ", ".join(f"{n} columns at {at}" for at, n in self.blocks.items())
            self.cta.machine.report("leak", f"CTA {self.cta.index} ends with tensor memory allocated: {cols}")


def tensor_memory(cta) -> TensorMemory:
    if cta.tmem is None:
        cta.tmem = TensorMemory(cta)
    return cta.tmem


@emits("tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish_alloc_permit", boundary=True)
def _alloc(g: Generator, ins: Instruction) -> None:
    known = {"cta_group::1", "cta_group::2", "sync", "aligned", "shared::cta", "b32"}
    if set(ins.parts[2:]) - known:
        raise g.fail(f"unknown opcode {ins.op}")
    gather_warp(g)
    if ins.parts[1] == "alloc":
        addr, offset = g.address(ins.operands[0])
        pair = "cta_group::2" in ins.parts
        g.line(
            f"if not tmem_alloc(f, {g.at}, {addr}, {offset}, {g.read(ins.operands[1], 'u4')}, {pair}): "
            f"return {g.block.index}"
        )
    elif ins.parts[1] == "dealloc":
        g.line(f"tmem_dealloc(f, {g.at}, {g.read(ins.operands[0], 'u4')}, {g.read(ins.operands[1], 'u4')})")
    else:
        g.line("tmem_relinquish(f)")


def _first(f, value) -> int:
    value = np.asarray(value)
    return int(value[f.lanes()[0]]) if value.ndim else int(value)


@runtime
def tmem_alloc(f, i: int, addr, offset: int, columns, pair: bool) -> bool:
    """Allocate and write the address to shared memory; False when the warp has to wait.

    It waits for columns, and with cta_group::2 for the peer CTA to come to its own alloc.
    """
    cta, n = f.cta, _first(f, columns)
    tm = tensor_memory(cta)
    if pair and cta.peer(cta.rank ^ 1) is not None:
        if f.polled != ("alloc", i, tm.done):
            f.polled = ("alloc", i, tm.done)
            tm.arrived += 1
            cta.machine.progress += 1
        if tensor_memory(cta.peer(cta.rank ^ 1)).arrived <= tm.done:
            cta.machine.rest = True
            return False
    if n < 32 or n > COLUMNS or n & (n - 1):
        cta.machine.report(
            "out-of-bounds", f"tcgen05.alloc of {n} columns: a power of two from 32 to 512 is needed", f, i
        )
        n = max(32, min(COLUMNS, 1 << (n - 1).bit_length()))
    if not tm.permit:
        cta.machine.report("barrier", "tcgen05.alloc after the permit was given up", f, i)
    if tm.granted:
        start = tm.granted.pop(0)
    else:
        start = tm.allocate(n)
        if start is None:
            cta.machine.rest = True
            return False
        if pair and cta.peer(cta.rank ^ 1) is not None:  # both CTAs have it from the same moment on
            other = tensor_memory(cta.peer(cta.rank ^ 1))
            other.granted.append(other.allocate(n))
    tm.done += 1
    cta.machine.progress += 1
    lanes = f.lanes()
    keep = f.mask
    one = np.zeros(f.n, bool)
    one[lanes[0]] = True
    f.set_mask(one)
    store(f, i, "shared", addr, offset, "u4", (np.full(f.n, start, np.uint32),))
    f.set_mask(keep)
    return True


@runtime
def tmem_dealloc(f, i: int, addr, columns) -> None:
    tm = tensor_memory(f.cta)
    at, n = _first(f, addr) & 0xFFFF, _first(f, columns)
    if tm.blocks.get(at) != n:
        f.cta.machine.report(
            "leak", f"tcgen05.dealloc of {n} columns at {at}, where {tm.blocks or 'nothing'} is allocated", f, i
        )
        return
    del tm.blocks[at]
    tm.owned[at : at + n] = False
    f.cta.machine.progress += 1


@runtime
def tmem_relinquish(f) -> None:
    tensor_memory(f.cta).permit = False


@lru_cache(maxsize=64)
def shape_index(shape: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, column) of register r in lane t, each (registers, 32), for an ld or st shape repeated `count` times."""
    t = np.arange(32)[None, :]
    if shape == "32x32b":
        r = np.arange(count)[:, None]
        return np.broadcast_to(t, (count, 32)), np.broadcast_to(r, (count, 32))
    if shape == "16x64b":
        r = np.arange(count)[:, None]
        return np.broadcast_to(t // 4 + 8 * (t % 2), (count, 32)), t // 2 % 2 + 2 * r
    if shape == "16x128b":
        r = np.arange(2 * count)[:, None]
        return t // 4 + 8 * (r % 2), t % 4 + 4 * (r // 2)
    if shape == "16x256b":
        r = np.arange(4 * count)[:, None]
        return t // 4 + 8 * (r // 2 % 2), 2 * (t % 4) + r % 2 + 8 * (r // 4)
    raise KeyError(shape)


_SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b")


@emits("tcgen05.ld", "tcgen05.st", boundary=True)
def _ld_st(g: Generator, ins: Instruction) -> None:
    gather_warp(g)
    parts = ins.parts[2:]
    shape = next((p for p in parts if p in (*_SHAPES, "16x32bx2")), None)
    num = next((int(p[1:]) for p in parts if p[0] == "x" and p[1:].isdigit()), None)
    pack = next((p for p in parts if p in ("pack::16b", "unpack::16b")), "")
    known = {"sync", "aligned", "b32", shape, f"x{num}", pack}
    reduce = next((p for p in parts if p in ("min", "max")), "") if "red" in parts else ""
    kind = next((p for p in parts if p in ("f32", "u32", "s32")), "") if reduce else ""
    if reduce and kind and shape in ("32x32b", "16x32bx2"):
        known |= {"red", reduce, kind, "abs", "NaN"}
    if shape is None or num is None or set(parts) - known:
        raise g.fail(f"unknown opcode {ins.op}")
    load = ins.parts[1] == "ld"
    operands = list(ins.operands)
    reduced = operands.pop(1) if reduce else None
    regs, mem = (operands[0], operands[1]) if load else (operands[-1], operands[0])
    items = regs.items if isinstance(regs, Vec) else (regs,)
    split = 0
    if shape == "16x32bx2":
        extra = operands[2] if load else operands[1]
        if not isinstance(extra, Imm):
            raise g.fail(f"unknown opcode {ins.op}")
        split = extra.value
    addr, offset = g.address(mem)
    call = f"f, {g.at}, {addr}, {offset}, '{shape}', {num}, '{pack}', {split}"
    if load:
        t = g.temp()
        g.line(f"{t} = tmem_ld({call})")
        for j, item in enumerate(items):
            if item is not None:
                g.write(item, "u4", f"{t}[{j}]")
        if reduced is not None:
            g.write(reduced, "u4", f"reduce_words({t}, '{reduce}', '{kind}', {'abs' in parts}, {'NaN' in parts})")
    else:
        g.line(f"tmem_st({call}, ({', '.join(g.read(x, 'u4') for x in items)},))")


def _cells(f, i: int, addr, offset: int, shape: str, num: int, pack: str, split: int, what: str):
    """Per warp of the fragment: (slice of its threads, rows, columns); pack doubles the columns."""
    cta = f.cta
    tm = tensor_memory(cta)
    addr = np.asarray(addr)
    for w in range(f.n // 32):
        if f.mask is not None and not f.mask[32 * w : 32 * w + 32].any():
            continue
        a = (int(addr[32 * w]) if addr.ndim else int(addr)) + offset
        lane, column = a >> 16 & 0xFFFF, a & 0xFFFF
        quarter = (f.lo // 32 + w) % 4
        wide = 2 if pack else 1
        if shape == "16x32bx2":
            t, r = np.arange(32)[None, :], np.arange(num * wide)[:, None]
            rows, cols = np.broadcast_to(t % 16, (num * wide, 32)), r + np.where(t < 16, 0, split)
        else:
            rows, cols = shape_index(shape, num * wide)
        span = 32 if shape == "32x32b" else 16
        if lane // 32 != quarter or lane % 32 + span > 32:
            cta.machine.report(
                "tensor-memory lanes",
                f"{what} of tensor-memory lanes {lane} to {lane + span - 1} by warp "
                f"{f.lo // 32 + w}, which owns lanes {32 * quarter} to {32 * quarter + 31}",
                f,
                i,
            )
        tm.check(f, i, column, column + int(cols.max()) + 1, what)
        yield tm, slice(32 * w, 32 * w + 32), (rows + lane) % LANES, (cols + column) % COLUMNS


@runtime
def reduce_words(words: np.ndarray, op: str, kind: str, magnitude: bool, nan: bool) -> np.ndarray:
    """tcgen05.ld.red: the least or largest of each lane's words, of f32, u32 or s32."""
    v = words.view({"f32": np.float32, "u32": np.uint32, "s32": np.int32}[kind])
    v = np.abs(v) if magnitude else v
    plain = {"min": np.minimum, "max": np.maximum}[op]
    chosen = plain if nan or kind != "f32" else {"min": np.fmin, "max": np.fmax}[op]
    return np.ascontiguousarray(chosen.reduce(v, axis=0)).view(np.uint32)


@runtime
def tmem_ld(f, i: int, addr, offset: int, shape: str, num: int, pack: str, split: int) -> np.ndarray:
    """(registers, lanes) words of tensor memory."""
    out = None
    checks = f.cta.machine.checks
    for tm, lanes, rows, cols in _cells(f, i, addr, offset, shape, num, pack, split, "load"):
        words = tm.words[rows, cols]
        if "uninitialised" in checks and not tm.written[rows, cols].all():
            bad = ~tm.written[rows, cols]
            tm.cta.machine.report(
                "uninitialised",
                f"tcgen05.ld of tensor memory nobody wrote: lane {int(rows[bad][0])}, column {int(cols[bad][0])}",
                f,
                i,
            )
        if tm.cta.machine.order is not None:
            tm.cta.machine.order.tmem_access(f, i, (f.lo + lanes.start) // 32, tm, rows, cols, False)
        if pack:
            words = (words[0::2] & np.uint32(0xFFFF)) | (words[1::2] << np.uint32(16))
        if out is None:
            out = np.zeros((len(words), f.n), np.uint32)
        out[:, lanes] = words
        if i in f.cta.machine.program.watched:
            f.cta.unfinished[(f.lo + lanes.start) // 32, i] = (
                1 if tm.cta.machine.order is None else tm.cta.machine.order.serial
            )
    return out


@runtime
def tmem_st(f, i: int, addr, offset: int, shape: str, num: int, pack: str, split: int, values: tuple) -> None:
    data = np.stack([np.broadcast_to(v, (f.n,)) for v in values])
    f.cta.machine.progress += 1
    for tm, lanes, rows, cols in _cells(f, i, addr, offset, shape, num, pack, split, "store"):
        words = data[:, lanes]
        if pack:
            wide = np.empty((2 * len(words), 32), np.uint32)
            wide[0::2], wide[1::2] = words & np.uint32(0xFFFF), words >> np.uint32(16)
            words = wide
        tm.words[rows, cols] = words
        tm.written[rows, cols] = True
        if tm.cta.machine.order is not None:
            tm.cta.machine.order.tmem_access(f, i, (f.lo + lanes.start) // 32, tm, rows, cols, True)


@emits("tcgen05.wait::ld", "tcgen05.wait::st")
def _wait(g: Generator, ins: Instruction) -> None:
    """Loads and stores happen at once; the checks hold an access open until its wait."""
    if set(ins.parts[2:]) - {"sync", "aligned"}:
        raise g.fail(f"unknown opcode {ins.op}")
    g.line(f"tmem_wait(f, {ins.parts[1] == 'wait::st'})")


@runtime
def tmem_wait(f, stores: bool) -> None:
    if not stores and f.cta.unfinished:
        warps = f.warps()
        for key in [k for k in f.cta.unfinished if k[1] >= 0 and k[0] in warps]:
            del f.cta.unfinished[key]
    if f.cta.machine.order is not None:
        f.cta.machine.order.tmem_waited(f, stores)


@emits("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def _fence(g: Generator, ins: Instruction) -> None:
    if ins.parts[2:]:
        raise g.fail(f"unknown opcode {ins.op}")


__all__ = ["COLUMNS", "LANES", "SHARED_BASE", "TensorMemory", "tensor_memory"]
