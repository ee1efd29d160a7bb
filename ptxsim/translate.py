"""From PTX instructions to Python: each basic block becomes one function over numpy views of its registers.

A block function takes a fragment (see warp.py) and returns the index of the block to run next, or -1 when its
lanes have exited. Two versions exist, one for all lanes of the fragment's range active and one with a mask;
each is compiled when first run. The emitters of the single opcodes register themselves with `emits`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .parser import Module
from .syntax import Imm, Instruction, Kernel, Mem, PtxError, Reg, Special, Sym

_REGISTER = re.compile(r"\b(p|u2|i2|f2|u4|i4|f4|h4|w4|u8|i8|f8|s8|w8)\[(\d+)\]")
EMITTERS: dict[str, Callable] = {}
RUNTIME: dict[str, object] = {}
BOUNDARY: set[str] = set()

KIND_DTYPE = {
    "p": np.bool_,
    "u1": np.uint8,
    "i1": np.int8,
    "u2": np.uint16,
    "i2": np.int16,
    "f2": np.float16,
    "u4": np.uint32,
    "i4": np.int32,
    "f4": np.float32,
    "h4": np.float16,
    "u8": np.uint64,
    "i8": np.int64,
    "f8": np.float64,
    "s8": np.float32,
    "w8": np.uint16,
    "w4": np.uint16,
}
TYPE_KIND = {
    "pred": "p",
    "b8": "u1",
    "u8": "u1",
    "s8": "i1",
    "b16": "u2",
    "u16": "u2",
    "s16": "i2",
    "f16": "f2",
    "bf16": "u2",
    "b32": "u4",
    "u32": "u4",
    "s32": "i4",
    "f32": "f4",
    "f16x2": "h4",
    "bf16x2": "w4",
    "b64": "u8",
    "u64": "u8",
    "s64": "i8",
    "f64": "f8",
    "f32x2": "s8",
    "tf32": "u4",
    "b128": "q",
}
UNSIGNED = {1: "p", 8: "u1", 16: "u2", 32: "u4", 64: "u8", 128: "q"}


def emits(*names: str, boundary: bool = False) -> Callable:
    """Register an emitter for opcodes; `boundary` makes each of them start a block of its own."""

    def register(fn: Callable) -> Callable:
        for name in names:
            EMITTERS[name] = fn
            if boundary:
                BOUNDARY.add(name)
        return fn

    return register


def runtime(fn: Callable) -> Callable:
    """Make a function callable by name from generated code."""
    RUNTIME[fn.__name__] = fn
    return fn


for _name in (
    "add",
    "subtract",
    "multiply",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "negative",
    "left_shift",
    "right_shift",
    "minimum",
    "maximum",
    "copyto",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "equal",
    "not_equal",
    "logical_not",
    "logical_and",
    "logical_or",
    "logical_xor",
    "absolute",
    "where",
    "exp2",
    "log2",
    "sqrt",
    "divide",
    "reciprocal",
    "full",
    "sin",
    "cos",
    "tanh",
    "isnan",
    "fmax",
    "fmin",
    "copysign",
):
    RUNTIME[_name] = getattr(np, _name)


@dataclass(slots=True)
class Block:
    """Instructions first..last-1, with the next block on fall-through and what is executed, by class."""

    first: int
    last: int
    index: int
    next: int
    counts: dict[str, int] = field(default_factory=dict)
    full: Callable | None = None
    masked: Callable | None = None
    collective: bool = False


class Program:
    """A kernel made ready to run: its basic blocks and the constants their code uses."""

    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.module, self.kernel = module, kernel
        self.instructions = _unguarded(kernel.instructions)
        self.namespace: dict[str, object] = dict(RUNTIME)
        self.constants: dict[tuple, str] = {}
        self.blocks = self._split()
        self.block_of = {b.first: b.index for b in self.blocks}
        self.pending = self._pending()
        self.watched = {o for uses in self.pending.values() for use in uses for o in use.origins}
        for block in self.blocks:
            Generator(self, block, True).source()

    def _pending(self) -> dict[int, list]:
        from .pending import touches

        return touches(self)

    def fail(self, ins: Instruction, what: str) -> PtxError:
        return PtxError(f"{self.module.path}:{ins.line}: kernel {self.kernel.name[:80]}: {what}: «{ins.text[:160]}»")

    def _split(self) -> list[Block]:
        code = self.instructions
        leaders = {0}
        for i, ins in enumerate(code):
            if ins.base in ("bra", "ret", "exit", "trap"):
                leaders.add(i + 1)
                if ins.base == "bra":
                    leaders.add(ins.target)
            elif _key(ins) in BOUNDARY:
                leaders.add(i)
                leaders.add(i + 1)
        starts = sorted(x for x in leaders if x < len(code))
        blocks = [Block(a, b, n, n + 1) for n, (a, b) in enumerate(zip(starts, [*starts[1:], len(code)], strict=False))]
        if any(ins.base == "bra" and ins.target >= len(code) for ins in code):
            raise self.fail(code[-1], "a branch past the end of the kernel")
        return blocks

    def compile(self, block: Block, masked: bool) -> Callable:
        """The function of a block; `masked` selects the version for a partly active range."""
        generator = Generator(self, block, masked)
        name = f"b{block.index}{'m' if masked else ''}"
        code = compile(generator.source(name), f"<ptx {self.kernel.name[:40]}>", "exec")
        exec(code, self.namespace)
        fn = self.namespace[name]
        if masked:
            block.masked = fn
        else:
            block.full = fn
        return fn


def _key(ins: Instruction) -> str:
    """The name an instruction's emitter is registered under: the longest registered prefix of its parts."""
    for n in range(min(len(ins.parts), 5), 0, -1):
        name = ".".join(ins.parts[:n])
        if name in EMITTERS:
            return name
    return ins.parts[0]


