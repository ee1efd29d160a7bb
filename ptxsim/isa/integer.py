"""Integer, bit and logic instructions (PTX ISA 9.7.1, 9.7.2 and 9.7.8)."""

import numpy as np

from ..core.warp import Fragment
from ..frontend.formats import PRED, S64, TYPES, U32, U64, Format
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Imm, Instruction, Operand
from . import bits

for _fn in (
    bits.bfe,
    bits.bfi,
    bits.bfind,
    bits.brev,
    bits.dot_bytes,
    bits.funnel,
    bits.lop3,
    bits.mulhi64,
    bits.popc,
    bits.prmt,
    bits.remainder,
):
    runtime(_fn)

INTEGERS = {"u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64"}


@runtime
def int_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return bits.divide(a, b)


def integer_operation(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"lo", "hi", "wide", "sat", "cc"})
    if "cc" in mods:
        return _carry(g, ins)
    dst, a, b = ins.operands
    fmt = TYPES[kind]
    if kind not in INTEGERS:
        raise g.unknown()
    if ins.base == "mul":
        if "wide" in mods:
            return g.write(dst, fmt.double, wide_product(g, a, b, fmt))
        if "hi" in mods:
            return g.write(dst, fmt, high_product(g, a, b, fmt))
        return g.ufunc(dst, fmt, "multiply", g.read(a, fmt), g.read(b, fmt))
    name = "add" if ins.base == "add" else "subtract"
    if "sat" in mods:
        info = "-2147483648, 2147483647"
        expr = f"{name}({g.read(a, fmt)}, {g.read(b, fmt)}, dtype='i8').clip({info})"
        return g.write(dst, fmt, expr)
    g.ufunc(dst, fmt, name, g.read(a, fmt), g.read(b, fmt))


def wide_product(g: Generator, a: Operand, b: Operand, fmt: Format) -> str:
    """Return the full product, of twice the factors' width."""
    return f"multiply({g.read(a, fmt)}, {g.read(b, fmt)}, dtype='{fmt.double.numpy}')"


def high_product(g: Generator, a: Operand, b: Operand, fmt: Format) -> str:
    """Return the upper half of the product."""
    if fmt.bits == 64:
        return f"mulhi64({g.read(a, fmt)}+0, {g.read(b, fmt)}+0, {fmt.is_signed})"
    return f"({wide_product(g, a, b, fmt)} >> {g.constant(fmt.bits, fmt.double)})"


@emits("addc", "subc")
def _carry(g: Generator, ins: Instruction) -> None:
    """Emit add.cc, addc, sub.cc, subc, with a carry flag per lane."""
    mods, (kind,) = g.mods(ins, {"cc"})
    dst, a, b = ins.operands
    fmt = TYPES[kind].unsigned
    if fmt not in (U32, U64):
        raise g.unknown()
    g.write(
        dst,
        fmt,
        f"carry_op(f, {g.read(a, fmt)}, {g.read(b, fmt)}, {ins.base.startswith('sub')}, "
        f"{ins.base.endswith('c')}, {'cc' in mods})",
    )


@runtime
def carry_op(f: Fragment, a: np.ndarray, b: np.ndarray, subtract: bool, use: bool, keep: bool) -> np.ndarray:
    flags = f.cta.carry[f.lo : f.hi]
    cin = flags.copy() if use else np.zeros(f.n, bool)
    one = a.dtype.type(1)
    if subtract:
        r = a - b - np.where(cin, one, a.dtype.type(0))
        out = (a < b) | (cin & (a == b))
    else:
        r = a + b + np.where(cin, one, a.dtype.type(0))
        out = (r < a) | (cin & (r == a))
    if keep:
        np.copyto(flags, out, where=True if f.mask is None else f.mask)
    return r


@emits("mul24", "mad24")
def _mul24(g: Generator, ins: Instruction) -> None:
    """Emit products of the low 24 bits, sign-extended for signed types."""
    mods, (kind,) = g.mods(ins, {"lo", "hi"})
    if kind not in ("u32", "s32") or len(mods) != 1:
        raise g.unknown()
    dst, a, b, *c = ins.operands
    fmt = TYPES[kind]
    wide = S64 if fmt.is_signed else U64
    x, y = (
        f"(({g.read(op, fmt)} << {g.constant(8, fmt)}) >> {g.constant(8, fmt)}).astype('{wide.numpy}')" for op in (a, b)
    )
    product = f"({x} * {y})" if "lo" in mods else f"(({x} * {y}) >> {g.constant(16, wide)})"
    g.write(dst, fmt, f"({product}.astype('{fmt.numpy}'){f' + {g.read(c[0], fmt)}' if c else ''})")


