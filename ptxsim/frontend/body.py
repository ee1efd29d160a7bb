"""Reader of a kernel's body: scopes, registers, labels, line information, instructions and their operands."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from .scanner import Scanner
from .syntax import WIDTHS, Imm, Instruction, Kernel, Mem, Operand, Pair, PtxError, Reg, Special, Sym, Vec

_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_AFTER_OPCODE = re.compile(r"[ {[]")  # nvcc prints some operands without a space before them
_REGISTERS = re.compile(r"\.reg\s+(?:\.v([24])\s+)?\.(\w+)\s+(.*)", re.S)
_RANGE = re.compile(r"([%\w$]+)<(\d+)>$")
_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)U?$")
_OCTAL = re.compile(r"-?0\d+$")
_FLOAT = re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?$")
_EXACT = re.compile(r"0([fF][0-9a-fA-F]{8}|[dD][0-9a-fA-F]{16})$")
_BRACKET = re.compile(r"[\[\](){}]")
_SUM = re.compile(r"(.+?)\s*([+-])\s*(-?(?:0x)?[0-9a-fA-F]+)$")
_SYMBOL = re.compile(r"([A-Za-z_$][\w$]*)(?:\s*\+\s*(\d+))?$")
_SPACES = (".shared", ".local", ".global", ".const")


@dataclass(slots=True, eq=False)
class _Scope:
    """The names of one pair of braces: registers, register ranges with widths, labels."""

    parent: _Scope | None
    registers: dict[str, Reg] = field(default_factory=dict)
    ranges: dict[str, int] = field(default_factory=dict)
    vectors: dict[str, Vec] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    operands: dict[str, Operand] = field(default_factory=dict)  # parsed operands by text


@dataclass(slots=True, eq=False)
class _Jump:
    """A branch, resolved once all labels are known."""

    instruction: Instruction
    label: str
    scope: _Scope


class Body:
    """Reads one kernel body; scopes nest, registers and labels are resolved through them."""

    def __init__(self, scanner: Scanner, kernel: Kernel) -> None:
        self.scanner, self.kernel = scanner, kernel
        self.outermost = self.scope = _Scope(None)
        self.counts = {w: 0 for w in (1, 16, 32, 64, 128)}  # registers by width
        self.source: str | None = None
        self.jumps: list[_Jump] = []
        self.parts: dict[str, tuple[str, ...]] = {}  # of opcodes

    def read(self) -> None:
        """Read from the opening brace to past the closing one."""
        while self._read_item():
            pass
        for jump in self.jumps:
            self._resolve(jump)
        self.kernel.registers = dict(self.counts)

    def _read_item(self) -> bool:
        """Read one brace, label, directive or instruction; False after the last brace."""
        scanner = self.scanner
        if not scanner.skip_space():
            raise scanner.fail("the text ends before the kernel's last brace")
        rest = scanner.ahead(8)
        if rest[0] == ".":
            self._directive(rest)
        elif rest[0] == "{":
            self.scope = _Scope(self.scope)
            scanner.advance(1)
        elif rest[0] == "}":
            self.scope = self.scope.parent or self.outermost
            scanner.advance(1)
            return self.scope is not self.outermost
        elif rest[0] != "@" and (m := _LABEL.match(scanner.text, scanner.pos)):
            self.scope.labels[m[1]] = len(self.kernel.instructions)
            scanner.advance(m.end() - scanner.pos)
        else:
            line = scanner.line
            self._instruction(" ".join(scanner.statement().split()), line)
        return True

    def _directive(self, rest: str) -> None:
        scanner = self.scanner
        if rest.startswith(".loc") and rest[4:5].isspace():
            _, file, number, *_ = [*scanner.rest_of_line().replace(",", " ").split(), "", ""]
            if not (file.isdigit() and number.isdigit()):
                raise scanner.fail("a .loc without a file and a line")
            self.source = f"{scanner.files.get(int(file), file)}:{number}"
        elif rest.startswith(".reg"):
            self._declare(scanner.statement())
        elif rest.startswith(".pragma"):
            scanner.statement()
        elif rest.startswith(_SPACES):
            variable = scanner.variable(scanner.statement())
            self.kernel.variables[variable.name] = variable
        else:
            raise scanner.fail(f"unknown directive «{scanner.ahead(40).split(chr(10))[0]}»")

    def _resolve(self, jump: _Jump) -> None:
        scope: _Scope | None = jump.scope
        while scope is not None and jump.label not in scope.labels:
            scope = scope.parent
        if scope is None:
            self.scanner.line = jump.instruction.line
            raise self.scanner.fail(f"branch to the unknown label {jump.label}")
        jump.instruction.target = scope.labels[jump.label]

    def _declare(self, statement: str) -> None:
        m = _REGISTERS.match(statement)
        if m is None or m[2] not in WIDTHS:
            raise self.scanner.fail(f"unknown register type .{m[2] if m else ''}")
        width = 1 if m[2] == "pred" else max(WIDTHS[m[2]], 16)
        self.scope.operands.clear()  # a name may now mean another register
        for name in (x.strip() for x in m[3].split(",")):
            range_match = _RANGE.match(name)
            if m[1]:
                numbered = [f"{range_match[1]}{n}" for n in range(int(range_match[2]))] if range_match else [name]
                for vector in numbered:
                    self._declare_vector(vector, "xyzw"[: int(m[1])], width)
            elif range_match:
                self.scope.ranges[range_match[1]] = width
            else:
                self.scope.registers[name] = self._new(width, name)

    def _declare_vector(self, name: str, names: str, width: int) -> None:
        """Declare a vector register and its elements, which have two names each (PTX ISA 6.4.2)."""
        elements = [self._new(width, f"{name}.{element_name}") for element_name in names]
        self.scope.vectors[name] = Vec(tuple(elements))
        for element_name, colour, element in zip(names, "rgba", elements, strict=False):
            self.scope.registers[f"{name}.{element_name}"] = self.scope.registers[f"{name}.{colour}"] = element

    def _new(self, width: int, name: str) -> Reg:
        self.counts[width] += 1
        return Reg(self.counts[width] - 1, width, name)

    def _lookup(self, name: str) -> Reg | None:
        """Return a name's register, of the innermost scope, of a range created now."""
        if name in self.scope.registers:
            return self.scope.registers[name]
        prefix = name.rstrip("0123456789")
        scope: _Scope | None = self.scope
        while scope is not None:
            if name in scope.registers:
                return scope.registers[name]
            if prefix in scope.ranges and prefix != name:
                reg = scope.registers[name] = self._new(scope.ranges[prefix], name)
                return reg
            scope = scope.parent
        return None

    def _vector(self, name: str) -> Vec | None:
        """Return the vector register of a name, from the innermost scope that declares it."""
        scope: _Scope | None = self.scope
        while scope is not None and name not in scope.vectors:
            scope = scope.parent
        return None if scope is None else scope.vectors[name]

    def _instruction(self, text: str, line: int) -> None:
        rest, guard = text, None
        if rest.startswith("@"):
            name, _, rest = rest[1:].partition(" ")
            reg = self._lookup(name.lstrip("!"))
            if reg is None or not rest:
                raise self.scanner.fail(f"unknown guard in «{text[:60]}»")
            guard = Reg(reg.slot, 1, reg.name, name.startswith("!"))
        op = _AFTER_OPCODE.split(rest, maxsplit=1)[0]
        args = rest[len(op) :].lstrip()
        parts = self.parts.get(op)
        if parts is None:
            parts = self.parts[op] = tuple(op.split("."))
        ins = Instruction(op, parts, (), guard, line, self.source, text)
        if ins.base == "bra":
            self.jumps.append(_Jump(ins, args.strip(), self.scope))
        else:
            ins.operands = tuple(self._operand(a) for a in _split(args))
        self.kernel.instructions.append(ins)

    def _operand(self, a: str) -> Operand:
        """Parse an operand; repeated texts within a scope are parsed once."""
        known = self.scope.operands
        if a not in known:
            known[a] = self._read_operand(a)
        return known[a]

    def _read_operand(self, a: str) -> Operand:
        if a.startswith("%") and (register := self._lookup(a)) is not None:  # the most frequent case
            return register
        if a.startswith("["):
            return self._memory(a)
        if a.startswith("{"):
            return Vec(tuple(self._operand(x) for x in _split(a[1:-1])))
        if a == "_":
            return None
        if a.startswith("!"):
            reg = self._operand(a[1:])
            if not isinstance(reg, Reg):
                raise self._unreadable(a)
            return Reg(reg.slot, reg.width, reg.name, True)
        if "|" in a:
            first, _, second = a.partition("|")
            return Pair(self._operand(first.strip()), self._operand(second.strip()))
        if (number := _immediate(a)) is not None:
            return number
        if (register := self._lookup(a)) is not None:
            return register
        if (vector := self._vector(a)) is not None:
            return vector
        if a.startswith("%"):
            return Special(a)
        if m := _SYMBOL.match(a):
            return Sym(m[1], int(m[2] or 0))
        raise self._unreadable(a)

    def _unreadable(self, a: str) -> PtxError:
        return self.scanner.fail(f"cannot read the operand «{a}»")

    def _memory(self, a: str) -> Mem:
        base, *coords = _split(a[1:-1]) or [""]
        offset = 0
        if m := _SUM.match(base):
            base, offset = m[1], int(m[3], 0) * (-1 if m[2] == "-" else 1)
        return Mem(self._operand(base), offset, tuple(self._operand(x) for x in coords))


def _immediate(a: str) -> Imm | None:
    """Parse a number; return None for anything else."""
    if _NUMBER.match(a):
        return Imm(int(a, 8) if _OCTAL.match(a) else int(a.rstrip("U"), 0))
    if _EXACT.match(a):
        bits = int(a[2:], 16)
        as_float, as_bits = ("<f", "<I") if a[1] in "fF" else ("<d", "<Q")
        return Imm(struct.unpack(as_float, struct.pack(as_bits, bits))[0], bits)
    return Imm(float(a)) if _FLOAT.match(a) else None


def _split(args: str) -> list[str]:
    """Split operands at the commas outside brackets."""
    if not _BRACKET.search(args):
        parts = [part.strip() for part in args.split(",")]
        return parts if parts[-1] else parts[:-1]
    out, depth, start = [], 0, 0
    for i, c in enumerate(args):
        if c in "[{(":
            depth += 1
        elif c in "]})":
            depth -= 1
        elif c == "," and depth == 0:
            out.append(args[start:i].strip())
            start = i + 1
    tail = args[start:].strip()
    return [*out, tail] if tail else out
