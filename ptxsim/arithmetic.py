"""Emitters of opcodes that integers and floats share: add, sub, mul, mad, div, min, max, abs, neg."""

from __future__ import annotations

import numpy as np

from .floating import _ROUND, _float_args, _float_result, _fma
from .integer import _INT, _integer, _mulhi
from .syntax import Instruction, Reg
from .translate import TYPE_KIND, Generator, emits, runtime


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
    name = "divide_approximately" if "approx" in mods else "divide"
    _float_result(g, dst, kind, f"{name}({x}, {y})", mods)


@runtime
def divide_approximately(a, b):
    """div.approx is a times 1/b: past 2^126 in magnitude 1/b is flushed to 0 (PTX ISA, div)."""
    return np.where(np.abs(b) > np.float32(2.0**126), a * np.copysign(np.float32(0), b), np.divide(a, b))


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
