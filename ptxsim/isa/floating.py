"""Floating-point instructions: fma, approximations, shared helpers (PTX ISA 9.7.3 to 9.7.5)."""

import numpy as np

from ..frontend.formats import TYPES
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, Operand
from . import numeric

for _fn in (
    numeric.fma32,
    numeric.fma64,
    numeric.fma32_directed,
    numeric.add32,
    numeric.mul32,
    numeric.ftz,
    numeric.minmax,
    numeric.bf16_to_f32,
    numeric.f32_to_bf16,
):
    runtime(_fn)

ROUNDING = {"rn", "rz", "rm", "rp"}


def float_sources(g: Generator, kinds: list[str], ops: tuple[Operand, ...], ftz: bool) -> list[str]:
    """Return source expressions; bf16 is widened to float32, .ftz flushes."""
    out = []
    for op, kind in zip(ops, kinds, strict=False):
        if kind in ("bf16", "bf16x2"):
            out.append(f"bf16_to_f32({g.read(op, TYPES[kind])})")
        else:
            x = g.read(op, TYPES[kind])
            out.append(f"ftz({x})" if ftz and kind in ("f32", "f32x2") else x)
    return out


def float_result(g: Generator, dst: Operand, kind: str, expr: str, mods: set[str]) -> None:
    """Write a float result in its format, with .ftz, .sat and .relu applied."""
    if "ftz" in mods and kind in ("f32", "f32x2"):
        expr = f"ftz({expr})"
    if "sat" in mods:
        expr = f"saturate({expr})"
    if "relu" in mods:
        expr = f"relu({expr})"
    if kind in ("bf16", "bf16x2"):
        expr = f"f32_to_bf16({expr})"
    g.write(dst, TYPES[kind], expr)


@runtime
def saturate(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))  # NaN and -0 become +0


@runtime
def relu(x: np.ndarray) -> np.ndarray:
    return np.where((x > 0) | np.isnan(x), x, x.dtype.type(0))  # -0 becomes +0


@runtime
def bf16_add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Add two bf16 (as float32), rounded to odd for exact later rounding."""
    s = np.add(a, b, dtype=np.float64)
    err = numeric.two_sum_error(np.asarray(a, np.float64), np.asarray(b, np.float64), s)
    return numeric.directed_odd32(s, err)


@emits("fma")
def fused(g: Generator, ins: Instruction) -> None:
    types = sum(p in TYPES for p in ins.parts)
    mods, kinds = g.mods(ins, ROUNDING | {"ftz", "sat", "relu"}, types=types)
    dst, a, b, c = ins.operands
    kind = kinds[0]
    sources = [kinds[-1], kinds[-1], kind]
    x, y, z = float_sources(g, sources, (a, b, c), "ftz" in mods)
    mode = next(iter(mods & ROUNDING), "rn")
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
    float_result(g, dst, kind, expr, mods)


@runtime
def fma16(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    p = np.multiply(a, b, dtype=np.float64)
    c = np.broadcast_to(np.asarray(c, np.float64), p.shape)
    s = p + c
    return numeric.to_odd(s, numeric.two_sum_error(p, c, s)).astype(np.float16)


@runtime
def fma_bf16(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    p = np.multiply(a, b, dtype=np.float64)
    c = np.broadcast_to(np.asarray(c, np.float64), p.shape)
    s = p + c
    return numeric.directed_odd32(s, numeric.two_sum_error(p, c, s))


_UNARY = {
    "ex2": "exp2",
    "lg2": "log2",
    "rcp": "reciprocal",
    "sqrt": "sqrt",
    "sin": "sin",
    "cos": "cos",
    "tanh": "tanh",
    "rsqrt": "inverse_sqrt",
}


@runtime
def inverse_sqrt(x: np.ndarray) -> np.ndarray:
    return (1 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


@emits(*_UNARY)
def _unary(g: Generator, ins: Instruction) -> None:
    """Emit an approximate function with numpy's rounding, within the error that PTX documents."""
    mods, (kind,) = g.mods(ins, {"approx", "rn", "ftz"})
    dst, a = ins.operands
    (x,) = float_sources(g, [kind], (a,), "ftz" in mods)
    float_result(g, dst, kind, f"{_UNARY[ins.base]}({x})", mods)


@emits("copysign")
def _copysign(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a, b = ins.operands
    fmt = TYPES[kind]
    g.write(dst, fmt, f"copysign({g.read(b, fmt)}, {g.read(a, fmt)})")
