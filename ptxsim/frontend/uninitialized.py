"""Registers that are read before anything wrote them.

Two data flows over the basic blocks find the registers that no path has written before they are read (the check
"unwritten"), and those that some path leaves unwritten. Whether such a path is taken is seen when the code runs, by a
map of the lanes that have written (the check "unwritten-lanes", which also finds what compilers do on purpose: they
compute with values that were loaded under a condition, and store under the same one). A copy (mov) is as unwritten as
what it copies and reads nothing itself: compilers copy values that nobody will use.
"""

from __future__ import annotations

from dataclasses import dataclass

from .code import Block, Code
from .pending import PRODUCT, registers, results_and_sources
from .syntax import Instruction, Reg

Key = tuple[int, int]  # width and slot of a register


@dataclass(frozen=True, slots=True)
class Uses:
    """What an instruction does with watched registers: reads by name, writes, and a copy (to, from).

    `never` are the names of those it reads that nothing can have written.
    """

    never: tuple[str, ...] = ()
    reads: tuple[tuple[Key, str], ...] = ()
    writes: tuple[Key, ...] = ()
    copy: tuple[Key, Key] | None = None


class _Plain:
    """What one instruction reads, writes and copies."""

    __slots__ = ("copied", "copy", "reads", "writes", "written")

    def __init__(self, ins: Instruction) -> None:
        results, sources = results_and_sources(ins)
        if ins.parts[:2] == PRODUCT:  # accumulators are read only where the product adds to them
            results, sources = registers(ins.operands[0]), [r for x in ins.operands[1:] for r in registers(x)]
        if ins.guard is not None:
            sources = [*sources, ins.guard]
        self.copy: tuple[Key, Key] | None = None
        if ins.base == "mov" and len(results) == len(sources) == 1 and results[0].width == sources[0].width:
            self.copy = _key(results[0]), _key(sources[0])
            sources = []
        self.writes = [_key(r) for r in results]
        self.reads = [] if ins.base == "mov" else [(_key(r), r.name) for r in sources]
        self.copied: tuple[int, int] | None = None  # the bits of `copy`
        self.written = 0  # those of `writes`

    def number(self, bits: dict[Key, int]) -> None:
        """Give every register that it uses a bit."""
        if self.copy is not None:
            self.copied = _bit(bits, self.copy[0]), _bit(bits, self.copy[1])
        for key in self.writes:
            self.written |= _bit(bits, key)


def _key(r: Reg) -> Key:
    return r.width, r.slot


def _bit(bits: dict[Key, int], key: Key) -> int:
    bit = bits.get(key)
    if bit is None:
        bit = bits[key] = 1 << len(bits)
    return bit


def unwritten(program: Code) -> dict[int, Uses]:
    """Map instruction → what it does with the registers that may be read unwritten; empty where there are none."""
    plain = [_Plain(ins) for ins in program.instructions]
    bits: dict[Key, int] = {}
    for own in plain:
        own.number(bits)
    always = _Flow(program, plain, bits, every_path=True).unwritten_reads()
    if not always:
        return {}
    never = _Flow(program, plain, bits, every_path=False).unwritten_reads()
    risky = _with_copies(plain, {key for reads in always.values() for key, _ in reads})
    out = {}
    for at, own in enumerate(plain):
        uses = _watched(own, risky, tuple(name for _, name in never.get(at, ())))
        if uses is not None:
            out[at] = uses
    return out


def _with_copies(plain: list[_Plain], risky: set[Key]) -> set[Key]:
    """Those, and the registers that they are copied from."""
    copies = [x.copy for x in plain if x.copy is not None]
    while more := {source for to, source in copies if to in risky} - risky:
        risky = risky | more
    return risky


def _watched(plain: _Plain, risky: set[Key], never: tuple[str, ...]) -> Uses | None:
    reads = tuple(x for x in plain.reads if x[0] in risky)
    if plain.copy is not None:
        if plain.copy[0] not in risky:
            return None
        return Uses(copy=plain.copy) if plain.copy[1] in risky else Uses(writes=(plain.copy[0],))
    writes = tuple(x for x in plain.writes if x in risky)
    return Uses(never, reads, writes) if reads or writes else None


class _Flow:
    """The registers that every path to a block, or any path, has written, as bits of an integer."""

    def __init__(self, program: Code, plain: list[_Plain], bits: dict[Key, int], every_path: bool) -> None:
        self.program, self.plain, self.bits = program, plain, bits
        self.before: dict[int, int] = {0: 0}
        work = [0]
        while work:
            block = program.blocks[work.pop()]
            after = self._step(block, self.before[block.index])
            for following in program.successors(block):
                known = self.before.get(following)
                merged = after if known is None else known & after if every_path else known | after
                if merged != known:
                    self.before[following] = merged
                    work.append(following)

    def unwritten_reads(self) -> dict[int, list[tuple[Key, str]]]:
        """Map instruction → the registers that it reads and that are not among the written ones, with their names."""
        out: dict[int, list[tuple[Key, str]]] = {}
        for index, written in self.before.items():
            self._step(self.program.blocks[index], written, out)
        return out

    def _step(self, block: Block, written: int, out: dict[int, list[tuple[Key, str]]] | None = None) -> int:
        """What is written after a block."""
        for at, plain in enumerate(self.plain[block.first : block.last], block.first):
            if out is not None and (bad := [x for x in plain.reads if not written & self.bits.get(x[0], 0)]):
                out[at] = bad
            if plain.copied is None:
                written |= plain.written
            else:
                to, source = plain.copied
                written = written | to if written & source else written & ~to
        return written
