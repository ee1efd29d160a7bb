"""Registers that are read before they are written.

Two data flows over the basic blocks find registers that no path has written before a read (check "unwritten"), and
registers that some path leaves unwritten. A per-lane map decides the latter at run time (check "unwritten-lanes"). That
check also reports deliberate compiler code: values loaded and stored under one condition, computed without it.
A copy (mov) is as unwritten as its source and counts as no read: compilers copy values that nothing uses.
"""

from dataclasses import dataclass

from .code import Block, Code
from .pending import PRODUCT, registers, results_and_sources
from .syntax import Instruction, Reg

Key = tuple[int, int]  # width and slot of a register


@dataclass(frozen=True, slots=True)
class Uses:
    """An instruction's use of watched registers: reads by name, writes, a copy (to, from).

    `never` names the registers read that no path can have written.
    """

    never: tuple[str, ...] = ()
    reads: tuple[tuple[Key, str], ...] = ()
    writes: tuple[Key, ...] = ()
    copy: tuple[Key, Key] | None = None


class _Plain:
    """The reads, writes and copy of one instruction."""

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
        self.written = 0  # the bits of `writes`

    def number(self, bits: dict[Key, int]) -> None:
        """Assign a bit to every register of the instruction."""
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
    """Return, per instruction, its use of registers that may be read unwritten; {} if none."""
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
    """Return these registers, and those they are copied from."""
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
    """Registers written on every path, or any path, to each block, as integer bits."""

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
        """Return, per instruction, the registers read that are not written, with names."""
        out: dict[int, list[tuple[Key, str]]] = {}
        for index, written in self.before.items():
            self._step(self.program.blocks[index], written, out)
        return out

    def _step(self, block: Block, written: int, out: dict[int, list[tuple[Key, str]]] | None = None) -> int:
        """Return the written registers after a block."""
        for at, plain in enumerate(self.plain[block.first : block.last], block.first):
            if out is not None and (bad := [x for x in plain.reads if not written & self.bits.get(x[0], 0)]):
                out[at] = bad
            if plain.copied is None:
                written |= plain.written
            else:
                to, source = plain.copied
                written = written | to if written & source else written & ~to
        return written
