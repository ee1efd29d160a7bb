"""Registers of asynchronous instructions that are touched before their wait.

tcgen05.ld writes its registers at some time until tcgen05.wait::ld, wgmma its accumulators (and reads its A registers)
until a wgmma.wait_group: PTX leaves open what an instruction in between sees. ptxas does not: it makes the instruction
wait for its registers, and NVIDIA's kernels count on that. So a touch completes the load or product here too; the
checks "unwaited" and "unwaited-ld" report it. A data flow over the basic blocks finds the instructions where it can
happen; only these ask, when they run, whether it does.
"""

from __future__ import annotations

from dataclasses import dataclass

from .syntax import Instruction, Mem, Pair, Reg, Vec
from .translate import Program, runtime

_NO_RESULT = {
    "st",
    "red",
    "bar",
    "barrier",
    "bra",
    "stmatrix",
    "cp",
    "prefetch",
    "fence",
    "membar",
    "wgmma",
    "setmaxnreg",
}


@dataclass(frozen=True)
class Touch:
    """A register that an instruction uses: its name, and the instructions whose wait may be missing."""

    name: str
    origins: frozenset[int]


State = dict[tuple[int, int, bool], frozenset[int]]  # (width, slot, only a write matters) → origins


def registers(operand: object) -> list[Reg]:
    """All registers in an operand."""
    if isinstance(operand, Reg):
        return [operand]
    if isinstance(operand, Vec):
        return [r for x in operand.items for r in registers(x)]
    if isinstance(operand, Pair):
        return registers(operand.first) + registers(operand.second)
    if isinstance(operand, Mem):
        return registers(operand.base) + [r for x in operand.coords for r in registers(x)]
    return []


def touches(program: Program) -> dict[int, list[Touch]]:
    """Instruction → what it may touch too early. Empty for kernels without such loads and products."""
    if not any(x.parts[:2] in (("tcgen05", "ld"), ("wgmma", "mma_async")) for x in program.instructions):
        return {}
    found: dict[int, dict[str, frozenset[int]]] = {}
    before: dict[int, State] = {0: {}}
    work = [0]
    while work:
        block = program.blocks[work.pop()]
        state = dict(before[block.index])
        for at in range(block.first, block.last):
            _step(program.instructions[at], at, state, found)
        for following in _successors(program, block):
            known = before.get(following)
            merged = dict(known or {})
            for key, origins in state.items():
                merged[key] = merged.get(key, frozenset()) | origins
            if known is None or merged != known:
                before[following] = merged
                work.append(following)
    return {at: [Touch(name, origins) for name, origins in uses.items()] for at, uses in found.items()}


def _successors(program: Program, block) -> list[int]:
    last = program.instructions[block.last - 1]
    out = [program.block_of[last.target]] if last.base == "bra" else []
    if not (last.base in ("bra", "ret", "exit", "trap") and last.guard is None) and block.next < len(program.blocks):
        out.append(block.next)
    return out


def _step(ins: Instruction, at: int, state: State, found: dict) -> None:
    """Move the state over one instruction and note what it touches."""
    kind = ins.parts[:2]
    if kind == ("tcgen05", "wait::ld"):
        for key, origins in list(state.items()):
            left = frozenset(o for o in origins if o < 0)
            state[key] = left
            if not left:
                del state[key]
        return
    if kind == ("wgmma", "wait_group"):
        if ins.operands[0].value == 0:
            for key, origins in list(state.items()):
                left = frozenset(o for o in origins if o >= 0)
                state[key] = left
                if not left:
                    del state[key]
        return
    if kind == ("wgmma", "mma_async"):  # its origin is negative, so that the two waits tell them apart
        for r in registers(ins.operands[0]):
            key = (r.width, r.slot, False)
            state[key] = state.get(key, frozenset()) | {-1 - at}
        if isinstance(ins.operands[1], Vec):
            for r in registers(ins.operands[1]):
                _use(r, at, state, found, False)
                state[r.width, r.slot, True] = frozenset({-1 - at})
        return
    first = 0 if ins.base in _NO_RESULT or not ins.operands else 2 if ins.parts[1:3] == ("ld", "red") else 1
    results = [r for x in ins.operands[:first] for r in registers(x)]
    sources = [r for x in ins.operands[first:] for r in registers(x)]
    if ins.base == "mov":  # a copy is as unfinished as what it copies
        origins = frozenset(o for r in sources for o in state.get((r.width, r.slot, False), ()) if o >= 0)
        for r in sources:
            if any(o < 0 for o in state.get((r.width, r.slot, False), ())):
                _use(r, at, state, found, False)
        for r in results:
            _use(r, at, state, found, True)
            if origins:
                state[r.width, r.slot, False] = origins
        return
    for r in sources:
        _use(r, at, state, found, False)
    for r in results:
        _use(r, at, state, found, True)
    if kind == ("tcgen05", "ld"):
        for r in results:
            state[r.width, r.slot, False] = frozenset({at})


def _use(r: Reg, at: int, state: State, found: dict, write: bool) -> None:
    keys = [(r.width, r.slot, False)] + [(r.width, r.slot, True)] * write
    for key in keys:
        origins = state.pop(key, None)  # said once
        if origins:
            uses = found.setdefault(at, {})
            uses[r.name] = uses.get(r.name, frozenset()) | origins


@runtime
def touch(f, i: int) -> None:
    """Complete the loads and products whose registers instruction i touches, and report that if asked to.

    For products ptxas says that it inserts a wait (C7517); a load's registers have a scoreboard like any load's.
    """
    cta, machine = f.cta, f.cta.machine
    for use in machine.program.pending[i]:
        for origin in use.origins:
            for w in f.warps():
                if not cta.unfinished.get((w, origin)):
                    continue
                code = machine.program.instructions
                first = code[origin if origin >= 0 else -1 - origin]
                wait = "tcgen05.wait::ld" if origin >= 0 else "wgmma.wait_group"
                if ("unwaited-ld" if origin >= 0 else "unwaited") in machine.checks:
                    machine.report(
                        "unwaited",
                        f"{use.name} belongs to the {'.'.join(first.parts[:2])} at PTX line {first.line} until "
                        f"{wait}, which warp {w} of CTA {cta.rank} has not executed",
                        f,
                        i,
                    )
                if origin < 0:
                    key = ("wgmma", cta.rank, w // 4)
                    while key in machine.queues:
                        machine._task(key)
                else:
                    if machine.order is not None:
                        machine.order.loaded(cta.rank, w, cta.unfinished[w, origin])
                    cta.unfinished[w, origin] = 0
