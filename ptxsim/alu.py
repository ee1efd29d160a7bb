"""Emitters of integer, logic, comparison and floating-point instructions (PTX ISA 9.7.1 to 9.7.8)."""

from __future__ import annotations

import numpy as np

from . import numeric
from .parser import Imm, Instruction, Pair, Reg, Vec
from .translate import TYPE_KIND, Generator, emits, runtime

for _fn in (numeric.fma32, numeric.fma64, numeric.fma32_directed, numeric.add32, numeric.mul32, numeric.ftz,
            numeric.minmax, numeric.bf16_to_f32, numeric.f32_to_bf16, numeric.mulhi64, numeric.prmt, numeric.lop3,
            numeric.popc, numeric.bfind, numeric.brev, numeric.funnel, numeric.bfe, numeric.bfi, numeric.remainder,
            numeric.int_to_f32):
    runtime(_fn)


@runtime
def int_divide(a, b):
    return numeric.divide(a, b)


_INT = {"u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64"}
_ROUND = {"rn", "rz", "rm", "rp"}


def _float_args(g: Generator, ins: Instruction, kinds: list[str], ops: tuple, ftz: bool) -> list[str]:
    """Source expressions of a float operation, bf16 widened to float32, flushed where .ftz asks for it."""
    out = []
    for op, kind in zip(ops, kinds):
        if kind in ("bf16", "bf16x2"):
            out.append(f"bf16_to_f32({g.read(op, TYPE_KIND[kind])})")
        else:
            x = g.read(op, TYPE_KIND[kind])
            out.append(f"ftz({x})" if ftz and kind in ("f32", "f32x2") else x)
    return out


def _float_result(g: Generator, dst: Reg, kind: str, expr: str, mods: set[str]) -> None:
    """Write a float result in its format, with .ftz, .sat and .relu applied."""
    if "ftz" in mods and kind in ("f32", "f32x2"):
        expr = f"ftz({expr})"
    if "sat" in mods:
        expr = f"saturate({expr})"
    if "relu" in mods:
        expr = f"relu({expr})"
    if kind in ("bf16", "bf16x2"):
        expr = f"f32_to_bf16({expr})"
    g.write(dst, TYPE_KIND[kind], expr)


@runtime
def saturate(x):
    return np.fmin(np.fmax(x, x.dtype.type(0)), x.dtype.type(1))


@runtime
def relu(x):
    return np.where(np.isnan(x), x, np.maximum(x, x.dtype.type(0)))


@emits("add", "sub", "mul")
def _add_sub_mul(g: Generator, ins: Instruction) -> None:
    kinds = [p for p in ins.parts[1:] if p in TYPE_KIND]
    if not kinds or kinds[0] in _INT:
        return _integer(g, ins)
    mods, kinds = g.mods(ins, _ROUND | {"ftz", "sat"}, types=len(kinds))
    kind = kinds[0]
    dst, a, b = ins.operands
    sources = [kind, kind] if len(kinds) == 1 else ([kinds[1], kind] if ins.base != "mul" else [kinds[1]] * 2)
    mode = next(iter(mods & _ROUND), "rn")
    x, y = _float_args(g, ins, sources, (a, b), "ftz" in mods)
    name = {"add": "add", "sub": "subtract", "mul": "multiply"}[ins.base]
    if mode != "rn":
        if kind not in ("f32", "f32x2"):
            raise g.fail(f"unknown opcode {ins.op} (rounding of {kind})")
        y = f"-({y})" if ins.base == "sub" else y
        expr = f"{'mul32' if ins.base == 'mul' else 'add32'}({x}, {y}, '{mode}')"
        return _float_result(g, dst, kind, expr, mods)
    if kind in ("bf16", "bf16x2"):  # the exact float64 result rounds once to float32 and once more to bf16: via odd
        if ins.base == "mul":
            expr = f"{name}({x}, {y})"  # 8 + 8 bits fit in float32: exact
        else:
            expr = f"bf16_add({x}, {'-' if ins.base == 'sub' else ''}({y}))"
        return _float_result(g, dst, kind, expr, mods)
    if mods - {"rn"}:
        return _float_result(g, dst, kind, f"{name}({x}, {y})", mods)
    g.ufunc(dst, TYPE_KIND[kind], name, x, y)


@runtime
def bf16_add(a, b):
    """Sum of two bf16 held as float32, rounded to odd in float32 so that the rounding to bf16 is the only one."""
    s = np.add(a, b, dtype=np.float64)
    err = numeric._two_sum_error(np.asarray(a, np.float64), np.asarray(b, np.float64), s)
    return numeric._directed_odd32(s, err)


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
    g.write(dst, k, f"carry_op(f, {g.read(a, k)}, {g.read(b, k)}, {ins.base.startswith('sub')}, "
                    f"{ins.base.endswith('c')}, {'cc' in mods})")