def _unguarded(code: list[Instruction]) -> list[Instruction]:
    """Guards on anything but a branch become a branch around the instruction, so that blocks need none."""
    if not any(i.guard is not None and i.base != "bra" for i in code):
        return code
    out, moved = [], {}
    for n, ins in enumerate(code):
        moved[n] = len(out)
        if ins.guard is not None and ins.base != "bra":
            g = ins.guard
            skip = Instruction(
                "bra", ("bra",), (), Reg(g.slot, 1, g.name, not g.negated), ins.line, ins.source, ins.text
            )
            skip.target = -2
            out += [skip, Instruction(ins.op, ins.parts, ins.operands, None, ins.line, ins.source, ins.text)]
        else:
            out.append(ins)
    moved[len(code)] = len(out)
    result = []
    for n, ins in enumerate(out):
        if ins.base == "bra":
            target = n + 2 if ins.target == -2 else moved[ins.target]
            ins = Instruction(ins.op, ins.parts, (), ins.guard, ins.line, ins.source, ins.text, target)
        result.append(ins)
    return result


class Generator:
    """Writes the source of one block. Emitters call `read`, `write`, `ufunc`, `line` and `end`."""

    def __init__(self, program: Program, block: Block, masked: bool) -> None:
        self.program, self.block, self.masked = program, block, masked
        self.lines: list[str] = []
        self.kinds: set[str] = set()
        self.ins: Instruction | None = None
        self.at = 0
        self.ended = False
        self.temps = 0

    def source(self, name: str = "b") -> str:
        block = self.block
        block.counts = {}
        for self.at in range(block.first, block.last):
            self.ins = ins = self.program.instructions[self.at]
            key = _key(ins)
            emitter = EMITTERS.get(key)
            if emitter is None:
                raise self.program.fail(ins, f"unknown opcode {ins.op}")
            block.counts[_class(ins)] = block.counts.get(_class(ins), 0) + 1
            if self.at in self.program.pending:
                self.line(f"touch(f, {self.at})")
            emitter(self, ins)
        if not self.ended:
            self.line(f"return {block.next if block.next < len(self.program.blocks) else -1}")
        head = [f"def {name}(f):"]
        if self.masked:
            head.append(" m = f.mask")
        if self.kinds:
            head.append(" v = f.v")
        head += [f" {k} = v.{k}" for k in sorted(self.kinds)]
        uses = Counter(x for line in self.lines for x in _REGISTER.findall(line))
        often = {x for x, n in uses.items() if n > 1}  # looked up once, not at every use
        head += [f" {kind}_{slot} = {kind}[{slot}]" for kind, slot in sorted(often)]

        def short(found: re.Match) -> str:
            return f"{found[1]}_{found[2]}" if found.groups() in often else found[0]

        return "\n".join(head + [" " + _REGISTER.sub(short, x) for x in self.lines])

    # what emitters use
    def line(self, text: str) -> None:
        self.lines.append(text)

    def end(self, text: str) -> None:
        self.lines.append(text)
        self.ended = True

    def fail(self, what: str) -> PtxError:
        return self.program.fail(self.ins, what)

    def temp(self) -> str:
        self.temps += 1
        return f"t{self.temps}"

    def constant(self, value, kind: str) -> str:
        """The name of a 0-d array that holds `value` as `kind`."""
        dtype = np.dtype(KIND_DTYPE[kind])
        key = (repr(value), kind)
        if key not in self.program.constants:
            name = f"K{len(self.program.constants)}"
            if dtype.kind in "ui" and not isinstance(value, np.ndarray):
                bits = dtype.itemsize * 8
                value = int(value) & ((1 << bits) - 1)
                array = np.array(value, f"u{bits // 8}").view(dtype)
            else:
                array = np.array(value, dtype)
            self.program.constants[key] = name
            self.program.namespace[name] = array
        return self.program.constants[key]

    def read(self, op, kind: str) -> str:
        """An expression for a source operand as an array of `kind` (0-d for what all lanes share)."""
        if isinstance(op, Reg):
            width = {"p": 1, "u1": 16, "i1": 16}.get(kind) or np.dtype(KIND_DTYPE[kind]).itemsize * 8
            width = {"h4": 32, "w4": 32, "s8": 64, "w8": 64}.get(kind, width)
            if op.width != width:
                if op.width > width and kind[0] in "ui":
                    return f"{self._view(UNSIGNED[op.width])}[{op.slot}].astype('{kind}')"
                if op.width < width and kind[0] in "ui" and op.width > 1:
                    source = ("i" if kind[0] == "i" else "u") + UNSIGNED[op.width][1]
                    return f"{self._view(source)}[{op.slot}].astype('{kind}')"
                raise self.fail(f"register {op.name} of {op.width} bits used as {kind}")
            if kind in ("u1", "i1"):
                return f"{self._view('u2')}[{op.slot}].astype('u1').view('{kind}')"
            expr = f"{self._view(kind)}[{op.slot}]"
            return f"logical_not({expr})" if op.negated else expr
        if isinstance(op, Imm):
            return self._immediate(op, kind)
        if isinstance(op, Special):
            expr = f"f.special({op.name!r})"
            return (
                expr
                if kind == "u4"
                else f"{expr}.astype('{kind}')"
                if kind in ("u8", "i8", "u2")
                else f"{expr}.view('{kind}')"
            )
        if isinstance(op, Sym):
            return f"f.symbol({op.name!r}, {op.offset}, '{kind}')"
        raise self.fail(f"operand {op!r} is not understood here")

    def _immediate(self, op: Imm, kind: str) -> str:
        if kind == "p":
            return self.constant(bool(op.value), "p")
        if kind in ("h4", "w4", "s8"):
            whole = "u4" if kind != "s8" else "u8"
            k = self.constant(op.bits if op.bits is not None else op.value, whole)
            return f"full(f.n, {k}).view('{np.dtype(KIND_DTYPE[kind]).str}')"
        if kind[0] == "f":
            if op.bits is None and isinstance(op.value, int):
                width = int(kind[1])
                bits = np.array(op.value & ((1 << 8 * width) - 1), f"u{width}")
                return self.constant(bits.view(KIND_DTYPE[kind]), kind)
            return self.constant(np.asarray(op.value, KIND_DTYPE[kind]), kind)
        value = op.bits if op.bits is not None else op.value
        if isinstance(value, float):
            raise self.fail("a float immediate in an integer operand")
        return self.constant(value, kind)

    def _view(self, kind: str) -> str:
        self.kinds.add(kind)
        return kind

    def target(self, op: Reg, kind: str) -> str:
        return f"{self._view(kind)}[{op.slot}]"

    def mask_for(self, kind: str) -> str:
        return {"h4": "f.m2", "w4": "f.m2", "s8": "f.m2", "w8": "f.m4"}.get(kind, "m")

    def write(self, op, kind: str, expr: str) -> None:
        """Assign an expression to a destination register as `kind`; None is the sink."""
        if op is None:
            self.line(expr)
            return
        if not isinstance(op, Reg):
            raise self.fail(f"{op!r} cannot be written")
        width = {"p": 1, "h4": 32, "w4": 32, "s8": 64, "q": 128}.get(kind) or np.dtype(KIND_DTYPE[kind]).itemsize * 8
        if width != op.width:  # loads and conversions may write a wider register: extended by the source's sign
            if op.width < width:
                raise self.fail(f"{width} bits do not fit register {op.name}")
            kind = kind[0].replace("f", "u") + UNSIGNED[op.width][1]
        to = self.target(op, kind)
        if kind == "q":
            self.line(f"{to}[...] = {expr}" if not self.masked else f"{to}[m] = ({expr})[m]")
        elif self.masked:
            self.line(f"copyto({to}, {expr}, where={self.mask_for(kind)}, casting='unsafe')")
        else:
            self.line(f"{to}[...] = {expr}")

    def ufunc(self, op: Reg, kind: str, name: str, *args: str) -> None:
        """dst = name(args) for a numpy ufunc, written in place where every lane is active."""
        if op is None:
            return
        to = self.target(op, kind)
        call = f"{name}({', '.join(args)}"
        if self.masked:
            self.line(f"copyto({to}, {call}), where={self.mask_for(kind)})")
        else:
            self.line(f"{call}, {to})")

    def address(self, mem: Mem, kind: str | None = None) -> tuple[str, int]:
        """(array expression, byte offset) of a memory operand."""
        base = mem.base
        if isinstance(base, Reg):
            return self.read(base, UNSIGNED[base.width]), mem.offset
        if isinstance(base, Imm):
            return self.constant(base.value + mem.offset, "u8"), 0
        return self.read(base, "u8"), mem.offset

    def mods(self, ins: Instruction, allowed: set[str], types: int = 1, skip: int = 1) -> tuple[set[str], list[str]]:
        """The modifiers and types of an opcode; anything not allowed is an unknown opcode."""
        found, kinds = set(), []
        for part in ins.parts[skip:]:
            if part in TYPE_KIND:
                kinds.append(part)
            elif part in allowed:
                found.add(part)
            else:
                raise self.fail(f"unknown opcode {ins.op} (.{part})")
        if len(kinds) != types:
            raise self.fail(f"unknown opcode {ins.op} ({len(kinds)} types where {types} are expected)")
        return found, kinds


def _class(ins: Instruction) -> str:
    """The instruction class counted: tensor core, asynchronous copy, memory, control or arithmetic."""
    base = ins.base
    if base in ("tcgen05", "wgmma"):
        return ".".join(ins.parts[:2])
    if base in ("ld", "st", "atom", "red", "ldmatrix", "stmatrix", "prefetch"):
        space = next(
            (p for p in ins.parts if p.split("::")[0] in ("global", "shared", "local", "param", "const")), "generic"
        )
        return f"{base}.{space.split('::')[0]}"
    if base in ("cp", "mbarrier", "fence", "bar", "barrier"):
        return ".".join(p.split("::")[0] for p in ins.parts[:3]) if base == "cp" else ".".join(ins.parts[:2])
    return base