@emits("rem")
def _rem(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a, b = ins.operands
    fmt = TYPES[kind]
    g.write(dst, fmt, f"remainder({g.read(a, fmt)}, {g.read(b, fmt)})")


@emits("and", "or", "xor")
def _logic(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a, b = ins.operands
    fmt = TYPES[kind].unsigned
    name = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}[ins.base]
    g.ufunc(dst, fmt, name, g.read(a, fmt), g.read(b, fmt))


@emits("not", "cnot")
def _not(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a = ins.operands
    fmt = TYPES[kind].unsigned
    if ins.base == "cnot":
        return g.write(dst, fmt, f"equal({g.read(a, fmt)}, {g.constant(0, fmt)})")
    g.ufunc(dst, fmt, "logical_not" if fmt is PRED else "invert", g.read(a, fmt))


@emits("shl", "shr")
def _shift(g: Generator, ins: Instruction) -> None:
    """Emit a shift; amounts past the width give 0 or the sign, as in numpy."""
    _, (kind,) = g.mods(ins, set())
    dst, a, n = ins.operands
    fmt = TYPES[kind] if ins.base == "shr" else TYPES[kind].unsigned
    if isinstance(n, Imm):
        amount = g.constant(min(int(n.value) & 0xFFFFFFFF, fmt.bits), fmt)
    elif fmt.bits == 32:
        amount = g.read(n, fmt)
    elif fmt.bits == 64:
        amount = f"{g.read(n, U32)}.astype('{fmt.numpy}')"
    else:
        amount = f"minimum({g.read(n, U32)}, {g.constant(fmt.bits, U32)}).astype('{fmt.numpy}')"
    g.ufunc(dst, fmt, "left_shift" if ins.base == "shl" else "right_shift", g.read(a, fmt), amount)


@emits("shf")
def _shf(g: Generator, ins: Instruction) -> None:
    mods, _ = g.mods(ins, {"l", "r", "wrap", "clamp"})
    dst, lo, hi, n = ins.operands
    g.write(
        dst, U32, f"funnel({g.read(lo, U32)}, {g.read(hi, U32)}, {g.read(n, U32)}, {'l' in mods}, {'wrap' in mods})"
    )


@emits("prmt")
def _prmt(g: Generator, ins: Instruction) -> None:
    mods, _ = g.mods(ins, {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"})
    dst, a, b, c = ins.operands
    g.write(dst, U32, f"prmt({g.read(a, U32)}, {g.read(b, U32)}, {g.read(c, U32)}, '{next(iter(mods), '')}')")


@emits("lop3")
def _lop3(g: Generator, ins: Instruction) -> None:
    g.mods(ins, set())
    dst, a, b, c, table = ins.operands
    g.write(dst, U32, f"lop3({g.read(a, U32)}, {g.read(b, U32)}, {g.read(c, U32)}, {g.number(table, 'a truth table')})")


@emits("popc", "clz", "bfind", "brev")
def _bits(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"shiftamt"} if ins.base == "bfind" else set())
    dst, a = ins.operands
    fmt = TYPES[kind]
    if ins.base == "brev":
        return g.write(dst, fmt, f"brev({g.read(a, fmt)})")
    if ins.base == "popc":
        return g.write(dst, U32, f"popc({g.read(a, fmt)})")
    if ins.base == "clz":
        return g.write(dst, U32, f"({g.constant(fmt.bits - 1, U32)} - bfind({g.read(a, fmt)}))")
    g.write(dst, U32, f"bfind({g.read(a, fmt)}, {'shiftamt' in mods})")


@emits("bfe", "bfi")
def _field(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    fmt = TYPES[kind]
    dst, *rest = ins.operands
    words = 1 if ins.base == "bfe" else 2
    args = [g.read(x, fmt) for x in rest[:words]] + [g.read(x, U32) for x in rest[words:]]
    g.write(dst, fmt, f"{ins.base}({', '.join(args)})")


@emits("sad")
def _sad(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a, b, c = ins.operands
    fmt = TYPES[kind]
    x, y = g.read(a, fmt), g.read(b, fmt)
    g.write(dst, fmt, f"(maximum({x}, {y}) - minimum({x}, {y}) + {g.read(c, fmt)})")


@emits("dp4a", "dp2a")
def _dot(g: Generator, ins: Instruction) -> None:
    """Emit dp4a or dp2a: a sum of byte products that wraps.

    dp4a multiplies four bytes of a and b, dp2a two 16-bit halves of a with the lower or upper two bytes of b.
    Each operand is signed or unsigned.
    """
    halves = ins.base == "dp2a"
    mods, kinds = g.mods(ins, {"lo", "hi"} if halves else set(), types=2)
    if set(kinds) - {"u32", "s32"} or len(mods) != halves:
        raise g.unknown()
    dst, a, b, c = ins.operands
    signed = tuple(kind == "s32" for kind in kinds)
    skip = 2 if "hi" in mods else 0
    words = ", ".join(g.read(x, U32) for x in (a, b, c))
    g.write(dst, U32, f"dot_bytes({words}, {g.bind(signed)}, {2 if halves else 4}, {skip})")
