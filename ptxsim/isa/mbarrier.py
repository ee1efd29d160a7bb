"""Instructions on mbarriers (PTX ISA 9.7.13.15); the objects are in core/barriers.py."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..core.barriers import MBarrier, Wait
from ..core.counting import count_nonzero
from ..core.warp import Address, Fragment, Poll
from ..frontend.formats import PRED, U32, U64
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, Mem, Reg
from ..memory.address import SharedAddress

_SPACES = {"shared", "shared::cta", "shared::cluster"}
_MODS = _SPACES | {"release", "acquire", "relaxed", "cta", "cluster", "parity"}


@emits("mbarrier.init", "mbarrier.inval", results=0)
def _init(g: Generator, ins: Instruction) -> None:
    g.mods(ins, {"shared", "shared::cta"}, skip=2)
    count = g.read(ins.operands[1], U32) if ins.parts[1] == "init" else "None"
    g.line(f"mbarrier_init(f, {g.at}, {g.address_tuple(ins.operands[0])}, {count})")


@runtime
def mbarrier_init(f: Fragment, at: int, operand: Address, count: np.ndarray | None) -> None:
    """Initialise an mbarrier per active lane or, without a count, invalidate it."""
    lanes = f.lanes()
    counts = f.values(count) if count is not None else [0] * len(lanes)
    for n, raw in enumerate(f.addresses(operand)):
        address = SharedAddress.of(raw)
        target, offset = f.cta.peer(address.rank), address.offset
        if target is None or offset < 0 or offset + 8 > target.shared_bytes or offset % 8:
            what = f"mbarrier at shared address {address.raw:#x}"
            f.report(at, "out-of-bounds", what, lanes[n : n + 1])
        elif count is None:
            target.mbarriers.pop(offset, None)
        else:
            bar = target.mbarriers[offset] = MBarrier(target, offset, counts[n], at)
            f.cta.cluster.observer.mbarrier_initialised(f, bar, lanes[n : n + 1], at)
    f.cta.cluster.progress += 1


def located(f: Fragment, at: int, operand: Address) -> Iterator[tuple[MBarrier, np.ndarray]]:
    """Yield (barrier, active lanes) for each mbarrier that lanes name; report unknown ones."""
    addr, offset = np.asarray(operand[0]), operand[1]
    lanes = f.lanes()
    groups = [(addr, lanes)]
    if addr.ndim:
        own = addr[lanes]
        groups = [(own[0], lanes)]
        if count_nonzero(own != own[0]):
            groups = [(x, lanes[own == x]) for x in np.unique(own)]
    for x, where in groups:
        address = SharedAddress.of(int(x) + offset)
        bar = f.cta.mbarrier(address)
        if bar is None:
            f.report(at, "barrier", f"no mbarrier was initialised at shared address {address.raw:#x}", where)
        else:
            yield bar, where


def _note_first_use(f: Fragment, bar: MBarrier, lanes: np.ndarray, at: int) -> None:
    """Notify the observer if a range of threads uses an mbarrier for the first time."""
    f.cta.barrier_users.update(f.warps())
    bar.users.add((f.cta.rank, f.lo, f.hi))
    f.cta.cluster.observer.mbarrier_first_used(f, bar, lanes, at)


def _in_lanes(value: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Return an operand in some lanes of the range."""
    value = np.asarray(value)
    return value[lanes].astype(np.int64) if value.ndim else np.full(len(lanes), int(value))


@dataclass(frozen=True, slots=True)
class Arrival:
    """An operation on an mbarrier: expect transaction bytes, complete some, arrive.

    `narrow` (scope .cta, as written) orders nothing for another CTA (PTX ISA 8.5, scope). `drops` removes the
    arrivals from later phases too; `partial` (.noComplete) must not complete the phase.
    """

    at: int
    expects: bool
    completes: bool
    arrives: bool
    relaxed: bool
    narrow: bool
    drops: bool
    partial: bool


@emits("mbarrier.arrive", "mbarrier.arrive_drop", "mbarrier.expect_tx", "mbarrier.complete_tx")
def _arrive(g: Generator, ins: Instruction) -> None:
    mods, _ = g.mods(ins, _MODS | {"expect_tx", "noComplete"}, skip=2)
    name = ins.parts[1]
    operands = list(ins.operands)
    gives_state = name.startswith("arrive") and not isinstance(operands[0], Mem)
    state = operands.pop(0) if gives_state else None
    value = g.read(operands[1], U32) if len(operands) > 1 else "None"
    expects = name == "expect_tx" or "expect_tx" in mods
    spec = Arrival(
        g.at,
        expects,
        completes=name == "complete_tx",
        arrives=name.startswith("arrive"),
        relaxed="relaxed" in mods,
        narrow="cta" in mods,
        drops=name == "arrive_drop",
        partial="noComplete" in mods,
    )
    g.write(state, U64, f"mbarrier_arrive(f, {g.bind(spec)}, {g.address_tuple(operands[0])}, {value})")


