"""Reader of PTX text: scopes, registers, labels, directives, line information (PTX ISA, chapters 4 to 7)."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from .syntax import WIDTHS, Imm, Instruction, Kernel, Mem, Pair, Param, PtxError, Reg, Special, Sym, Variable, Vec


@dataclass(slots=True)
class Module:
    """A parsed PTX module."""

    version: str
    target: str
    kernels: dict[str, Kernel]
    variables: dict[str, Variable]
    path: str = "<text>"

    @classmethod
    def from_file(cls, path: str | Path) -> Module:
        """Parse a PTX file. Raises PtxError naming the line that cannot be read."""
        return cls.from_text(Path(path).read_text(), str(path))

    @classmethod
    def from_text(cls, text: str, path: str = "<text>") -> Module:
        return _Reader(text, path).module()


_SPACE = re.compile(r"\s+")


_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")


_REGDECL = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.S)


_RANGE = re.compile(r"([%\w$]+)<(\d+)>$")


_VARDECL = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(shared|global|const|local)\s+(?:\.attribute\([^)]*\)\s+)?(?:\.align\s+(\d+)\s+)?"
    r"\.(\w+)\s+([\w$%]+)\s*(?:\[(\d*)\])?\s*(?:=\s*(.*))?$",
    re.S,
)


_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)(?:\s+\.ptr(?:\s+\.\w+)?(?:\s+\.align\s+\d+)?)?\s+"
    r"([\w$%]+)\s*(?:\[(\d+)\])?"
)


_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)U?$")


_FLOAT = re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?$")


def _comments_out(text: str) -> str:
    """The text without comments, newlines kept so that line numbers hold."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


class _Scope:
    def __init__(self, parent: _Scope | None) -> None:
        self.parent, self.regs, self.ranges, self.labels = parent, {}, {}, {}


