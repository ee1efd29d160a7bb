"""Emitters of integer, bit and logic instructions (PTX ISA 9.7.1, 9.7.2 and 9.7.8)."""

from __future__ import annotations

import numpy as np

from . import numeric
from .syntax import Imm, Instruction
from .translate import TYPE_KIND, Generator, emits, runtime

for _fn in (
    numeric.mulhi64,
    numeric.prmt,
    numeric.lop3,
    numeric.popc,
    numeric.bfind,
    numeric.brev,
    numeric.funnel,
    numeric.bfe,
    numeric.bfi,
    numeric.remainder,
):
    runtime(_fn)

_INT = {"u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64"}


@runtime
def int_divide(a, b):
    return numeric.divide(a, b)


def _integer(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"lo", "hi", "wide", "sat", "cc"})
    if "cc" in mods:
        return _carry(g, ins)
    dst, a, b = ins.operands
    k = TYPE_KIND[kind]
    if kind not in _INT:
        raise g.fail(f"unknown opcode {ins.op}")
    if ins.base == "mul":
        if "wide" in mods:
            w = k[0] + str(2 * int(k[1]))
            return g.write(dst, w, f"multiply({g.read(a, k)}, {g.read(b, k)}, dtype='{w}')")
        if "hi" in mods:
            return g.write(dst, k, _mulhi(g, a, b, k))
        return g.ufunc(dst, k, "multiply", g.read(a, k), g.read(b, k))
    name = "add" if ins.base == "add" else "subtract"
    if "sat" in mods:
        info = "-2147483648, 2147483647"
        expr = f"{name}({g.read(a, k)}, {g.read(b, k)}, dtype='i8').clip({info})"
        return g.write(dst, k, expr)
    g.ufunc(dst, k, name, g.read(a, k), g.read(b, k))


def _mulhi(g: Generator, a, b, k: str) -> str:
    if k[1] == "8":
        return f"mulhi64({g.read(a, k)}+0, {g.read(b, k)}+0, {k[0] == 'i'})"
    w, s = k[0] + str(2 * int(k[1])), 8 * int(k[1])
    return f"(multiply({g.read(a, k)}, {g.read(b, k)}, dtype='{w}') >> {g.constant(s, w)})"


@emits("addc", "subc")
def _carry(g: Generator, ins: Instruction) -> None:
    """add.cc, addc, sub.cc, subc: 32- and 64-bit with the carry kept per lane."""
    mods, (kind,) = g.mods(ins, {"cc"})
    dst, a, b = ins.operands
    k = "u" + TYPE_KIND[kind][1]
    if k not in ("u4", "u8"):
        raise g.fail(f"unknown opcode {ins.op}")
    g.write(
        dst,
        k,
        f"carry_op(f, {g.read(a, k)}, {g.read(b, k)}, {ins.base.startswith('sub')}, "
        f"{ins.base.endswith('c')}, {'cc' in mods})",
    )


@runtime
def carry_op(f, a, b, subtract: bool, use: bool, keep: bool):
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
    """Products of the low 24 bits, sign-extended for signed types."""
    mods, (kind,) = g.mods(ins, {"lo", "hi"})
    if kind not in ("u32", "s32") or len(mods) != 1:
        raise g.fail(f"unknown opcode {ins.op}")
    dst, a, b, *c = ins.operands
    k = TYPE_KIND[kind]
    wide = k[0] + "8"
    x, y = (f"(({g.read(op, k)} << {g.constant(8, k)}) >> {g.constant(8, k)}).astype('{wide}')" for op in (a, b))
    product = f"({x} * {y})" if "lo" in mods else f"(({x} * {y}) >> {g.constant(16, wide)})"
    g.write(dst, k, f"({product}.astype('{k}'){f' + {g.read(c[0], k)}' if c else ''})")