@runtime
def carry_op(f, a, b, subtract: bool, use: bool, keep: bool):
    flags = f.cta.carry[f.lo:f.hi]
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


@emits("mad")
def _mad(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"lo", "hi", "wide", "rn", "ftz", "sat"})
    if kind in ("f32", "f64"):
        return _fma(g, ins)
    dst, a, b, c = ins.operands
    k = TYPE_KIND[kind]
    if "wide" in mods:
        w = k[0] + str(2 * int(k[1]))
        expr = f"multiply({g.read(a, k)}, {g.read(b, k)}, dtype='{w}')"
        return g.write(dst, w, f"add({expr}, {g.read(c, w)})")
    if "hi" not in mods and not g.masked and not (isinstance(c, Reg) and c.slot == dst.slot):
        to = g.target(dst, k)
        g.line(f"multiply({g.read(a, k)}, {g.read(b, k)}, {to})")
        return g.line(f"add({to}, {g.read(c, k)}, {to})")
    product = _mulhi(g, a, b, k) if "hi" in mods else f"multiply({g.read(a, k)}, {g.read(b, k)})"
    g.write(dst, k, f"add({product}, {g.read(c, k)})")


@emits("fma")
def _fma(g: Generator, ins: Instruction) -> None:
    types = sum(p in TYPE_KIND for p in ins.parts)
    mods, kinds = g.mods(ins, _ROUND | {"ftz", "sat", "relu"}, types=types)
    dst, a, b, c = ins.operands
    kind = kinds[0]
    sources = [kinds[-1], kinds[-1], kind]
    x, y, z = _float_args(g, ins, sources, (a, b, c), "ftz" in mods)
    mode = next(iter(mods & _ROUND), "rn")
    if kind == "f64":
        expr = f"fma64({x}, {y}, {z})"
    elif kind in ("f16", "f16x2"):  # exact in float64 up to the last rounding, which goes through odd
        expr = f"fma16({x}, {y}, {z})"
    elif kind in ("bf16", "bf16x2"):
        expr = f"fma_bf16({x}, {y}, {z})"
    elif mode != "rn":
        expr = f"fma32_directed({x}, {y}, {z}, '{mode}')"
    else:
        if sources[0] == "f16":
            x, y = f"{x}.astype('f4')", f"{y}.astype('f4')"
        expr = f"fma32({x}, {y}, {z})"
    _float_result(g, dst, kind, expr, mods)


@runtime
def fma16(a, b, c):
    p = np.multiply(a, b, dtype=np.float64)
    c = np.broadcast_to(np.asarray(c, np.float64), p.shape)
    s = p + c
    return numeric._to_odd(s, numeric._two_sum_error(p, c, s)).astype(np.float16)


@runtime
def fma_bf16(a, b, c):
    p = np.multiply(a, b, dtype=np.float64)
    c = np.broadcast_to(np.asarray(c, np.float64), p.shape)
    s = p + c
    return numeric._directed_odd32(s, numeric._two_sum_error(p, c, s))


@emits("div")
def _div(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"rn", "full", "approx", "ftz", "rz"})
    dst, a, b = ins.operands
    k = TYPE_KIND[kind]
    if kind in _INT:
        return g.write(dst, k, f"int_divide({g.read(a, k)}, {g.read(b, k)})")
    if "rz" in mods or kind not in ("f32", "f64"):
        raise g.fail(f"unknown opcode {ins.op}")
    x, y = _float_args(g, ins, [kind, kind], (a, b), "ftz" in mods)
    _float_result(g, dst, kind, f"divide({x}, {y})", mods)


@emits("rem")
def _rem(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a, b = ins.operands
    k = TYPE_KIND[kind]
    g.write(dst, k, f"remainder({g.read(a, k)}, {g.read(b, k)})")


@emits("min", "max")
def _min_max(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"ftz", "NaN", "relu"})
    dst, *sources = ins.operands
    k = TYPE_KIND[kind]
    if kind in _INT:
        expr = "minimum" if ins.base == "min" else "maximum"
        if "relu" in mods:
            return g.write(dst, k, f"maximum({expr}({', '.join(g.read(s, k) for s in sources)}), {g.constant(0, k)})")
        t = ", ".join(g.read(s, k) for s in sources)  # these two take their third positional argument badly
        return g.write(dst, k, f"{expr}({t})") if g.masked else g.line(f"{expr}({t}, out={g.target(dst, k)})")
    args = _float_args(g, ins, [kind] * len(sources), tuple(sources), "ftz" in mods)
    expr = args[0]
    for arg in args[1:]:
        expr = f"minmax({expr}, {arg}, {ins.base == 'max'}, {'NaN' in mods})"
    _float_result(g, dst, kind, expr, mods - {"NaN"})


