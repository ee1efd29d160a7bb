"""mbarrier objects: phases, pending arrivals, transaction bytes (PTX ISA 9.7.13.15)."""

from __future__ import annotations

import numpy as np

from .access import SHARED_BASE
from .convert import SHARED_WINDOW
from .syntax import Instruction
from .translate import Generator, emits, runtime
from .warp import RUNNING, WAITING

TX_LIMIT = (1 << 20) - 1


class MBarrier:
    """One mbarrier: expected and pending arrivals, pending transaction bytes, completed phases, sleepers."""

    __slots__ = (
        "arrivals",
        "clock",
        "cta",
        "drops",
        "expected",
        "fenced",
        "line",
        "next_clock",
        "offset",
        "pending",
        "phase",
        "sleepers",
        "tx",
    )

    def __init__(self, cta, offset: int, count: int) -> None:
        self.cta, self.offset = cta, offset
        self.expected = self.pending = count
        self.tx, self.phase, self.drops = 0, 0, 0
        self.sleepers: list = []
        self.clock = self.next_clock = None
        self.arrivals = 0
        self.fenced = False  # whether the thread that made it has executed a fence since

    def __str__(self) -> str:
        return (
            f"mbarrier at shared offset {self.offset} of CTA {self.cta.rank} (phase {self.phase}, {self.pending} of "
            f"{self.expected} arrivals and {self.tx} transaction bytes outstanding)"
        )

    def arrive(self, count: int, f=None, i: int = -1) -> None:
        if count > self.pending:
            self.cta.machine.report("barrier", f"{count} arrivals where {self.pending} are pending: {self}", f, i)
            count = self.pending
        self.pending -= count
        self.arrivals += count
        self._complete()

    def expect(self, tx: int) -> None:
        self.tx += tx
        if not -TX_LIMIT <= self.tx <= TX_LIMIT:
            self.cta.machine.report("barrier", f"transaction count out of range: {self}", None, -1)

    def complete_tx(self, count: int) -> None:
        self.tx -= count
        self._complete()

    def _complete(self) -> None:
        machine = self.cta.machine
        machine.progress += 1
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.expected -= self.drops
            self.drops = 0
            self.pending = self.expected
            self.arrivals = 0
            if machine.order is not None:
                machine.order.phase_completed(self)
            for f in self.sleepers:
                f.state, f.why = RUNNING, None
            self.sleepers = []


def locate(f, i: int, addr, offset: int) -> list[tuple[MBarrier, np.ndarray]]:
    """(barrier, active lanes) for every barrier the lanes name; unknown ones are reported and left out."""
    addr = np.asarray(addr)
    lanes = f.lanes()
    a = (addr[lanes] if addr.ndim else np.full(len(lanes), addr)).astype(np.uint64)
    a = a & np.uint64(SHARED_WINDOW - 1)
    first = a[0]
    groups = (
        [(int(first), lanes)] if len(a) == 1 or (a == first).all() else [(int(x), lanes[a == x]) for x in np.unique(a)]
    )
    out = []
    for x, where in groups:
        bar = f.cta.mbarrier(x + offset)
        if bar is None:
            f.cta.machine.report(
                "barrier", f"no mbarrier was initialised at shared address {x + offset:#x}", f, i, where
            )
        else:
            out.append((bar, where))
    return out


def _values(f, value, lanes) -> np.ndarray:
    value = np.asarray(value)
    return value[lanes].astype(np.int64) if value.ndim else np.full(len(lanes), int(value))


_MODS = {"shared", "shared::cta", "shared::cluster", "release", "acquire", "relaxed", "cta", "cluster", "parity"}


@emits("mbarrier.init", "mbarrier.inval")
def _init(g: Generator, ins: Instruction) -> None:
    g.mods(ins, {"shared", "shared::cta"}, skip=2)
    addr, offset = g.address(ins.operands[0])
    count = g.read(ins.operands[1], "u4") if ins.parts[1] == "init" else "None"
    g.line(f"mbar_init(f, {g.at}, {addr}, {offset}, {count})")


@runtime
def mbar_init(f, i: int, addr, offset: int, count) -> None:
    cta = f.cta
    lanes = f.lanes()
    addr = np.asarray(addr)
    a = addr[lanes] if addr.ndim else np.full(len(lanes), addr)
    counts = _values(f, count, lanes) if count is not None else None
    for n, x in enumerate(a):
        x = (int(x) & (SHARED_WINDOW - 1)) + offset
        target = cta.peer(x >> 24)
        at = (x & 0xFFFFFF) - SHARED_BASE
        if target is None or at < 0 or at + 8 > target.shared_bytes or at % 8:
            cta.machine.report("out-of-bounds", f"mbarrier at shared address {x:#x}", f, i, lanes[n : n + 1])
        elif counts is None:
            target.mbarriers.pop(at, None)
        else:
            target.mbarriers[at] = MBarrier(target, at, int(counts[n]))
            if cta.machine.order is not None:
                cta.machine.order.initialised(f, target.mbarriers[at], i)
            if target.shadow is not None:
                target.shadow.barrier(at)
    cta.machine.progress += 1


