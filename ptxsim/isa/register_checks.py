"""Run-time register checks: access before a wait, unwritten reads, missing wgmma.fence.

The analyses in `frontend` (pending.py, uninitialized.py, wgmma_fences.py) select the instructions that call these
functions.
"""

from collections.abc import Iterable

import numpy as np

from ..core.warp import Fragment
from ..core.work import Pipe
from ..frontend.pending import instruction_of, is_load, is_product
from ..frontend.registry import runtime
from ..frontend.uninitialized import Key, Uses


@runtime
def touch(f: Fragment, at: int) -> None:
    """Complete the loads and products of registers that an instruction accesses; report it if enabled.

    For products ptxas says that it inserts a wait (C7517); a load's registers have a scoreboard like any load's.
    """
    unfinished = f.cta.unfinished
    for use in f.machine.program.pending[at]:
        for origin in use.origins:
            for warp in f.warps():
                if unfinished.get((warp, origin)):
                    _report(f, at, use.name, origin, warp)
                    _finish(f, origin, warp)


def _report(f: Fragment, at: int, name: str, origin: int, warp: int) -> None:
    machine = f.machine
    check, wait = ("unwaited-ld", "tcgen05.wait::ld") if is_load(origin) else ("unwaited", "wgmma.wait_group")
    if check in machine.checks:
        first = machine.program.instructions[instruction_of(origin)]
        f.report(
            at,
            "unwaited",
            f"{name} belongs to the {'.'.join(first.parts[:2])} at PTX line {first.line} until "
            f"{wait}, which warp {warp} of CTA {f.cta.rank} has not executed",
        )


def _finish(f: Fragment, origin: int, warp: int) -> None:
    cta, cluster = f.cta, f.cta.cluster
    if is_product(origin):
        pipe = Pipe("wgmma", cta.rank, warp // 4)
        while pipe in cluster.pipes.queues:
            cluster.complete(pipe)
    else:
        cluster.observer.tmem_loaded(cta.rank, warp, cta.unfinished[warp, origin])
        cta.unfinished[warp, origin] = 0


@runtime
def use_registers(f: Fragment, at: int) -> None:
    """Check the reads of an instruction that is about to run, and record its writes."""
    checks, uses = f.machine.checks, f.machine.program.unwritten[at]
    if uses.never and "unwritten" in checks:
        f.report(at, "unwritten", f"{uses.never[0]} is read, and nothing before has written it")
    if "unwritten-lanes" in checks:
        _follow_lanes(f, at, uses)


def _follow_lanes(f: Fragment, at: int, uses: Uses) -> None:
    threads = slice(f.lo, f.hi)
    active = slice(None) if f.mask is None else f.mask
    for key, name in uses.reads:
        ready = _lanes(f, key)[threads][active]
        if not ready.all():
            lanes = f.lanes()[~ready]
            f.report(at, "unwritten", f"{name} is read before anything wrote it", lanes)
            _lanes(f, key)[threads][active] = True  # reported once
    for key in uses.writes:
        _lanes(f, key)[threads][active] = True
    if uses.copy is not None:
        to, source = uses.copy
        _lanes(f, to)[threads][active] = _lanes(f, source)[threads][active]


def _lanes(f: Fragment, key: Key) -> np.ndarray:
    """Return a mask of the CTA's threads that have written a register."""
    written = f.cta.written.get(key)
    if written is None:
        written = f.cta.written[key] = np.zeros(len(f.cta.alive), bool)
    return written


@runtime
def note_write(f: Fragment, at: int) -> None:
    """Record that an instruction has written a register of a product."""
    for warp in f.warps():
        f.cta.writes[warp, at] = f.cta.fences.get(warp, 0)


@runtime
def wgmma_fence(f: Fragment) -> None:
    fences = f.cta.fences
    for warp in f.warps():
        fences[warp] = fences.get(warp, 0) + 1


def check_fence(f: Fragment, at: int, warps: Iterable[int]) -> None:
    """Report a product that no fence orders after writes of its registers."""
    cta, program = f.cta, f.machine.program
    for warp in warps:
        fences = cta.fences.get(warp, 0)
        if not fences:
            return f.report(at, "unfenced", f"no wgmma.fence comes before the first product of warp {warp}")
        for first, name in program.unfenced.get(at, {}).items():
            if cta.writes.get((warp, first)) == fences:
                where = program.instructions[first].location
                what = (
                    f"{name} was written at {where}, and no wgmma.fence orders this product of warp {warp} after that"
                )
                return f.report(at, "unfenced", what)
    return None
