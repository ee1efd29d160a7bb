"""Registers of asynchronous instructions that are accessed before their wait.

tcgen05.ld writes its registers at any time until tcgen05.wait::ld. wgmma writes its accumulators, and reads its A
registers, until wgmma.wait_group. PTX leaves open what an instruction in between sees. ptxas makes that instruction
wait for its registers, and NVIDIA's kernels rely on it. So an access completes the load or product; the
checks "unwaited" and "unwaited-ld" report it. A data flow over the basic blocks finds the instructions that may do
this; only these check when they run.

An origin is the instruction that began the access: the index of a tcgen05.ld, or -1 minus that of a wgmma.mma_async.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from .code import Code
from .registry import opcode
from .syntax import Instruction, Mem, Operand, Pair, Reg, Vec

LOAD, PRODUCT = ("tcgen05", "ld"), ("wgmma", "mma_async")
Origins = frozenset[int]


def product_origin(at: int) -> int:
    return -1 - at


def is_load(origin: int) -> bool:
    return origin >= 0


def is_product(origin: int) -> bool:
    return origin < 0


def instruction_of(origin: int) -> int:
    return origin if is_load(origin) else -1 - origin


@dataclass(frozen=True)
class Touch:
    """A register that an instruction accesses, and the instructions that may be unwaited."""

    name: str
    origins: Origins


class PendingRegister(NamedTuple):
    """A register in use by asynchronous work; `only_read` ones conflict with writes only."""

    width: int
    slot: int
    only_read: bool = False


def registers(operand: Operand) -> list[Reg]:
    """Return all registers of an operand."""
    if isinstance(operand, Reg):
        return [operand]
    if isinstance(operand, Vec):
        return [r for x in operand.items for r in registers(x)]
    if isinstance(operand, Pair):
        return registers(operand.first) + registers(operand.second)
    if isinstance(operand, Mem):
        return registers(operand.base) + [r for x in operand.coords for r in registers(x)]
    return []


def results_and_sources(ins: Instruction) -> tuple[list[Reg], list[Reg]]:
    """Return the registers an instruction writes, and those it reads."""
    known = opcode(ins.op)
    count = known.results if known is not None else 1
    results: list[Reg] = []
    sources: list[Reg] = []
    for n, operand in enumerate(ins.operands):
        if type(operand) is Reg:
            (results if n < count else sources).append(operand)
        elif operand is not None:
            written = n < count and not isinstance(operand, Mem)
            (results if written else sources).extend(registers(operand))
    return results, sources


def touches(program: Code) -> dict[int, list[Touch]]:
    """Return, per instruction, the accesses that may be too early; {} for most kernels."""
    if not any(ins.parts[:2] in (LOAD, PRODUCT) for ins in program.instructions):
        return {}
    flow = _Flow()
    before: dict[int, dict[PendingRegister, Origins]] = {0: {}}
    work = [0]
    while work:
        block = program.blocks[work.pop()]
        flow.pending = dict(before[block.index])
        for at in range(block.first, block.last):
            flow.step(program.instructions[at], at)
        for following in program.successors(block):
            known = before.get(following)
            if known is None:
                before[following] = dict(flow.pending)
            elif all(key in known and origins <= known[key] for key, origins in flow.pending.items()):
                continue  # no new information on this path
            else:
                merged = before[following] = dict(known)
                for key, origins in flow.pending.items():
                    merged[key] = merged.get(key, frozenset()) | origins
            work.append(following)
    return {at: [Touch(name, origins) for name, origins in uses.items()] for at, uses in flow.touched.items()}


class _Flow:
    """The pending registers at one point of the program, and the accesses so far."""

    def __init__(self) -> None:
        self.pending: dict[PendingRegister, Origins] = {}
        self.touched: dict[int, dict[str, Origins]] = {}

    def step(self, ins: Instruction, at: int) -> None:
        """Process one instruction and record what it accesses."""
        kind = ins.parts[:2]
        if kind == ("tcgen05", "wait::ld"):
            return self._retain(is_product)
        if kind == ("wgmma", "wait_group"):
            return self._retain(is_load) if getattr(ins.operands[0], "value", None) == 0 else None
        if kind == PRODUCT:
            return self._product(ins, at)
        if not self.pending and kind != LOAD:
            return None  # nothing is pending
        if ins.base == "mov":
            return self._copy(ins, at)
        results, sources = results_and_sources(ins)
        for r in sources:
            self._use(r, at)
        for r in results:
            self._use(r, at, write=True)
        if kind == LOAD:
            for r in results:
                self.pending[PendingRegister(r.width, r.slot)] = frozenset({at})
        return None

    def _retain(self, is_kind: Callable[[int], bool]) -> None:
        """Keep only origins of one kind, after a wait for the other kind."""
        retained = {key: frozenset(o for o in origins if is_kind(o)) for key, origins in self.pending.items()}
        self.pending = {key: origins for key, origins in retained.items() if origins}

    def _product(self, ins: Instruction, at: int) -> None:
        """Process a product: accumulators chain without a wait, A's registers stay in use."""
        origin = frozenset({product_origin(at)})
        for r in registers(ins.operands[0]):
            key = PendingRegister(r.width, r.slot)
            self.pending[key] = self.pending.get(key, frozenset()) | origin
        if isinstance(ins.operands[1], Vec):
            for r in registers(ins.operands[1]):
                self._use(r, at)
                self.pending[PendingRegister(r.width, r.slot, only_read=True)] = origin

    def _copy(self, ins: Instruction, at: int) -> None:
        """Process a copy, whose result is as unfinished as its source."""
        results, sources = results_and_sources(ins)
        loads: Origins = frozenset()
        for r in sources:
            origins = self.pending.get(PendingRegister(r.width, r.slot), frozenset())
            loads |= {o for o in origins if is_load(o)}
        for r in sources:
            if any(is_product(o) for o in self.pending.get(PendingRegister(r.width, r.slot), ())):
                self._use(r, at)
        for r in results:
            self._use(r, at, write=True)
            if loads:
                self.pending[PendingRegister(r.width, r.slot)] = loads

    def _use(self, r: Reg, at: int, write: bool = False) -> None:
        for only_read in (False, True) if write else (False,):
            origins = self.pending.pop(PendingRegister(r.width, r.slot, only_read), None)  # reported once
            if origins:
                uses = self.touched.setdefault(at, {})
                uses[r.name] = uses.get(r.name, frozenset()) | origins
