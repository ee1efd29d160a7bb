"""wgmma: Hopper's asynchronous warpgroup matrix products, and ldmatrix and stmatrix (PTX ISA 9.7.15, 9.7.14.5).

A product is a task of its warpgroup, run in order at a moment the schedule picks, at the latest when a wait_group
needs it; only then do its registers change. How sums are taken is in product.py.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from .access import load, store
from .collective import gather_warp
from .descriptor import operand_values, values
from .machine import Task
from .product import multiply
from .syntax import Imm, Instruction, Reg, Vec
from .translate import Generator, emits, runtime

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}


@emits("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group", boundary=True)
def _group(g: Generator, ins: Instruction) -> None:
    if set(ins.parts[2:]) - {"sync", "aligned"}:
        raise g.fail(f"unknown opcode {ins.op}")
    gather_warp(g)
    if ins.parts[1] == "commit_group":
        g.line("wg_commit(f)")
    elif ins.parts[1] == "wait_group":
        g.line(f"if not wg_wait(f, {ins.operands[0].value}): return {g.block.index}")


class Group(Task):
    """The end of a wgmma group: its ordinal in each of the warps that committed it."""

    __slots__ = ("ordinals",)

    def __init__(self, ordinals: dict[int, int]) -> None:
        super().__init__("mma", lambda: None, "wgmma group")
        self.ordinals = ordinals


def _groups_of(f) -> dict[int, list[int]]:
    """Warpgroup → those of its warps that are in the fragment."""
    out: dict[int, list[int]] = {}
    for w in f.warps():
        out.setdefault(w // 4, []).append(w)
    return out


@runtime
def wg_commit(f) -> None:
    commits = f.cta.wgmma_commits
    for group, warps in _groups_of(f).items():
        for w in warps:
            commits[w] = commits.get(w, 0) + 1
        f.cta.machine.post(("wgmma", f.cta.rank, group), Group({w: commits[w] for w in warps}))
    f.cta.machine.progress += 1


@runtime
def wg_wait(f, left: int) -> bool:
    """Complete all but the newest `left` groups; False while a warp of the warpgroup has yet to issue its part.

    A product is one instruction of four warps: it is not complete for one of them before all have issued it.
    """
    cta, machine = f.cta, f.cta.machine
    commits = cta.wgmma_commits
    present = -(-machine.launch.threads // 32)
    groups = _groups_of(f)
    for group, warps in groups.items():
        target = max(commits.get(w, 0) for w in warps) - left
        members = [w for w in range(4 * group, min(4 * group + 4, present)) if cta.alive[32 * w]]
        if any(commits.get(w, 0) < target for w in members):
            machine.rest = True
            return False
    for group, warps in groups.items():
        key = ("wgmma", cta.rank, group)
        target = max(commits.get(w, 0) for w in warps) - left
        while any(isinstance(t, Group) and min(t.ordinals.values()) <= target for t in machine.queues.get(key, ())):
            machine._task(key)
        if machine.order is not None:
            for w in warps:
                machine.order.wgmma_waited(cta.rank, w, group)
    return True


@emits("wgmma.mma_async", boundary=True)
def _mma(g: Generator, ins: Instruction) -> None:
    gather_warp(g)
    parts = ins.parts[2:]
    shape = next((m for p in parts if (m := re.fullmatch(r"m64n(\d+)k(\d+)", p))), None)
    types = [p for p in parts if p in ("f32", "s32", *_BITS)]
    if shape is None or len(types) != 3 or set(parts) - {"sync", "aligned", "satfinite", shape[0], *types}:
        raise g.fail(f"unknown opcode {ins.op}")
    d, a, b, scale, *imm = ins.operands
    if not all(isinstance(x, Imm) for x in imm):
        raise g.fail("scale and transpose operands of wgmma are constants")
    flags = [x.value for x in imm]
    integer = types[0] == "s32"
    negate = (1, 1) if integer else tuple(flags[:2])
    trans = flags[2:] if not integer else []
    registers = isinstance(a, Vec)
    trans_a, trans_b = (0, trans[0] if trans else 0) if registers else (*trans, 0, 0)[:2]
    if any(not isinstance(x, Reg) for x in d.items) or (registers and any(not isinstance(x, Reg) for x in a.items)):
        raise g.fail("wgmma needs registers here")
    slots = tuple(x.slot for x in d.items)
    source = tuple(x.slot for x in a.items) if registers else g.read(a, "u8")
    g.line(
        f"wg_mma(f, {g.at}, {int(shape[1])}, {int(shape[2])}, {types!r}, {slots}, {source}, {registers}, "
        f"{g.read(b, 'u8')}, {g.read(scale, 'p')}, {negate}, {bool(trans_a)}, {bool(trans_b)}, {'satfinite' in parts})"
    )


@lru_cache(maxsize=64)
def accumulator(n: int, packed: bool) -> tuple[np.ndarray, np.ndarray]:
    """(row within 16, first column) of each accumulator register in each lane: (registers, 32)."""
    t = np.arange(32)[None, :]
    r = np.arange(n // 4 if packed else n // 2)[:, None]
    if packed:
        return t // 4 + 8 * (r % 2), t % 4 * 2 + 8 * (r // 2)
    return t // 4 + 8 * (r // 2 % 2), t % 4 * 2 + r % 2 + 8 * (r // 4)


def fragment_a(words: np.ndarray, k: int, fmt: str) -> np.ndarray:
    """Rows of A held in registers: words (4, lanes) of whole warps to float32 (16 * warps, k)."""
    per = 32 // _BITS[fmt]
    warps = words.shape[1] // 32
    w = words.reshape(2, 2, warps, 8, 4)  # (k half, row half, warp, row, column group)
    w = np.ascontiguousarray(w.transpose(2, 1, 3, 0, 4)).reshape(16 * warps, 8)
    v = values(w.view(np.uint8).reshape(16 * warps, 32), fmt)
    assert v.shape[1] == 8 * per == k
    return v


@runtime
def wg_mma(f, i, n, k, types, slots, source, registers, b, scale, negate, trans_a, trans_b, satfinite) -> None:
    machine, cta = f.cta.machine, f.cta

    def first(x, lane):
        x = np.asarray(x)
        return int(x[lane]) if x.ndim else int(x)

    for group, warps in _groups_of(f).items():
        watched = [(w, -1 - i) for w in warps] if -1 - i in machine.program.watched else []
        for key in watched:
            cta.unfinished[key] = cta.unfinished.get(key, 0) + 1
        lane = 32 * warps[0] - f.lo
        lo, hi = 32 * warps[0], 32 * warps[-1] + 32
        token = machine.order.issue(f, i, warps[0]) if machine.order is not None else None
        flags = (negate, trans_a, trans_b, satfinite)
        args = (first(b, lane), bool(first(scale, lane)), source if registers else first(source, lane))
        if warps[0] % 4 == 0:
            machine.counts.mma_instructions += 1
        machine.counts.mma_flops += 2 * 16 * len(warps) * n * k
        machine.post(
            ("wgmma", cta.rank, group),
            Task(
                "mma",
                lambda w=warps, lo=lo, hi=hi, x=args, t=token, gr=group, flags=flags: _run(
                    cta, f, i, n, k, types, slots, registers, x, flags, w, lo, hi, t, gr
                ),
                f"wgmma, line {machine.program.instructions[i].line}",
            ),
        )


def _run(cta, f, i, n, k, types, slots, registers, args, flags, warps, lo, hi, token, group) -> None:
    desc_b, accumulate, source = args
    for w in warps:
        if (w, -1 - i) in cta.unfinished:
            cta.unfinished[w, -1 - i] -= 1
    negate, trans_a, trans_b, satfinite = flags
    dtype, ta, tb = types
    file = cta.registers.arrays[32]
    machine = cta.machine
    try:
        bm, index = operand_values(cta, desc_b, False, trans_b, n, k, _BITS[tb], tb)
        actor = machine.order.wgmma(cta.rank, group) if machine.order is not None else None
        if cta.shadow is not None:
            cta.shadow.async_chunks(index, token, i, f, actor)
        if registers:
            am = fragment_a(file[list(source), lo:hi], k, ta)
        else:
            am, index = operand_values(cta, source, False, trans_a, 64, k, _BITS[ta], ta)
            if cta.shadow is not None:
                cta.shadow.async_chunks(index, token, i, f, actor)
            am = am[16 * (warps[0] % 4) : 16 * (warps[-1] % 4) + 16]
    except (IndexError, ValueError) as error:
        return machine.report("out-of-bounds", f"wgmma: {error}", f, i)
    if machine.order is not None:
        machine.order.wgmma_done[cta.rank, group] = token.serial
    if negate[0] == -1:
        am = -am
    if negate[1] == -1:
        bm = -bm
    at, c = np.array(slots), None
    if accumulate:
        c = from_registers(np.ascontiguousarray(file[at, lo:hi]), n, dtype)
    if dtype == "s32":
        d = am.astype(np.int64) @ bm.T.astype(np.int64)
        d = d if c is None else d + c
        d = (d.clip(-(2**31), 2**31 - 1) if satfinite else d).astype(np.int32)
    else:
        d = multiply(am, bm, c, ta, dtype)
    file[at, lo:hi] = to_registers(d, dtype)


def from_registers(words: np.ndarray, n: int, dtype: str) -> np.ndarray:
    """The accumulator (16 * warps, n) that registers (registers, lanes of whole warps) hold; float32 or int32."""
    rows, cols = accumulator(n, dtype == "f16")
    warps = words.shape[1] // 32
    out = np.empty((warps, 16, n), np.int32 if dtype == "s32" else np.float32)
    w = words.reshape(len(words), warps, 32).transpose(1, 0, 2)
    if dtype == "f16":
        pairs = np.ascontiguousarray(w).view(np.float16).reshape(*w.shape, 2)
        out[:, rows, cols], out[:, rows, cols + 1] = pairs[..., 0], pairs[..., 1]
    else:
        out[:, rows, cols] = np.ascontiguousarray(w).view(out.dtype)
    return out.reshape(16 * warps, n)


def to_registers(d: np.ndarray, dtype: str) -> np.ndarray:
    """The other way round: words (registers, lanes)."""
    rows, cols = accumulator(d.shape[1], dtype == "f16")
    d = d.reshape(-1, 16, d.shape[1])
    if dtype == "f16":
        words = np.stack([d[:, rows, cols], d[:, rows, cols + 1]], -1).astype(np.float16).view(np.uint32)[..., 0]
    else:
        words = np.ascontiguousarray(d[:, rows, cols]).view(np.uint32)
    return words.transpose(1, 0, 2).reshape(len(rows), -1)


@emits("ldmatrix", "stmatrix", boundary=True)
def _matrix(g: Generator, ins: Instruction) -> None:
    gather_warp(g)
    parts = ins.parts[1:]
    count = next((int(p[1]) for p in parts if p in ("x1", "x2", "x4")), 0)
    known = {"sync", "aligned", "m8n8", f"x{count}", "trans", "shared", "shared::cta", "b16"}
    if not count or set(parts) - known:
        raise g.fail(f"unknown opcode {ins.op}")
    regs, mem = ins.operands if ins.base == "ldmatrix" else ins.operands[::-1]
    items = regs.items if isinstance(regs, Vec) else (regs,)
    addr, offset = g.address(mem)
    call = f"f, {g.at}, {addr}, {offset}, {count}, {'trans' in parts}"
    if ins.base == "stmatrix":
        return g.line(f"matrix_store({call}, ({', '.join(g.read(x, 'u4') for x in items)},))")
    t = g.temp()
    g.line(f"{t} = matrix_load({call})")
    for j, item in enumerate(items):
        g.write(item, "u4", f"{t}[{j}]")
    return None


def _row_addresses(f, addr, j: int, trans: bool) -> tuple[np.ndarray, np.ndarray]:
    """Addresses of the two halves each lane holds of matrix j."""
    a = np.asarray(addr).astype(np.uint64).reshape(-1, 32)[:, 8 * j : 8 * j + 8]
    t = np.arange(32)
    if trans:
        low = a[:, t % 4 * 2] + np.uint64(2) * (t // 4).astype(np.uint64)
        high = a[:, t % 4 * 2 + 1] + np.uint64(2) * (t // 4).astype(np.uint64)
        return low.ravel(), high.ravel()
    low = a[:, t // 4] + np.uint64(4) * (t % 4).astype(np.uint64)
    return low.ravel(), (low + np.uint64(2)).ravel()


@runtime
def matrix_store(f, i: int, addr, offset: int, count: int, trans: bool, regs: tuple) -> None:
    for j in range(count):
        low, high = _row_addresses(f, addr, j, trans)
        if trans:
            store(f, i, "shared", low, offset, "u2", ((regs[j] & np.uint32(0xFFFF)).astype(np.uint16),))
            store(f, i, "shared", high, offset, "u2", ((regs[j] >> np.uint32(16)).astype(np.uint16),))
        else:
            store(f, i, "shared", low, offset, "u4", (regs[j],))


@runtime
def matrix_load(f, i: int, addr, offset: int, count: int, trans: bool) -> list[np.ndarray]:
    out = []
    for j in range(count):
        low, high = _row_addresses(f, addr, j, trans)
        if trans:
            lo, hi = (load(f, i, "shared", x, offset, "u2", 1)[0].astype(np.uint32) for x in (low, high))
            out.append(lo | hi << np.uint32(16))
        else:
            out.append(load(f, i, "shared", low, offset, "u4", 1)[0])
    return out


__all__ = ["accumulator", "fragment_a", "from_registers", "to_registers"]
