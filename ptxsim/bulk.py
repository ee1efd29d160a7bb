"""Emitters of all bulk copies, and those without a tensor map: cp.async.bulk, its groups (PTX ISA 9.7.9.25)."""

from __future__ import annotations

from .access import SHARED_BASE
from .convert import SHARED_WINDOW
from .machine import Task
from .syntax import Imm, Instruction, Mem
from .tma import _begin_store, _lane_values, combine
from .translate import Generator, emits, runtime

_BULK_KNOWN = {
    "bulk",
    "async",
    "tensor",
    "tile",
    "bulk_group",
    "global",
    "shared::cta",
    "shared::cluster",
    "1d",
    "2d",
    "3d",
    "4d",
    "5d",
    "L2::cache_hint",
    "cta_group::1",
    "cta_group::2",
    "multicast::cluster",
    "mbarrier::complete_tx::bytes",
    "add",
    "min",
    "max",
    "and",
    "or",
    "xor",
    "inc",
    "dec",
    "prefetch",
    "L2",
    "reduce",
    "f16",
    "bf16",
    "f32",
    "f64",
    "u32",
    "s32",
    "u64",
    "s64",
    "b32",
    "b64",
    "noftz",
}


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
    op = (
        next((p for p in parts if p in ("add", "min", "max", "and", "or", "xor", "inc", "dec")), "")
        if "reduce" in parts
        else ""
    )
    kind = next((p for p in parts if p in ("f16", "bf16", "f32", "f64", "u32", "s32", "u64", "s64", "b32", "b64")), "")
    if "tensor" in parts:
        load = spaces[0] != "global"
        tensor = operands[1] if load else operands[0]
        coords = ", ".join(g.read(c, "u4") for c in tensor.coords[0].items)
        ta, to = g.address(Mem(tensor.base, tensor.offset))
        sa, so = g.address(operands[0] if load else operands[1])
        if load:
            ba, bo = g.address(operands[2])
            return g.line(
                f"tma_load(f, {g.at}, {sa}, {so}, {ta}, {to}, ({coords},), {ba}, {bo}, {mask}, "
                f"{'cta_group::2' in parts})"
            )
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
            machine.report(
                "misaligned" if (at | n | source) % 16 else "out-of-bounds",
                f"a bulk copy of {n} bytes to shared offset {at} of {cta.shared_bytes}",
                f,
                i,
            )
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
                    data = cta.shared[o : o + n]
                    if cta.shadow is not None:
                        cta.shadow.async_read(o, o + n, token, i, f)
                else:
                    a = machine.memory.find(source, n)
                    if a is None:
                        machine.report(
                            "out-of-bounds",
                            f"a bulk copy of {n} bytes from {source:#x}: {machine.memory.place(source + n - 1)}",
                            f,
                            i,
                        )
                        return
                    data = a.bytes[source - a.start : source - a.start + n]
                    machine.counts.global_read_bytes += n
                    if machine.counts.tracking:
                        a.read_map[source - a.start : source - a.start + n] = 1
                target.shared[at : at + n] = data
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
            machine.report(
                "out-of-bounds",
                f"a bulk copy of {n} bytes from shared offset {at} to {to:#x}: {machine.memory.place(to + n - 1)}",
                f,
                i,
            )
            continue
        token = machine.order.issue(f, i, (f.lo + int(lane)) // 32) if machine.order is not None else None
        machine.counts.tma_instructions += 1
        machine.counts.tma_bytes += n

        def read(at=at, n=n, token=token):
            if cta.shadow is not None:
                cta.shadow.async_read(at, at + n, token, i, f)
            return cta.shared[at : at + n].copy()

        def write(data, a=a, to=to, n=n) -> None:
            target = a.bytes[to - a.start : to - a.start + n]
            machine.counts.global_write_bytes += n
            if machine.counts.tracking:
                a.write_map[to - a.start : to - a.start + n] = 1
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
        for group in closed[: len(closed) - left] if left else closed:
            for transfer in group:
                while transfer.key in machine.queues and not (transfer.read if read_only else transfer.written):
                    machine._task(transfer.key)
        if machine.order is not None:
            machine.order.stores_done(f, (f.lo + int(lane)) // 32, [t for g in closed[: len(closed) - left] for t in g])
