"""Python source generation for a basic block; emitters in `isa` call a Generator's methods."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np

from .batching import Slots, merged
from .code import Block, Code
from .formats import FORMATS, PRED, SIGNED, TYPES, U16, U32, U64, UNSIGNED, Format
from .registry import Opcode, opcode
from .syntax import Imm, Instruction, Mem, Operand, PtxError, Reg, Special, Sym

_REGISTER = re.compile(rf"\b({'|'.join(f.name for f in FORMATS if f.bits != 8)})\[(\d+)\]")


class Generator:
    """The source of one block; `f` is the fragment, `m` its mask, `u32[3]` a register."""

    def __init__(self, program: Code, block: Block, masked: bool) -> None:
        self.program, self.block, self.masked = program, block, masked
        self.lines: list[str] = []
        self.views: set[str] = set()
        self.ins: Instruction = program.instructions[block.first]
        self.at = block.first
        self.ended = False
        self.temps = 0

    def source(self, name: str = "b") -> str:
        """Return the whole function. Raises PtxError for an instruction that is not simulated."""
        block = self.block
        block.counts, block.opcodes = {}, {}
        for self.at in range(block.first, block.last):
            self.ins = ins = self.program.instructions[self.at]
            entry = opcode(ins.op)
            if entry is None:
                raise self.unknown()
            kind = instruction_class(ins.parts)
            block.counts[kind] = block.counts.get(kind, 0) + 1
            block.opcodes[ins.op] = block.opcodes.get(ins.op, 0) + 1
            self.lines += self.program.calls_before(self.at)
            self._emit(entry, ins)
            if not self.ended:
                self.lines += self.program.calls_after(self.at)
        if not self.ended:
            self.line(f"return {self.program.after(block)}")
        if not self.masked:
            self.lines = merged(self.lines, self._slots)
        return self._function(name)

    def _slots(self, slots: Slots) -> str:
        return self._bound(("slots", slots), np.array(slots))

    def _emit(self, entry: Opcode, ins: Instruction) -> None:
        """Emit an instruction. Raises PtxError for operands that its opcode does not take."""
        try:
            entry.emit(self, ins)
        except (ValueError, LookupError, TypeError, AttributeError, StopIteration) as error:
            raise self.fail("operands that the opcode does not take") from error

    def _function(self, name: str) -> str:
        """Return the lines as a function, with views and repeated registers looked up first."""
        head = [f"def {name}(f):"]
        if self.masked:
            head.append(" m = f.mask")
        if self.views:
            head.append(" v = f.views")
        head += [f" {view} = v.{view}" for view in sorted(self.views)]
        body = "\n".join([" " + line for line in self.lines])
        often = {x for x, n in Counter(_REGISTER.findall(body)).items() if n > 1}
        head += [f" {view}_{slot} = {view}[{slot}]" for view, slot in sorted(often)]

        def short(m: re.Match[str]) -> str:
            return f"{m[1]}_{m[2]}" if m.groups() in often else m[0]

        return "\n".join([*head, _REGISTER.sub(short, body) if often else body])

    # interface for emitters
    def line(self, text: str) -> None:
        self.lines.append(text)

    def join(self, first: int) -> None:
        """Join the lines from number `first` on, which share a temporary, into one."""
        self.lines[first:] = ["; ".join(self.lines[first:])]

    def end(self, text: str) -> None:
        """Append the last line of a block that returns the next block itself."""
        self.lines.append(text)
        self.ended = True

    def fail(self, what: str) -> PtxError:
        return self.program.fail(self.ins, what)

    def unknown(self, why: str = "") -> PtxError:
        """Return the error for an opcode, or a form of one, that is not simulated."""
        error = self.fail(f"unknown opcode {self.ins.op}{f' ({why})' if why else ''}")
        error.opcode = self.ins.op
        return error

    def temp(self) -> str:
        self.temps += 1
        return f"t{self.temps}"

    def collective(self, member: Operand = None) -> None:
        """Require whole warps for the block, unless a constant member mask names fewer lanes."""
        if member is None or (isinstance(member, Imm) and int(member.value) & 0xFFFFFFFF == 0xFFFFFFFF):
            self.block.collective = True

    def bind(self, value: object) -> str:
        """Return a name in generated code for a hashable object, such as a decoded instruction."""
        return self._bound(value, value)

    def _bound(self, key: object, value: object) -> str:
        name = self.program.bound.get(key)
        if name is None:
            name = self.program.bound[key] = f"K{len(self.program.bound)}"
            self.program.namespace[name] = value
        return name

    def constant(self, value: Any, fmt: Format) -> str:
        """Return the name of a 0-d array of `value`; integers wrap to the format's width."""
        if fmt.dtype.kind in "ui" and not isinstance(value, np.ndarray):
            size = fmt.dtype.itemsize
            array = np.array(int(value) & ((1 << 8 * size) - 1), f"u{size}").view(fmt.dtype)
        else:
            array = np.array(value, fmt.dtype)
        return self._bound((array.tobytes(), fmt.name), array)

    def read(self, op: Operand, fmt: Format) -> str:
        """Return a source operand as an array of `fmt`, 0-d if lanes share it."""
        if isinstance(op, Reg):
            return self._register(op, fmt)
        if isinstance(op, Imm):
            return self._immediate(op, fmt)
        if isinstance(op, Special):
            expr = f"f.special({op.name!r})"
            if fmt is U32:
                return expr
            return f"{expr}.{'view' if fmt.bits == 32 else 'astype'}('{fmt.numpy}')"
        if isinstance(op, Sym):
            return f"f.symbol({op.name!r}, {op.offset}, '{fmt.numpy}')"
        raise self.fail(f"operand {op!r} is not supported in this position")

    def _register(self, op: Reg, fmt: Format) -> str:
        if op.width == fmt.register_bits:
            if fmt.bits == 8:
                return f"{self.target(op, U16)}.astype('u1').view('{fmt.numpy}')"
            expr = self.target(op, fmt)
            return f"logical_not({expr})" if op.negated else expr
        if not fmt.is_integer or op.width == 1:
            raise self.fail(f"register {op.name} of {op.width} bits used as {fmt.name}")
        narrower = op.width < fmt.register_bits
        seen = (SIGNED if narrower and fmt.is_signed else UNSIGNED)[op.width]
        return f"{self.target(op, seen)}.astype('{fmt.numpy}')"

    def _immediate(self, op: Imm, fmt: Format) -> str:
        if fmt is PRED:
            return self.constant(bool(op.value), PRED)
        value = op.bits if op.bits is not None else op.value
        if fmt.elements > 1:
            return f"full(f.n, {self.constant(value, fmt.unsigned)}).view('{fmt.numpy}')"
        if fmt.is_float:
            if isinstance(op.value, int):  # digits without a point are bits
                size = fmt.dtype.itemsize
                bits = np.array(op.value & ((1 << 8 * size) - 1), f"u{size}")
                return self.constant(bits.view(fmt.dtype), fmt)
            return self.constant(np.asarray(op.value, fmt.dtype), fmt)
        if isinstance(value, float):
            raise self.fail("a float immediate in an integer operand")
        return self.constant(value, fmt)

    def target(self, op: Operand, fmt: Format) -> str:
        """Return the view of a register in a format of its own width."""
        if not isinstance(op, Reg):
            raise self.fail(f"{op!r} is not a register")
        self.views.add(fmt.name)
        return f"{fmt.name}[{op.slot}]"

    def _mask(self, fmt: Format) -> str:
        return "f.mask_of_pairs" if fmt.elements == 2 else "m"

    def write(self, op: Operand, fmt: Format, expr: str) -> None:
        """Assign an expression to a destination register as `fmt`; None is the sink."""
        if op is None:
            self.line(expr)
            return
        if not isinstance(op, Reg):
            raise self.fail(f"{op!r} cannot be written")
        if fmt.bits != op.width:  # loads and conversions may write a wider register: extended by the source's sign
            if op.width < fmt.bits:
                raise self.fail(f"{fmt.bits} bits do not fit register {op.name}")
            fmt = (SIGNED if fmt.is_signed else UNSIGNED)[op.width]
        to = self.target(op, fmt)
        if not self.masked:
            self.line(f"{to}[...] = {expr}")
        elif fmt.bits == 128:
            self.line(f"{to}[m] = ({expr})[m]")
        else:
            self.line(f"copyto({to}, {expr}, where={self._mask(fmt)}, casting='unsafe')")

    def ufunc(self, op: Operand, fmt: Format, name: str, *args: str) -> None:
        """Emit dst = name(args) for a numpy ufunc, in place if all lanes are active."""
        if op is None:
            return
        to = self.target(op, fmt)
        call = f"{name}({', '.join(args)}"
        if self.masked:
            self.line(f"copyto({to}, {call}), where={self._mask(fmt)})")
        else:
            self.line(f"{call}, {to})")

    def address(self, op: Operand) -> tuple[str, int]:
        """Return (array expression, byte offset) of a memory operand."""
        if not isinstance(op, Mem):
            raise self.fail(f"{op!r} is not a memory operand")
        base = op.base
        if isinstance(base, Reg):
            return self.read(base, UNSIGNED[base.width]), op.offset
        if isinstance(base, Imm):
            return self.constant(int(base.value) + op.offset, U64), 0
        return self.read(base, U64), op.offset

    def address_tuple(self, op: Operand) -> str:
        """Return a memory operand as the expression (lanes' base addresses, byte offset)."""
        expr, offset = self.address(op)
        return f"({expr}, {offset})"

    def number(self, op: Operand, what: str) -> int:
        """Return the value of an integer constant operand."""
        if not isinstance(op, Imm) or not isinstance(op.value, int):
            raise self.fail(f"{what} that is not a constant")
        return op.value

    def reads(self, ops: tuple[Operand, ...], fmt: Format) -> str:
        """Return a tuple expression of several source operands."""
        return f"({''.join(self.read(x, fmt) + ', ' for x in ops)})"

    def mods(self, ins: Instruction, allowed: set[str], types: int = 1, skip: int = 1) -> tuple[set[str], list[str]]:
        """Return an opcode's modifiers and types; anything not allowed is an unknown opcode."""
        present: set[str] = set()
        kinds = []
        for part in ins.parts[skip:]:
            if part in TYPES:
                kinds.append(part)
            elif part in allowed:
                present.add(part)
            else:
                raise self.unknown(f".{part}")
        if len(kinds) != types:
            raise self.unknown(f"{len(kinds)} types where {types} are expected")
        return present, kinds


@lru_cache(maxsize=4096)
def instruction_class(parts: tuple[str, ...]) -> str:
    """Return an instruction's class for counts: opcode, and state space of memory accesses."""
    base = parts[0]
    if base in ("tcgen05", "wgmma"):
        return ".".join(parts[:2])
    if base in ("ld", "st", "atom", "red", "ldmatrix", "stmatrix", "prefetch"):
        spaces = (p.split("::")[0] for p in parts)
        space = next((p for p in spaces if p in ("global", "shared", "local", "param", "const")), "generic")
        return f"{base}.{space}"
    if base == "cp":
        return ".".join(p.split("::")[0] for p in parts[:3])
    return ".".join(parts[:2]) if base in ("mbarrier", "fence", "bar", "barrier") else base
