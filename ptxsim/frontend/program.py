"""A kernel made ready to run: each basic block becomes one Python function over numpy views of its registers.

A block function takes a fragment (see core/warp.py) and returns the index of the block to run next, or -1 when its
lanes have exited. Two versions exist, one for all lanes of the fragment's range active and one with a mask;
each is compiled when first run.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import CodeType
from typing import TYPE_CHECKING, Any

from ..core.coverage import outer_loops
from .garbage import without_collection
from .generator import Generator
from .parser import Module
from .pending import Touch, touches
from .recent import Recent
from .registry import RUNTIME, opcode
from .syntax import Instruction, Kernel, PtxError, Reg
from .uninitialized import unwritten
from .wgmma_fences import unfenced

if TYPE_CHECKING:
    from ..core.warp import Fragment

BlockFunction = Callable[["Fragment"], int]
_LEAVES = ("bra", "ret", "exit", "trap")


@dataclass(slots=True)
class Block:
    """Instructions first..last-1, with the next block on fall-through and what is executed, by class.

    `collective` blocks run only when their warps are whole.
    """

    first: int
    last: int
    index: int
    next: int
    counts: dict[str, int] = field(default_factory=dict)
    opcodes: dict[str, int] = field(default_factory=dict)  # the same, by opcodes as written
    full: BlockFunction | None = None
    masked: BlockFunction | None = None
    collective: bool = False
    source: str = ""  # of `full`, until it is compiled


class Program:
    """Basic blocks, the constants their code uses, and the registers that may be touched before their wait."""

    watches_divisions = False  # whether generated code tells what divisions are given

    @without_collection
    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.module, self.kernel = module, kernel
        self.instructions = unguarded(kernel.instructions)
        self.namespace: dict[str, object] = dict(RUNTIME)
        self.bound: dict[object, str] = {}
        self.codes: dict[str, CodeType] = {}  # of the functions that have been compiled
        self.blocks = self._split()
        self.block_of = {b.first: b.index for b in self.blocks}
        self.pending: dict[int, list[Touch]] = touches(self)
        self.watched = {origin for uses in self.pending.values() for use in uses for origin in use.origins}
        self.unfenced = unfenced(self)
        self.loops = outer_loops(self)
        self.noted = {first for uses in self.unfenced.values() for first in uses}  # writes that such a product asks for
        self.unwritten = unwritten(self)
        for block in self.blocks:
            block.source = Generator(self, block, masked=False).source(f"b{block.index}")

    def __getstate__(self) -> dict[str, Any]:
        """For translations.py: functions are made again out of their code."""
        constants = {name: self.namespace[name] for name in self.bound.values()}
        blocks = [replace(block, full=None, masked=None) for block in self.blocks]
        return {**self.__dict__, "namespace": constants, "blocks": blocks, "codes": marshal.dumps(self.codes)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.namespace = {**RUNTIME, **state["namespace"]}
        self.codes = marshal.loads(state["codes"])

    def fail(self, ins: Instruction, what: str) -> PtxError:
        return PtxError(f"{self.module.path}:{ins.line}: kernel {self.kernel.name[:80]}: {what}: «{ins.text[:160]}»")

    @cached_property
    def end(self) -> int:
        """The last instruction that is not part of returning, as line information has it: what an exit comes behind."""
        code = self.instructions
        returning = {ins.source for ins in code if ins.base in ("ret", "exit")}
        own = (n for n in range(len(code) - 1, -1, -1) if code[n].source not in returning and code[n].base != "bra")
        return next(own, len(code) - 1)

    def after(self, block: Block) -> int:
        """The block that follows, or -1 at the end of the kernel."""
        return block.next if block.next < len(self.blocks) else -1

    def _split(self) -> list[Block]:
        code = self.instructions
        leaders = {0}
        for i, ins in enumerate(code):
            if ins.base in _LEAVES:
                leaders.add(i + 1)
                if ins.base == "bra":
                    leaders.add(ins.target)
            elif self.stands_alone(ins):
                leaders |= {i, i + 1}
        starts = sorted(x for x in leaders if x < len(code))
        ends = [*starts[1:], len(code)]
        if any(ins.base == "bra" and ins.target >= len(code) for ins in code):
            raise self.fail(code[-1], "a branch past the end of the kernel")
        return [Block(a, b, n, n + 1) for n, (a, b) in enumerate(zip(starts, ends, strict=True))]

    def stands_alone(self, ins: Instruction) -> bool:
        """Whether an instruction is a block of its own."""
        known = opcode(ins.op)
        return known is not None and known.own_block

    def successors(self, block: Block) -> list[int]:
        """The blocks that may run after a block."""
        last = self.instructions[block.last - 1]
        out = [self.block_of[last.target]] if last.base == "bra" else []
        if (last.base not in _LEAVES or last.guard is not None) and self.after(block) >= 0:
            out.append(block.next)
        return out

    def compile(self, block: Block, masked: bool) -> BlockFunction:
        """The function of a block; `masked` selects the version for a partly active range."""
        name = f"b{block.index}{'m' if masked else ''}"
        code = self.codes.get(name)
        if code is None:
            source = Generator(self, block, masked).source(name) if masked or not block.source else block.source
            code = self.codes[name] = compile(source, f"<ptx {self.kernel.name[:40]}>", "exec")
        exec(code, self.namespace)
        function: BlockFunction = self.namespace[name]  # type: ignore[assignment]  # what exec has just put there
        if masked:
            block.masked = function
        else:
            block.full, block.source = function, ""
        return function


def unguarded(code: list[Instruction]) -> list[Instruction]:
    """Guards on anything but a branch become a branch around the instruction, so that blocks need none."""
    if not any(i.guard is not None and i.base != "bra" for i in code):
        return code
    out: list[Instruction] = []
    moved: list[int] = []  # old place → new place
    around: set[int] = set()  # new places of the branches put in
    for ins in code:
        moved.append(len(out))
        guard = ins.guard
        if guard is not None and ins.base != "bra":
            around.add(len(out))
            opposite = Reg(guard.slot, 1, guard.name, not guard.negated)
            out.append(Instruction("bra", ("bra",), (), opposite, ins.line, ins.source, ins.text))
            out.append(Instruction(ins.op, ins.parts, ins.operands, None, ins.line, ins.source, ins.text))
        else:
            out.append(ins)
    moved.append(len(out))
    for n, ins in enumerate(out):
        if ins.base == "bra":
            target = n + 2 if n in around else moved[ins.target]
            out[n] = Instruction(ins.op, ins.parts, (), ins.guard, ins.line, ins.source, ins.text, target)
    return out


_PROGRAMS: Recent[Program] = Recent()


def program_of(module: Module, kernel: Kernel) -> Program:
    """The translated kernel, made once as long as it is among the recent ones."""
    return _PROGRAMS.get(id(kernel), lambda kept: kept.kernel is kernel, lambda: Program(module, kernel))


def remembered(kernel: Kernel) -> Program | None:
    """The translated kernel, where it is among the recent ones."""
    return _PROGRAMS.find(id(kernel), lambda kept: kept.kernel is kernel)


def remember(program: Program) -> None:
    """Have a kernel that was translated elsewhere among the recent ones."""
    _PROGRAMS.get(id(program.kernel), lambda kept: kept is program, lambda: program)