@runtime
def mbarrier_arrive(f: Fragment, spec: Arrival, operand: Address, value: np.ndarray | None) -> np.ndarray:
    """Arrive and count transactions for all active lanes; return their state tokens (the phase)."""
    token = np.zeros(f.n, np.uint64)
    for bar, lanes in located(f, spec.at, operand):
        counts = None if value is None else _in_lanes(value, lanes)
        arrivals = len(lanes) if counts is None or spec.expects else int(counts.sum())
        if not spec.arrives or not bar.pending < arrivals <= bar.pending + bar.expected:
            _arrive_together(f, spec, bar, lanes, counts, token)
            continue
        for own in f.lanes_by_warp(lanes).values():  # warps arrive one after another, a later one in the next phase
            in_warp = np.isin(lanes, own)
            _arrive_together(f, spec, bar, lanes[in_warp], None if counts is None else counts[in_warp], token)
    return token


def _arrive_together(
    f: Fragment, spec: Arrival, bar: MBarrier, lanes: np.ndarray, counts: np.ndarray | None, token: np.ndarray
) -> None:
    """Arrive in one phase by `counts` arrivals or bytes per lane (None: one)."""
    cluster = f.cta.cluster
    count = len(lanes) if counts is None else int(counts.sum())
    token[lanes] = bar.phase
    if (f.cta.rank, f.lo, f.hi) not in bar.users:
        _note_first_use(f, bar, lanes, spec.at)
    if spec.arrives and bar.cta is not f.cta:
        cluster.observer.peer_arrived(f, bar, lanes, spec.at)
    if spec.arrives and not spec.relaxed and not (spec.narrow and bar.cta is not f.cta):
        cluster.observer.mbarrier_released(f, bar, lanes)
    if spec.expects:
        bar.expect(count, spec.at)
        cluster.progress += 1
    if spec.completes:
        bar.complete_tx(count, spec.at)
    if spec.arrives:
        arrivals = len(lanes) if spec.expects else count
        if spec.partial and arrivals >= bar.pending:
            f.report(spec.at, "barrier", f"an arrival with .noComplete completes the phase of {bar}", lanes)
        if spec.drops:
            bar.drop(arrivals, f, spec.at)
        bar.arrive(arrivals, f, spec.at)


@dataclass(frozen=True, slots=True)
class Test:
    """A test for a phase, by parity or by state token.

    `spins` says that a failed wait only loops back, so that the thread can sleep.
    """

    at: int
    parity: bool
    spins: bool
    relaxed: bool


@emits("mbarrier.test_wait", "mbarrier.try_wait", own_block=True)
def _wait(g: Generator, ins: Instruction) -> None:
    mods, _ = g.mods(ins, _MODS, skip=2)
    dst, mem, value, *_hint = ins.operands
    parity = "parity" in mods
    spec = g.bind(Test(g.at, parity, _spins(g), "relaxed" in mods))
    t = g.temp()
    g.line(f"{t} = mbarrier_wait(f, {spec}, {g.address_tuple(mem)}, {g.read(value, U32 if parity else U64)})")
    g.line(f"if {t} is None: return {g.block.index}")
    g.write(dst, PRED, t)
    g.end(f"return {g.block.next}")


def _spins(g: Generator) -> bool:
    """Return whether the following code only branches back to a failed wait."""
    branch, back = [*g.program.instructions[g.at + 1 : g.at + 3], None, None][:2]
    tested = g.ins.operands[0]
    if branch is None or branch.base != "bra" or branch.guard is None:
        return False
    if not isinstance(tested, Reg) or branch.guard.slot != tested.slot:
        return False
    if branch.guard.negated:
        return branch.target == g.at
    return back is not None and back.base == "bra" and back.guard is None and back.target == g.at


@runtime
def mbarrier_wait(f: Fragment, spec: Test, operand: Address, value: np.ndarray) -> np.ndarray | None:
    """Return per lane whether the phase completed; None if the fragment sleeps."""
    cluster = f.cta.cluster
    out = np.zeros(f.n, bool)
    named = 0
    failed: MBarrier | None = None
    for bar, lanes in located(f, spec.at, operand):
        named += 1
        if bar.cta is not f.cta:
            f.report(spec.at, "barrier", f"wait on a remote {bar}", lanes)
        done = bar.passed(_in_lanes(value, lanes), spec.parity)
        out[lanes] = done
        if count_nonzero(done) < len(lanes):
            failed = bar
            continue
        bar.waits[spec.at] = bar.waits.get(spec.at, 0) + 1
        if (f.cta.rank, f.lo, f.hi) not in bar.users:
            _note_first_use(f, bar, lanes, spec.at)
        if not spec.relaxed:
            cluster.observer.mbarrier_acquired(f, bar, lanes)
    if failed is None:
        if not named:
            out[f.lanes()] = True  # reported above; continue instead of spinning on a missing barrier
        f.machine.counts.barrier_waits += 1
        return out
    poll = Poll(spec.at, failed.offset, failed.phase)
    in_vain = f.poll == poll and f.stamp == cluster.progress
    if named == 1 and not count_nonzero(out) and (spec.spins or in_vain):
        f.sleep(Wait(failed, spec.at, f.value(value) if spec.parity else None))
        failed.sleepers.append(f)
        failed.sleeps[spec.at] = failed.sleeps.get(spec.at, 0) + 1
        f.machine.counts.barrier_sleeps += 1
        return None
    f.poll, f.stamp = poll, cluster.progress
    cluster.rest = True
    return out


@emits("mbarrier.pending_count")
def _pending(g: Generator, ins: Instruction) -> None:
    raise g.unknown()
