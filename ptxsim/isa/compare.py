"""Comparisons and selections: setp, set, selp, slct (PTX ISA 9.7.6 and 9.7.7)."""

from ..frontend.formats import PRED, TYPES
from ..frontend.generator import Generator
from ..frontend.registry import emits
from ..frontend.syntax import Instruction, Reg, pair
from .control import same_register
from .floating import float_sources

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


_COMBINE = {"and", "or", "xor"}


@emits("setp", results=1)
def _setp(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {*_COMPARE, *_UNORDERED, *_COMBINE, "num", "nan", "ftz"})
    dst, a, b, *rest = ins.operands
    combine = next(iter(mods & _COMBINE), None)
    if (combine is None) != (not rest):
        raise g.fail("a combining operation and its predicate go together")
    op = next(iter(mods - _COMBINE - {"ftz"}))
    x, y = float_sources(g, [kind, kind], (a, b), "ftz" in mods)
    plain = op in _COMPARE and not (op == "ne" and _is_float(kind))
    if plain and not rest and isinstance(dst, Reg):
        return g.ufunc(dst, PRED, _COMPARE[op], x, y)
    expr = _comparison(op, x, y, _is_float(kind))
    first, second = pair(dst)
    t = g.temp()
    if combine is not None:
        c = g.read(rest[0], PRED)
        g.line(f"{t}, {t}n = {expr}, logical_{combine}(~{expr}, {c})")
        g.write(first, PRED, f"logical_{combine}({t}, {c})")
    else:
        g.line(f"{t} = {expr}; {t}n = ~{t}")
        g.write(first, PRED, t)
    if second is not None:
        g.write(second, PRED, f"{t}n")
    return None


@emits("set")
def _set(g: Generator, ins: Instruction) -> None:
    mods, (to, kind) = g.mods(ins, {*_COMPARE, *_UNORDERED, "num", "nan", "ftz"}, types=2)
    dst, a, b = ins.operands
    x, y = float_sources(g, [kind, kind], (a, b), "ftz" in mods)
    expr = _comparison(next(iter(mods - {"ftz"})), x, y, _is_float(kind))
    fmt = TYPES[to]
    g.write(dst, fmt, f"where({expr}, {g.constant(1.0 if fmt.is_float else -1, fmt)}, {g.constant(0, fmt)})")


def _is_float(kind: str) -> bool:
    return kind[0] in "fb" and kind not in ("b16", "b32", "b64")


def _comparison(op: str, x: str, y: str, floats: bool) -> str:
    """Return a boolean expression; ordered comparisons, including `ne`, are false for NaN."""
    if op == "ne" and floats:
        return f"(less({x}, {y}) | greater({x}, {y}))"
    if op in _COMPARE:
        return f"{_COMPARE[op]}({x}, {y})"
    unordered = f"isnan({x}) | isnan({y})"
    if op in _UNORDERED:
        return f"({_COMPARE[_UNORDERED[op]]}({x}, {y}) | {unordered})"
    return f"~({unordered})" if op == "num" else f"({unordered})"


@emits("selp", "slct")
def _selp(g: Generator, ins: Instruction) -> None:
    _, kinds = g.mods(ins, {"ftz"}, types=1 if ins.base == "selp" else 2)
    dst, a, b, c = ins.operands
    fmt = TYPES[kinds[0]]
    if ins.base == "selp":
        cond = g.read(c, PRED)
    else:
        tested = TYPES[kinds[1]]
        cond = f"greater_equal({g.read(c, tested)}, {g.constant(0, tested)})"
    if not g.masked and not same_register(a, dst):  # two copies are faster than where()
        to = g.target(dst, fmt)
        g.line(f"{to}[...] = {g.read(b, fmt)}")
        return g.line(f"copyto({to}, {g.read(a, fmt)}, where={cond})")
    g.write(dst, fmt, f"where({cond}, {g.read(a, fmt)}, {g.read(b, fmt)})")