@emits("abs", "neg")
def _abs_neg(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"ftz"})
    dst, a = ins.operands
    k = TYPE_KIND[kind]
    if kind in ("bf16", "bf16x2"):
        whole = "u2" if kind == "bf16" else "u4"
        sign = 0x8000 if kind == "bf16" else 0x80008000
        name, bits = ("bitwise_xor", sign) if ins.base == "neg" else ("bitwise_and", ~sign)
        return g.ufunc(dst, whole, name, g.read(a, whole), g.constant(bits, whole))
    if "ftz" in mods:
        return g.write(dst, k, f"ftz({'absolute' if ins.base == 'abs' else 'negative'}({g.read(a, k)}))")
    g.ufunc(dst, k, "absolute" if ins.base == "abs" else "negative", g.read(a, k))


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
    g.write(dst, "u4", f"funnel({g.read(lo, 'u4')}, {g.read(hi, 'u4')}, {g.read(n, 'u4')}, {'l' in mods}, "
                       f"{'wrap' in mods})")


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


_COMPARE = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
            "lo": "less", "ls": "less_equal", "hi": "greater", "hs": "greater_equal"}
_UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}


@emits("setp", "set")
def _setp(g: Generator, ins: Instruction) -> None:
    is_set = ins.base == "set"
    mods, kinds = g.mods(ins, {*_COMPARE, *_UNORDERED, "num", "nan", "and", "or", "xor", "ftz"}, types=2 if is_set else 1)
    kind = kinds[-1]
    dst, a, b, *rest = ins.operands
    x, y = _float_args(g, ins, [kind, kind], (a, b), "ftz" in mods)
    op = next(iter(mods - {"and", "or", "xor", "ftz"}))
    is_float = kind[0] in "fb" and kind not in ("b16", "b32", "b64")
    if op in _COMPARE:
        name = _COMPARE[op]
        if op == "ne" and is_float:  # ordered: false where either is NaN, unlike numpy's
            expr = f"(less({x}, {y}) | greater({x}, {y}))"
        elif not rest and not is_set and isinstance(dst, Reg):
            return g.ufunc(dst, "p", name, x, y)
        else:
            expr = f"{name}({x}, {y})"
    elif op in _UNORDERED:
        expr = f"({_COMPARE[_UNORDERED[op]]}({x}, {y}) | isnan({x}) | isnan({y}))"
    else:
        expr = f"(isnan({x}) | isnan({y}))"
        expr = f"~{expr}" if op == "num" else expr
    if is_set:
        k = TYPE_KIND[kinds[0]]
        yes, no = (g.constant(1.0, k), g.constant(0.0, k)) if k[0] == "f" else (g.constant(-1, k), g.constant(0, k))
        return g.write(dst, k, f"where({expr}, {yes}, {no})")
    first, second = (dst.first, dst.second) if isinstance(dst, Pair) else (dst, None)
    combine = next(iter(mods & {"and", "or", "xor"}), None)
    if (combine is None) != (not rest):
        raise g.fail("a combining operation and its predicate go together")
    t = g.temp()
    if combine:
        c = g.read(rest[0], "p")
        g.line(f"{t}, {t}n = {expr}, logical_{combine}(~{expr}, {c})")
        g.write(first, "p", f"logical_{combine}({t}, {c})")
    else:
        g.line(f"{t} = {expr}; {t}n = ~{t}")
        g.write(first, "p", t)
    if second is not None:
        g.write(second, "p", f"{t}n")


@emits("selp", "slct")
def _selp(g: Generator, ins: Instruction) -> None:
    _, kinds = g.mods(ins, {"ftz"}, types=1 if ins.base == "selp" else 2)
    dst, a, b, c = ins.operands
    k = TYPE_KIND[kinds[0]]
    if ins.base == "selp":
        cond = g.read(c, "p")
    else:
        kc = TYPE_KIND[kinds[1]]
        cond = f"greater_equal({g.read(c, kc)}, {g.constant(0, kc)})"
    if not g.masked and not (isinstance(a, Reg) and a.slot == dst.slot):  # two copies are faster than where()
        to = g.target(dst, k)
        g.line(f"{to}[...] = {g.read(b, k)}")
        return g.line(f"copyto({to}, {g.read(a, k)}, where={cond})")
    g.write(dst, k, f"where({cond}, {g.read(a, k)}, {g.read(b, k)})")


