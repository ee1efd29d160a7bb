"""A kernel's code as basic blocks: successors and outer loops."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .parser import Module
from .registry import opcode
from .syntax import Instruction, Kernel, PtxError, Reg

BlockFunction = Callable[[Any], int]  # fragment → next block, or -1 after an exit
_LEAVES = ("bra", "ret", "exit", "trap")


@dataclass(slots=True)
class Block:
    """Instructions first..last-1, fall-through, counts by class; `collective`: whole warps only."""

    first: int
    last: int
    index: int
    next: int
    counts: dict[str, int] = field(default_factory=dict)
    opcodes: dict[str, int] = field(default_factory=dict)  # counts by opcode as written
    full: BlockFunction | None = None
    masked: BlockFunction | None = None
    collective: bool = False
    source: str = ""  # of `full`, until it is compiled


class Code:
    """Unguarded instructions in basic blocks, and the constants of generated code."""

    watches_divisions = False  # generated code reports division operands

    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.module, self.kernel = module, kernel
        self.instructions = unguarded(kernel.instructions)
        self.namespace: dict[str, object] = {}
        self.bound: dict[object, str] = {}
        self.blocks = self._split()
        self.block_of = {b.first: b.index for b in self.blocks}

    def calls_before(self, at: int) -> Sequence[str]:
        """Return lines of generated code to run before an instruction."""
        return ()

    def calls_after(self, at: int) -> Sequence[str]:
        """Return lines of generated code to run after an instruction, unless it leaves the block."""
        return ()

    def fail(self, ins: Instruction, what: str) -> PtxError:
        return PtxError(f"{self.module.path}:{ins.line}: kernel {self.kernel.name[:80]}: {what}: «{ins.text[:160]}»")

    @cached_property
    def end(self) -> int:
        """The last instruction before the return code, by line information; exits are reported after it."""
        code = self.instructions
        returning = {ins.source for ins in code if ins.base in ("ret", "exit")}
        own = (n for n in range(len(code) - 1, -1, -1) if code[n].source not in returning and code[n].base != "bra")
        return next(own, len(code) - 1)

    def after(self, block: Block) -> int:
        """Return the following block, or -1 at the end of the kernel."""
        return block.next if block.next < len(self.blocks) else -1

    def _split(self) -> list[Block]:
        code = self.instructions
        leaders = {0}
        products = False  # in a run of mma.sync and mov, which is one block so that batching.py can merge its products
        for i, ins in enumerate(code):
            if products and ins.base not in ("mma", "mov"):
                products = False
                leaders.add(i)
            if ins.base == "mma" and not self.stands_alone(ins):
                if not products:
                    leaders.add(i)
                products = True
            elif ins.base in _LEAVES:
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
        """Return whether an instruction is a block of its own."""
        known = opcode(ins.op)
        return known is not None and known.own_block

    def successors(self, block: Block) -> list[int]:
        """Return the blocks that may run after a block."""
        last = self.instructions[block.last - 1]
        out = [self.block_of[last.target]] if last.base == "bra" else []
        if (last.base not in _LEAVES or last.guard is not None) and self.after(block) >= 0:
            out.append(block.next)
        return out


def unguarded(code: list[Instruction]) -> list[Instruction]:
    """Replace guards, except on branches, by a branch around the instruction."""
    if not any(i.guard is not None and i.base != "bra" for i in code):
        return code
    out: list[Instruction] = []
    moved: list[int] = []  # old index → new index
    around: set[int] = set()  # indices of inserted branches
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


def outer_loops(program: Code) -> dict[int, tuple[int, list[int]]]:
    """Return outermost loops that do more than wait: first block → (last, entry blocks)."""
    spans: dict[int, int] = {}
    for block in program.blocks:
        for following in program.successors(block):
            if following <= block.index:
                spans[following] = max(spans.get(following, 0), block.index)
    outer = [s for s, e in spans.items() if not any(a < s and e <= b for a, b in spans.items())]
    chosen = [s for s in outer if program.blocks[spans[s]].last - program.blocks[s].first > 8]
    return {s: (spans[s], _entries(program, s)) for s in chosen}


def _entries(program: Code, first: int) -> list[int]:
    """Return the blocks before a loop from which it is entered."""
    return [b.index for b in program.blocks[:first] if first in program.successors(b)]