@emits("mbarrier.arrive", "mbarrier.arrive_drop", "mbarrier.expect_tx", "mbarrier.complete_tx")
def _arrive(g: Generator, ins: Instruction) -> None:
    mods, _ = g.mods(ins, _MODS | {"expect_tx", "noComplete"}, skip=2)
    name = ins.parts[1]
    operands = list(ins.operands)
    state = (
        operands.pop(0)
        if name.startswith("arrive") and (operands[0] is None or not hasattr(operands[0], "coords"))
        else None
    )
    addr, offset = g.address(operands[0])
    value = g.read(operands[1], "u4") if len(operands) > 1 else "None"
    if name == "arrive_drop" or "noComplete" in mods:
        raise g.fail(f"unknown opcode {ins.op}")
    kind = (
        "expect"
        if name == "expect_tx"
        else "complete"
        if name == "complete_tx"
        else "arrive_expect"
        if "expect_tx" in mods
        else "arrive"
    )
    call = f"mbar_arrive(f, {g.at}, {addr}, {offset}, {value}, '{kind}', {'relaxed' in mods})"
    if state is not None:
        g.write(state, "u8", call)
    else:
        g.line(call)


@runtime
def mbar_arrive(f, i: int, addr, offset: int, value, kind: str, relaxed: bool):
    """Arrivals and transaction counts of all active lanes; returns each lane's state token (the phase)."""
    token = np.zeros(f.n, np.uint64)
    order = f.cta.machine.order
    for bar, lanes in locate(f, i, addr, offset):
        v = _values(f, value, lanes) if value is not None else None
        token[lanes] = bar.phase
        if order is not None and kind.startswith("arrive") and not relaxed:
            order.release(f, bar, lanes)
        if kind == "expect":
            bar.expect(int(v.sum()))
            f.cta.machine.progress += 1
        elif kind == "complete":
            bar.complete_tx(int(v.sum()))
        elif kind == "arrive_expect":
            bar.expect(int(v.sum()))
            bar.arrive(len(lanes), f, i)
        else:
            bar.arrive(len(lanes) if v is None else int(v.sum()), f, i)
    return token


@emits("mbarrier.test_wait", "mbarrier.try_wait", boundary=True)
def _wait(g: Generator, ins: Instruction) -> None:
    mods, _ = g.mods(ins, _MODS, skip=2)
    dst, mem, value, *_hint = ins.operands
    addr, offset = g.address(mem)
    parity = "parity" in mods
    t = g.temp()
    v = g.read(value, "u4" if parity else "u8")
    g.line(f"{t} = mbar_wait(f, {g.at}, {addr}, {offset}, {v}, {parity}, {_spins(g)}, {'relaxed' in mods})")
    g.line(f"if {t} is None: return {g.block.index}")
    g.write(dst, "p", t)
    g.end(f"return {g.block.next}")


def _spins(g: Generator) -> bool:
    """Whether a wait that fails only comes straight back: wait P; @P bra out; bra wait (or @!P bra wait)."""
    code, at = g.program.instructions, g.at
    a = code[at + 1] if at + 1 < len(code) else None
    b = code[at + 2] if at + 2 < len(code) else None
    if a is None or a.base != "bra" or a.guard is None or a.guard.slot != g.ins.operands[0].slot:
        return False
    if a.guard.negated:
        return a.target == at
    return b is not None and b.base == "bra" and b.guard is None and b.target == at


@runtime
def mbar_wait(f, i: int, addr, offset: int, value, parity: bool, spins: bool, relaxed: bool):
    """Per lane whether the phase has completed; None when the fragment was put to sleep on the barrier."""
    machine = f.cta.machine
    found = locate(f, i, addr, offset)
    out = np.zeros(f.n, bool)
    failed = None
    for bar, lanes in found:
        if bar.cta is not f.cta:
            machine.report("barrier", f"wait on a remote {bar}", f, i, lanes)
        v = _values(f, value, lanes)
        done = (bar.phase & 1) != (v & 1) if parity else bar.phase != v
        out[lanes] = done
        if not done.all():
            failed = bar
        elif machine.order is not None and not relaxed:
            machine.order.acquire(f, bar, lanes)
    if failed is None:
        if not found:
            out[f.lanes()] = True  # reported above; going on beats spinning on a barrier that is not there
        machine.counts.barrier_waits += 1
        return out
    key = (i, failed.offset, failed.phase)
    alone = len(found) == 1 and not out.any()
    if alone and (spins or (f.polled == key and f.stamp == machine.progress)):
        f.state, f.why = WAITING, (failed, i, int(_values(f, value, f.lanes())[0]), parity)
        failed.sleepers.append(f)
        machine.counts.barrier_sleeps += 1
        return None
    f.polled, f.stamp = key, machine.progress
    machine.rest = True
    return out


@emits("mbarrier.pending_count")
def _pending(g: Generator, ins: Instruction) -> None:
    raise g.fail(f"unknown opcode {ins.op}")
