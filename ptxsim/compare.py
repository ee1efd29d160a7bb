"""Emitters of comparisons and selections: setp, set, selp, slct (PTX ISA 9.7.6 and 9.7.7)."""

from __future__ import annotations

from .floating import _float_args
from .syntax import Instruction, Pair, Reg
from .translate import TYPE_KIND, Generator, emits

_COMPARE = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "lo": "less",
    "ls": "less_equal",
    "hi": "greater",
    "hs": "greater_equal",
}


_UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}


@emits("setp", "set")
def _setp(g: Generator, ins: Instruction) -> None:
    is_set = ins.base == "set"
    mods, kinds = g.mods(
        ins, {*_COMPARE, *_UNORDERED, "num", "nan", "and", "or", "xor", "ftz"}, types=2 if is_set else 1
    )
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