@emits("rem")
def _rem(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a, b = ins.operands
    k = TYPE_KIND[kind]
    g.write(dst, k, f"remainder({g.read(a, k)}, {g.read(b, k)})")


@emits("and", "or", "xor")
def _logic(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a, b = ins.operands
    k = TYPE_KIND[kind]
    k = "p" if k == "p" else "u" + k[1]
    name = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}[ins.base]
    g.ufunc(dst, k, name, g.read(a, k), g.read(b, k))


@emits("not", "cnot")
def _not(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a = ins.operands
    k = "p" if kind == "pred" else "u" + TYPE_KIND[kind][1]
    if ins.base == "cnot":
        return g.write(dst, k, f"equal({g.read(a, k)}, {g.constant(0, k)})")
    g.ufunc(dst, k, "logical_not" if k == "p" else "invert", g.read(a, k))


@emits("shl", "shr")
def _shift(g: Generator, ins: Instruction) -> None:
    """Amounts past the width give 0 (or the sign), which is what numpy's shifts do too."""
    _, (kind,) = g.mods(ins, set())
    dst, a, n = ins.operands
    k = TYPE_KIND[kind]
    k = k if ins.base == "shr" and kind[0] == "s" else "u" + k[1]
    if isinstance(n, Imm):
        amount = g.constant(min(n.value & 0xFFFFFFFF, 8 * int(k[1])), k)
    elif k in ("u4", "i4"):
        amount = g.read(n, k)
    elif k in ("u8", "i8"):
        amount = f"{g.read(n, 'u4')}.astype('{k}')"
    else:
        amount = f"minimum({g.read(n, 'u4')}, {g.constant(8 * int(k[1]), 'u4')}).astype('{k}')"
    g.ufunc(dst, k, "left_shift" if ins.base == "shl" else "right_shift", g.read(a, k), amount)


@emits("shf")
def _shf(g: Generator, ins: Instruction) -> None:
    mods, _ = g.mods(ins, {"l", "r", "wrap", "clamp"})
    dst, lo, hi, n = ins.operands
    g.write(
        dst, "u4", f"funnel({g.read(lo, 'u4')}, {g.read(hi, 'u4')}, {g.read(n, 'u4')}, {'l' in mods}, {'wrap' in mods})"
    )


@emits("prmt")
def _prmt(g: Generator, ins: Instruction) -> None:
    mods, _ = g.mods(ins, {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"})
    dst, a, b, c = ins.operands
    g.write(dst, "u4", f"prmt({g.read(a, 'u4')}, {g.read(b, 'u4')}, {g.read(c, 'u4')}, '{next(iter(mods), '')}')")


@emits("lop3")
def _lop3(g: Generator, ins: Instruction) -> None:
    g.mods(ins, set())
    dst, a, b, c, table = ins.operands
    g.write(dst, "u4", f"lop3({g.read(a, 'u4')}, {g.read(b, 'u4')}, {g.read(c, 'u4')}, {table.value})")


@emits("popc", "clz", "bfind", "brev")
def _bits(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"shiftamt"} if ins.base == "bfind" else set())
    dst, a = ins.operands
    k = TYPE_KIND[kind]
    if ins.base == "brev":
        return g.write(dst, k, f"brev({g.read(a, k)})")
    if ins.base == "popc":
        return g.write(dst, "u4", f"popc({g.read(a, k)})")
    if ins.base == "clz":
        return g.write(dst, "u4", f"({g.constant(8 * int(k[1]) - 1, 'u4')} - bfind({g.read(a, k)}))")
    g.write(dst, "u4", f"bfind({g.read(a, k)}, {'shiftamt' in mods})")


@emits("bfe", "bfi")
def _field(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    k = TYPE_KIND[kind]
    dst, *rest = ins.operands
    words = 1 if ins.base == "bfe" else 2
    args = [g.read(x, k) for x in rest[:words]] + [g.read(x, "u4") for x in rest[words:]]
    g.write(dst, k, f"{ins.base}({', '.join(args)})")


@emits("sad")
def _sad(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a, b, c = ins.operands
    k = TYPE_KIND[kind]
    x, y = g.read(a, k), g.read(b, k)
    g.write(dst, k, f"(maximum({x}, {y}) - minimum({x}, {y}) + {g.read(c, k)})")