class _Reader:
    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = _comments_out(text), path
        self.files: dict[int, str] = {
            int(n): f for n, f in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', self.text, re.M)
        }
        self.pos, self.line, self.kernel = 0, 1, "module"

    def fail(self, what: str) -> PtxError:
        return PtxError(f"{self.path}:{self.line}: in {self.kernel[:60]}: {what}")

    def module(self) -> Module:
        out = Module("", "", {}, {}, self.path)
        while self._skip():
            rest = self.text[self.pos : self.pos + 400]
            if m := re.match(r"\.(version|target|address_size)\s+([^\n]+)", rest):
                if m[1] in ("version", "target"):
                    setattr(out, m[1], m[2].strip())
                self._advance(m.end())
            elif m := re.match(r"\.file[^\n]*", rest):
                self._advance(len(self.text[self.pos :].split("\n", 1)[0]))
            elif rest.startswith(
                (".section", ".nv_intermediate_source_section")
            ):  # debug information, after all code; cuTile's holds its source text
                if ".entry" not in self.text[self.pos :]:
                    break
                self._advance(self.text.index("}", self.pos) + 1 - self.pos)
            elif m := re.match(r"(?:\.(?:visible|weak|extern)\s+)*\.entry\s+", rest):
                self._advance(m.end())
                kernel = self._entry(out.variables)
                out.kernels[kernel.name] = kernel
            elif re.match(r"(?:\.(?:visible|weak|extern)\s+)*\.func\b", rest):
                self._function()
            elif m := re.match(r"\.alias|\.pragma", rest):
                self._statement()
            else:
                statement = self._statement()
                var = self._variable(statement)
                out.variables[var.name] = var
        return out

    def _skip(self) -> bool:
        m = _SPACE.match(self.text, self.pos)
        if m:
            self._advance(m.end() - self.pos)
        return self.pos < len(self.text)

    def _advance(self, n: int) -> None:
        self.line += self.text.count("\n", self.pos, self.pos + n)
        self.pos += n

    def _statement(self) -> str:
        end = self.text.find(";", self.pos)
        if end < 0:
            raise self.fail("a statement without its semicolon")
        statement = self.text[self.pos : end].strip()
        self._advance(end + 1 - self.pos)
        return statement

    def _variable(self, statement: str) -> Variable:
        m = _VARDECL.match(statement)
        if not m or m[3] not in WIDTHS:
            raise self.fail(f"cannot read the declaration «{statement[:80]}»")
        size = WIDTHS[m[3]] // 8
        count = 1 if m[5] is None else int(m[5] or 0)
        init = None
        if m[6]:
            values = [int(v.strip(), 0) for v in m[6].strip().strip("{}").split(",")]
            init = b"".join((v % (1 << 8 * size)).to_bytes(size, "little") for v in values).ljust(count * size, b"\0")
        return Variable(m[4], m[1], int(m[2] or size), size * count, init)

    def _function(self) -> None:
        """A prototype is passed over; a body would need calls, which the kernels of this repository do not have."""
        semi, brace = self.text.find(";", self.pos), self.text.find("{", self.pos)
        if 0 <= brace < semi:
            raise self.fail("device functions with a body are not simulated")
        self._statement()

    def _entry(self, shared: dict[str, Variable]) -> Kernel:
        start = self.line
        m = re.compile(r"([\w$]+)\s*(\((.*?)\))?", re.S).match(self.text, self.pos)
        self.kernel = m[1]
        params, offset = [], 0
        for p in _PARAM.finditer(m[3] or ""):
            size = WIDTHS[p[2]] // 8 * int(p[4] or 1)
            align = int(p[1] or WIDTHS[p[2]] // 8)
            offset = -(-offset // align) * align
            params.append(Param(p[3], offset, size))
            offset += size
        self._advance(m.end() - self.pos)
        brace = self.text.index("{", self.pos)
        directives = {}
        for d in re.finditer(r"\.(\w+)\s*([\d, ]*)", self.text[self.pos : brace]):
            directives[d[1]] = tuple(int(v) for v in d[2].split(",") if v.strip())
        kernel = Kernel(m[1], params, directives, line=start)
        self._advance(brace - self.pos)
        _Body(self, kernel).read()
        self.kernel = "module"
        return kernel


class _Body:
    """Reads one kernel body; scopes nest, registers and labels are resolved through them."""

    def __init__(self, reader: _Reader, kernel: Kernel) -> None:
        self.r, self.k, self.scope = reader, kernel, None
        self.counts = {w: 0 for w in (1, 16, 32, 64, 128)}
        self.source: str | None = None
        self.fixups: list[tuple[Instruction, str, _Scope]] = []

    def read(self) -> None:
        r, text = self.r, self.r.text
        while r._skip():
            c = text[r.pos]
            if c == "{":
                self.scope = _Scope(self.scope)
                r._advance(1)
            elif c == "}":
                self.scope = self.scope.parent
                r._advance(1)
                if self.scope is None:
                    break
            elif re.match(r"\.loc\s", text[r.pos : r.pos + 5]):
                line = text[r.pos : text.index("\n", r.pos)]
                _, f, n, *_ = line.replace(",", " ").split()
                self.source = f"{r.files.get(int(f), f)}:{n}"
                r._advance(len(line))
            elif m := _LABEL.match(text, r.pos):
                self.scope.labels[m[1]] = len(self.k.instructions)
                r._advance(m.end() - r.pos)
            elif text.startswith(".reg", r.pos):
                self._registers(r._statement())
            elif text.startswith(".pragma", r.pos):
                r._statement()
            elif re.match(r"\.(shared|local|global|const)\b", text[r.pos : r.pos + 8]):
                var = r._variable(r._statement())
                self.k.variables[var.name] = var
            elif c == ".":
                raise r.fail(f"unknown directive «{text[r.pos : r.pos + 40].split(chr(10))[0]}»")
            else:
                line = r.line
                self._instruction(" ".join(r._statement().split()), line)
        for ins, label, scope in self.fixups:
            while scope is not None and label not in scope.labels:
                scope = scope.parent
            if scope is None:
                r.line = ins.line
                raise r.fail(f"branch to the unknown label {label}")
            ins.target = scope.labels[label]
        self.k.registers = dict(self.counts)

    def _registers(self, statement: str) -> None:
        m = _REGDECL.match(statement)
        if m[1] not in WIDTHS:
            raise self.r.fail(f"unknown register type .{m[1]}")
        width = max(WIDTHS[m[1]], 16) if m[1] != "pred" else 1
        for name in m[2].split(","):
            name = name.strip()
            if rng := _RANGE.match(name):
                self.scope.ranges[rng[1]] = (width, {})
            else:
                self.scope.regs[name] = self._new(width, name)

    def _new(self, width: int, name: str) -> Reg:
        self.counts[width] += 1
        return Reg(self.counts[width] - 1, width, name)

    def _lookup(self, name: str) -> Reg | None:
        scope = self.scope
        while scope is not None:
            if name in scope.regs:
                return scope.regs[name]
            prefix = name.rstrip("0123456789")
            if prefix in scope.ranges and prefix != name:
                reg = scope.regs[name] = self._new(scope.ranges[prefix][0], name)
                return reg
            scope = scope.parent
        return None

    def _instruction(self, text: str, line: int) -> None:
        r, rest, guard = self.r, text, None
        if rest.startswith("@"):
            g, rest = rest[1:].split(None, 1)
            negated = g.startswith("!")
            reg = self._lookup(g.lstrip("!"))
            if reg is None:
                raise r.fail(f"unknown guard in «{text[:60]}»")
            guard = Reg(reg.slot, 1, reg.name, negated)
        op, _, args = rest.partition(" ")
        ins = Instruction(op, tuple(op.split(".")), (), guard, line, self.source, text)
        if ins.parts[0] == "bra":
            self.fixups.append((ins, args.strip(), self.scope))
        else:
            ins.operands = tuple(self._operand(a) for a in _split(args))
        self.k.instructions.append(ins)

    def _operand(self, a: str):
        if a.startswith("["):
            inner = _split(a[1:-1])
            coords = ()
            if len(inner) > 1:
                coords = tuple(self._operand(x) for x in inner[1:])
            base, offset = inner[0], 0
            if m := re.match(r"(.+?)\s*([+-])\s*(-?(?:0x)?[0-9a-fA-F]+)$", base):
                base, offset = m[1], int(m[3], 0) * (-1 if m[2] == "-" else 1)
            return Mem(self._operand(base), offset, coords)
        if a.startswith("{"):
            return Vec(tuple(self._operand(x) for x in _split(a[1:-1])))
        if a == "_":
            return None
        if a.startswith("!"):
            reg = self._operand(a[1:])
            return Reg(reg.slot, reg.width, reg.name, True)
        if "|" in a:
            first, second = a.split("|")
            return Pair(self._operand(first.strip()), self._operand(second.strip()))
        if _NUMBER.match(a):
            return Imm(int(a.rstrip("U"), 0) if not re.match(r"-?0\d+$", a) else int(a, 8))
        if a[:2] in ("0f", "0F"):
            bits = int(a[2:], 16)
            return Imm(struct.unpack("<f", struct.pack("<I", bits))[0], bits)
        if a[:2] in ("0d", "0D"):
            bits = int(a[2:], 16)
            return Imm(struct.unpack("<d", struct.pack("<Q", bits))[0], bits)
        if _FLOAT.match(a):
            return Imm(float(a))
        if (reg := self._lookup(a)) is not None:
            return reg
        if a.startswith("%"):
            return Special(a)
        if m := re.match(r"([\w$]+)\s*\+\s*(\d+)$", a):
            return Sym(m[1], int(m[2]))
        if re.match(r"[\w$]+$", a):
            return Sym(a)
        raise self.r.fail(f"cannot read the operand «{a}»")


def _split(args: str) -> list[str]:
    """Operands split at the commas outside any bracket."""
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