_UNARY = {"ex2": "exp2", "lg2": "log2", "rcp": "reciprocal", "sqrt": "sqrt", "sin": "sin", "cos": "cos",
          "tanh": "tanh", "rsqrt": "inverse_sqrt"}


@runtime
def inverse_sqrt(x):
    return (1 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


@emits(*_UNARY)
def _unary(g: Generator, ins: Instruction) -> None:
    """Approximate functions are computed as numpy rounds them: inside the error PTX documents for each."""
    mods, (kind,) = g.mods(ins, {"approx", "rn", "ftz"})
    dst, a = ins.operands
    (x,) = _float_args(g, ins, [kind], (a,), "ftz" in mods)
    _float_result(g, dst, kind, f"{_UNARY[ins.base]}({x})", mods)


@emits("copysign")
def _copysign(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a, b = ins.operands
    k = TYPE_KIND[kind]
    g.write(dst, k, f"copysign({g.read(b, k)}, {g.read(a, k)})")


@emits("mov")
def _mov(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a = ins.operands
    k = TYPE_KIND[kind]
    if isinstance(a, Vec):
        size = {"u4": 4, "i4": 4, "f4": 4, "u8": 8, "i8": 8, "f8": 8, "u2": 2, "q": 16}[k] // len(a.items)
        if k == "q":
            return g.line(f"pack128({g.target(dst, 'q')}, {g.read(a.items[0], 'u8')}, {g.read(a.items[1], 'u8')}, "
                          f"{'m' if g.masked else 'None'})")
        part, whole = f"u{size}", "u" + k[1]
        if size == 1:
            raise g.fail("packing of bytes is not simulated")
        words = [g.read(x, part) for x in a.items]
        t = g.temp()
        g.line(f"{t} = {g.target(dst, whole)}.view('{part}')")
        step = len(a.items)
        for i, w in enumerate(words):
            if g.masked:
                g.line(f"copyto({t}[{i}::{step}], {w}, where=m)")
            else:
                g.line(f"{t}[{i}::{step}] = {w}")
        return None
    if isinstance(dst, Vec):
        step = len(dst.items)
        if k == "q":
            g._view("q")
            t = g.temp()
            g.line(f"{t} = {g.target(a, 'q')}")
            for i, item in enumerate(dst.items):
                if item is not None:
                    g.write(item, "u8", f"{t}[:, {i}]")
            return None
        size = int(k[1]) // step
        t = g.temp()
        g.line(f"{t} = {g.read(a, 'u' + k[1])}.view('u{size}')" if isinstance(a, Reg)
               else f"{t} = full(f.n, {g.read(a, 'u' + k[1])}).view('u{size}')")
        for i, item in enumerate(dst.items):
            if item is not None:
                g.write(item, f"u{size}", f"{t}[{i}::{step}]")
        return None
    if k == "q":
        return g.write(dst, "q", g.target(a, "q"))
    g.write(dst, k, g.read(a, k))


@runtime
def pack128(row, low, high, mask):
    where = True if mask is None else mask
    np.copyto(row[:, 0], low, where=where)
    np.copyto(row[:, 1], high, where=where)


@emits("sad")
def _sad(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a, b, c = ins.operands
    k = TYPE_KIND[kind]
    x, y = g.read(a, k), g.read(b, k)
    g.write(dst, k, f"(maximum({x}, {y}) - minimum({x}, {y}) + {g.read(c, k)})")


@emits("bra")
def _bra(g: Generator, ins: Instruction) -> None:
    if set(ins.parts[1:]) - {"uni"}:
        raise g.fail(f"unknown opcode {ins.op}")
    target = g.program.block_of[ins.target] if hasattr(g.program, "block_of") else 0
    if ins.guard is None:
        return g.end(f"return {target}")
    p = f"{g._view('p')}[{ins.guard.slot}]"
    fall = g.block.next if g.block.next < len(g.program.blocks) else -1
    g.end(f"return f.branch({p}, {target}, {fall}, {ins.guard.negated})")


@emits("ret", "exit")
def _ret(g: Generator, ins: Instruction) -> None:
    g.mods(ins, {"uni"}, types=0)
    g.end("return f.exit()")


@emits("nop")
def _nop(g: Generator, ins: Instruction) -> None:
    g.mods(ins, set(), types=0)
