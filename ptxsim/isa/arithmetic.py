"""Opcodes that integers and floats share: add, sub, mul, mad, div, min, max, abs, neg."""

import numpy as np

from ..frontend.formats import TYPES, U16, U32
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction
from .control import same_register
from .floating import ROUNDING, float_result, float_sources, fused
from .integer import INTEGERS, high_product, integer_operation, wide_product


@emits("add", "sub", "mul")
def _add_sub_mul(g: Generator, ins: Instruction) -> None:
    kinds = [p for p in ins.parts[1:] if p in TYPES]
    if not kinds or kinds[0] in INTEGERS:
        return integer_operation(g, ins)
    mods, kinds = g.mods(ins, ROUNDING | {"ftz", "sat"}, types=len(kinds))
    kind = kinds[0]
    dst, a, b = ins.operands
    sources = [kind, kind] if len(kinds) == 1 else ([kinds[1], kind] if ins.base != "mul" else [kinds[1]] * 2)
    mode = next(iter(mods & ROUNDING), "rn")
    x, y = float_sources(g, sources, (a, b), "ftz" in mods)
    name = {"add": "add", "sub": "subtract", "mul": "multiply"}[ins.base]
    if mode != "rn":
        if kind not in ("f32", "f32x2"):
            raise g.unknown(f"rounding of {kind}")
        y = f"-({y})" if ins.base == "sub" else y
        expr = f"{'mul32' if ins.base == 'mul' else 'add32'}({x}, {y}, '{mode}')"
        return float_result(g, dst, kind, expr, mods)
    if kind in ("bf16", "bf16x2"):  # the exact float64 result rounds once to float32 and once more to bf16: via odd
        if ins.base == "mul":
            expr = f"{name}({x}, {y})"  # 8 + 8 bits fit in float32: exact
        else:
            expr = f"bf16_add({x}, {'-' if ins.base == 'sub' else ''}({y}))"
        return float_result(g, dst, kind, expr, mods)
    if mods - {"rn"}:
        return float_result(g, dst, kind, f"{name}({x}, {y})", mods)
    g.ufunc(dst, TYPES[kind], name, x, y)


@emits("mad")
def _mad(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"lo", "hi", "wide", "rn", "ftz", "sat"})
    if kind in ("f32", "f64"):
        return fused(g, ins)
    dst, a, b, c = ins.operands
    fmt = TYPES[kind]
    if "wide" in mods:
        product = wide_product(g, a, b, fmt)
        return g.write(dst, fmt.double, f"add({product}, {g.read(c, fmt.double)})")
    if "hi" not in mods and not g.masked and not same_register(c, dst):
        to = g.target(dst, fmt)
        g.line(f"multiply({g.read(a, fmt)}, {g.read(b, fmt)}, {to})")
        return g.line(f"add({to}, {g.read(c, fmt)}, {to})")
    product = high_product(g, a, b, fmt) if "hi" in mods else f"multiply({g.read(a, fmt)}, {g.read(b, fmt)})"
    g.write(dst, fmt, f"add({product}, {g.read(c, fmt)})")


@emits("div")
def _div(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"rn", "full", "approx", "ftz", "rz"})
    dst, a, b = ins.operands
    fmt = TYPES[kind]
    if kind in INTEGERS:
        return g.write(dst, fmt, f"int_divide({g.read(a, fmt)}, {g.read(b, fmt)})")
    if "rz" in mods or kind not in ("f32", "f64"):
        raise g.unknown()
    x, y = float_sources(g, [kind, kind], (a, b), "ftz" in mods)
    if g.program.watches_divisions and kind == "f32" and "rn" in mods:
        g.line(f"divided(f, {g.at}, {x}, {y})")
    name = "divide_approximately" if "approx" in mods else "divide"
    float_result(g, dst, kind, f"{name}({x}, {y})", mods)


@runtime
def divide_approximately(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute div.approx: a * (1/b), where 1/b is 0 for |b| > 2^126."""
    return np.where(np.abs(b) > np.float32(2.0**126), a * np.copysign(np.float32(0), b), np.divide(a, b))


@emits("min", "max")
def _min_max(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"ftz", "NaN", "relu"})
    dst, *sources = ins.operands
    fmt = TYPES[kind]
    if kind in INTEGERS:
        expr = "minimum" if ins.base == "min" else "maximum"
        if "relu" in mods:
            return g.write(
                dst, fmt, f"maximum({expr}({', '.join(g.read(s, fmt) for s in sources)}), {g.constant(0, fmt)})"
            )
        t = ", ".join(g.read(s, fmt) for s in sources)  # these two take their third positional argument badly
        return g.write(dst, fmt, f"{expr}({t})") if g.masked else g.line(f"{expr}({t}, out={g.target(dst, fmt)})")
    args = float_sources(g, [kind] * len(sources), tuple(sources), "ftz" in mods)
    expr = args[0]
    for arg in args[1:]:
        expr = f"minmax({expr}, {arg}, {ins.base == 'max'}, {'NaN' in mods})"
    float_result(g, dst, kind, expr, mods - {"NaN"})


@emits("abs", "neg")
def _abs_neg(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"ftz"})
    dst, a = ins.operands
    fmt = TYPES[kind]
    if kind in ("bf16", "bf16x2"):
        whole, sign = (U16, 0x8000) if kind == "bf16" else (U32, 0x80008000)
        name, bits = ("bitwise_xor", sign) if ins.base == "neg" else ("bitwise_and", ~sign)
        return g.ufunc(dst, whole, name, g.read(a, whole), g.constant(bits, whole))
    if "ftz" in mods:
        return g.write(dst, fmt, f"ftz({'absolute' if ins.base == 'abs' else 'negative'}({g.read(a, fmt)}))")
    g.ufunc(dst, fmt, "absolute" if ins.base == "abs" else "negative", g.read(a, fmt))
