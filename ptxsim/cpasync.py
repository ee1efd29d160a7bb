"""cp.async and st.async: copies of single threads, their groups and their arrivals on mbarriers (PTX ISA 9.7.9.25)."""

from __future__ import annotations

import numpy as np

from .access import SHARED_BASE
from .convert import SHARED_WINDOW
from .machine import Task
from .syntax import Instruction, Vec
from .tma import _lane_values
from .translate import Generator, emits, runtime


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
    rest = rest[: len(rest) - hints] if hints else rest
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
        machine.post(
            (cta.rank, "cp", warp), Task("copy", lambda m=moves, t=token: _cp_run(cta, f, i, m, size, t), "cp.async")
        )


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
            data[:valid] = a.bytes[src - a.start : src - a.start + valid]
            machine.counts.global_read_bytes += valid
            if machine.counts.tracking:
                a.read_map[src - a.start : src - a.start + valid] = 1
        cta.shared[at : at + size] = data
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


@emits("st.async")
def _st_async(g: Generator, ins: Instruction) -> None:
    """Stores into another CTA's shared memory that count their bytes on an mbarrier beside them (PTX ISA 9.7.9.12)."""
    known = {"weak", "shared::cluster", "mbarrier::complete_tx::bytes", "v2", "v4"}
    types = [p for p in ins.parts[2:] if p in ("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")]
    if len(types) != 1 or set(ins.parts[2:]) - known - set(types):
        raise g.fail(f"unknown opcode {ins.op}")
    mem, value, bar = ins.operands
    kind = "u4" if types[0][1:] == "32" else "u8"
    items = value.items if isinstance(value, Vec) else (value,)
    (addr, off), (where, boff) = g.address(mem), g.address(bar)
    values = ", ".join(g.read(x, kind) for x in items)
    g.line(f"st_async(f, {g.at}, {addr}, {off}, {where}, {boff}, '{kind}', ({values},))")


@runtime
def st_async(f, i: int, addr, off: int, bar, boff: int, kind: str, values: tuple) -> None:
    """One task per active lane: write, then complete_tx on the mbarrier."""
    cta, lanes = f.cta, f.lanes()
    machine, size = cta.machine, int(kind[1]) * len(values)
    places, bars = _lane_values(f, addr, lanes), _lane_values(f, bar, lanes)
    columns = [_lane_values(f, v, lanes) for v in values]
    for n, lane in enumerate(lanes):
        place, where = (places[n] + off) & (SHARED_WINDOW - 1), (bars[n] + boff) & (SHARED_WINDOW - 1)
        target, barrier, at = cta.peer(place >> 24), cta.mbarrier(where), (place & 0xFFFFFF) - SHARED_BASE
        if target is None or barrier is None:
            machine.report("barrier", "st.async names a CTA or an mbarrier that is not there", f, i, lanes[n : n + 1])
            continue
        if at < 0 or at + size > target.shared_bytes or at % size:
            kind_ = "misaligned" if at % size else "out-of-bounds"
            machine.report(kind_, f"st.async of {size} bytes to shared offset {at}", f, i, lanes[n : n + 1])
            continue
        token = machine.order.issue(f, i, (f.lo + int(lane)) // 32) if machine.order is not None else None
        if machine.order is not None:
            machine.order.expect_copy(barrier, token)
        data = np.array([c[n] for c in columns], np.uint64).astype(kind).view(np.uint8)

        def go(target=target, barrier=barrier, at=at, data=data, token=token) -> None:
            target.shared[at : at + size] = data
            if target.shadow is not None:
                target.shadow.async_write(at, at + size, token, i, barrier=barrier)
            barrier.complete_tx(size)

        machine.post(object(), Task("copy", go, f"st.async, line {machine.program.instructions[i].line}"))
