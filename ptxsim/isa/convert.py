"""Conversions: cvt between all formats, cvta and isspacep (PTX ISA 9.7.9)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..frontend.formats import F32, F64, PRED, TYPES, U16, U32, U64, UNSIGNED
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, Operand, Reg
from ..memory.address import WINDOW_SHIFT, WINDOWS
from . import numeric

for _fn in (
    numeric.int_to_f32,
    numeric.f64_to_f32,
    numeric.f32_to_f16,
    numeric.f32_to_small,
    numeric.f32_to_ue8m0,
    numeric.f32_to_tf32,
    numeric.float_to_int,
):
    runtime(_fn)

_SMALL = {"e4m3x2": 8, "e5m2x2": 8, "e2m1x2": 4, "e3m2x2": 8, "e2m3x2": 8, "ue8m0x2": 8}
_FIXED = "s2f6x2"  # signed pairs in units of 1/64
_SCALED = "scaled::n2::ue8m0"
_FLOATS = {"f16", "bf16", "f32", "f64"}
_WHOLE = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_ROUNDINGS = {"rn", "rz", "rm", "rp", "rna", *_WHOLE}
_MODS = _ROUNDINGS | {"ftz", "sat", "satfinite", "relu", _SCALED}


@dataclass(frozen=True, slots=True)
class Conversion:
    """A cvt: source and target PTX types, rounding (None if absent), other modifiers."""

    to: str
    source: str
    mode: str | None
    mods: frozenset[str]
    dst: Operand
    operands: tuple[Operand, ...]

    @property
    def to_integral(self) -> bool:
        """Return whether a float is rounded to a whole number."""
        return self.mode in ("rni", "rzi", "rmi", "rpi")

    @property
    def nearest_or_zero(self) -> str:
        """The rounding mode of a format that has only these two."""
        return self.mode if self.mode in ("rn", "rz") else "rn"


@emits("cvt")
def _cvt(g: Generator, ins: Instruction) -> None:
    types = [p for p in ins.parts[1:] if p not in _MODS]
    if len(types) != 2 or any(t not in TYPES and t not in (*_SMALL, _FIXED) for t in types):
        raise g.unknown()
    to, source = types
    mods = frozenset(p for p in ins.parts[1:] if p in _MODS)
    mode = next((m for m in ins.parts[1:] if m in _ROUNDINGS), None)
    c = Conversion(to, source, mode, mods, ins.operands[0], ins.operands[1:])
    if to in _SMALL or source in _SMALL or to in ("f16x2", "bf16x2"):
        _packed(g, c)
    elif to == "tf32":
        x = g.read(c.operands[0], F32)
        x = f"relu({x})" if "relu" in mods else x
        g.write(c.dst, F32, f"f32_to_tf32({x}, '{mode}', {'satfinite' in mods})")
    elif to in _FLOATS:
        (_float_to_float if source in _FLOATS else _int_to_float)(g, c)
    else:
        (_float_to_int if source in _FLOATS else _int_to_int)(g, c)


def _as_f32(g: Generator, c: Conversion) -> str:
    """Return the source as float32 (float64 unchanged), flushed with .ftz."""
    x = g.read(c.operands[0], TYPES[c.source])
    if c.source == "bf16":
        return f"bf16_to_f32({x})"
    if c.source == "f16":
        return f"{x}.astype('f4')"
    return f"ftz({x})" if "ftz" in c.mods and c.source == "f32" else x


def _int_to_float(g: Generator, c: Conversion) -> None:
    x = g.read(c.operands[0], TYPES[c.source])
    if c.to == "f64":
        return g.write(c.dst, F64, f"{x}.astype('f8')")
    if c.to == "f16":
        x = f"{x}.astype('f8').astype('f2')"
    elif c.to == "bf16":
        x = f"f32_to_bf16(round_odd32({x}))"
    else:
        x = f"int_to_f32({x}, '{c.mode or 'rn'}')"
    return g.write(c.dst, TYPES[c.to], f"saturate({x})" if "sat" in c.mods else x)


def _float_to_int(g: Generator, c: Conversion) -> None:
    fmt = TYPES[c.to]
    g.write(c.dst, fmt, f"float_to_int({_as_f32(g, c)}, {g.bind(fmt.dtype)}, '{c.mode}')")


def _int_to_int(g: Generator, c: Conversion) -> None:
    fmt, source_format, a = TYPES[c.to], TYPES[c.source], c.operands[0]
    x = g.read(a, source_format)
    if "sat" in c.mods:
        g.write(c.dst, fmt, f"int_saturate({x}, {g.bind(fmt.dtype)})")
    else:
        g.write(c.dst, fmt, x if isinstance(a, Reg) and fmt is source_format else f"{x}.astype('{fmt.numpy}')")


def _float_to_float(g: Generator, c: Conversion) -> None:
    x = _as_f32(g, c)
    if c.to_integral:
        if c.to != c.source:
            raise g.unknown()
        x = f"{_WHOLE[c.mode or '']}({x})"
    if c.mode in ("rm", "rp") and (c.to, c.source) != ("f32", "f64"):
        raise g.unknown()
    x = f"saturate({x})" if "sat" in c.mods else x
    x = f"relu({x})" if "relu" in c.mods else x
    if "satfinite" in c.mods:
        if c.to not in ("f16", "bf16"):
            raise g.unknown()
        x = f"finite16({x}, '{c.to}')"
    x = _rounded(c, x)
    g.write(c.dst, TYPES[c.to], f"ftz({x})" if "ftz" in c.mods and c.to == "f32" else x)


def _rounded(c: Conversion, x: str) -> str:
    """Return an expression that rounds float32 or float64 to the target format."""
    if c.to == "f32" and c.source == "f64":
        return f"f64_to_f32({x}, '{c.mode or 'rn'}')"
    if c.to == "f64":
        return f"{x}.astype('f8')"
    if c.to == "f16" and (c.source == "f64" or (c.source == "f16" and not c.to_integral)):
        return f"{x}.astype('f2')"
    if c.to == "f16":
        return f"f32_to_f16({x}, '{c.nearest_or_zero}')"
    return f"f32_to_bf16({x}, '{c.nearest_or_zero}')" if c.to == "bf16" else x


@runtime
def int_saturate(x: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    info = np.iinfo(dtype)
    low = np.where(x < 0, True, False) if info.min == 0 else x.astype(object) < info.min
    high = x.astype(object) > info.max
    return np.where(low, dtype.type(info.min), np.where(high.astype(bool), dtype.type(info.max), x.astype(dtype)))


@runtime
def round_odd32(x: np.ndarray) -> np.ndarray:
    """Round integers to odd in float32, before a second rounding to a narrower format."""
    exact = x.astype(np.float64)
    return numeric.directed_odd32(exact, np.zeros_like(exact))


@runtime
def pack_pair(high: np.ndarray, low: np.ndarray, bits: int) -> np.ndarray:
    """Pack two codes of `bits` bits, the first source in the upper half."""
    wide = UNSIGNED[2 * bits].dtype
    return (np.asarray(high).astype(wide) << wide.type(bits)) | np.asarray(low).astype(wide)


@runtime
def finite16(x: np.ndarray, fmt: str) -> np.ndarray:
    """Clamp float32 to the largest finite f16 or bf16 (.satfinite)."""
    top = np.float32(65504.0) if fmt == "f16" else np.array(0x7F7F0000, np.uint32).view(np.float32)
    return np.where(np.isnan(x), x, np.clip(x, -top, top))


@runtime
def small_to_f16(code: np.ndarray, fmt: str, bits: int) -> np.ndarray:
    """Convert pairs of small-format codes to f16 pairs (uint32), low code first."""
    code = np.asarray(code).astype(np.uint32)
    table = numeric.TABLES[fmt]
    mask = np.uint32((1 << bits) - 1) & np.uint32(len(table) - 1)
    low = table[code & mask].astype(np.float16).view(np.uint16).astype(np.uint32)
    high = table[(code >> np.uint32(bits)) & mask].astype(np.float16).view(np.uint16).astype(np.uint32)
    return low | (high << np.uint32(16))


def _packed(g: Generator, c: Conversion) -> None:
    """Emit conversions of pairs, to and from 16-bit and smaller formats."""
    to, source = c.to, c.source
    if to in ("f16x2", "bf16x2") and source == "f32":
        _to_16_bit_pair(g, c)
    elif to == "ue8m0x2" and source == "f32":
        codes = [f"f32_to_ue8m0({g.read(x, F32)}, '{c.mode or 'rn'}')" for x in c.operands]
        g.write(c.dst, U16, f"pack_pair({codes[0]}, {codes[1]}, 8)")
    elif to == "ue8m0x2" and source == "bf16x2":
        t = g.temp()
        g.line(f"{t} = f32_to_ue8m0(bf16_to_f32({g.read(c.operands[0], TYPES[source])}), '{c.mode or 'rn'}')")
        g.write(c.dst, U16, f"pack_pair({t}[1::2], {t}[0::2], 8)")
    elif to in _SMALL and to != "ue8m0x2" and source in ("f32", "f16x2", "bf16x2"):
        _to_small_pair(g, c)
    elif source in _SMALL and source != "ue8m0x2" and to == "f16x2":
        bits = _SMALL[source]
        x = f"small_to_f16({g.read(c.operands[0], UNSIGNED[2 * bits])}, '{source[:-2]}', {bits})"
        g.write(c.dst, U32, f"relu({x}.view('f2')).view('u4')" if "relu" in c.mods else x)
    elif source == "ue8m0x2" and to == "bf16x2":
        g.write(c.dst, U32, f"scale_to_bf16({g.read(c.operands[0], U16)})")
    elif source == _FIXED and to == "bf16x2" and len(c.operands) == 1 + (_SCALED in c.mods):
        scale = g.read(c.operands[1], U16) if _SCALED in c.mods else None
        relu, finite = "relu" in c.mods, "satfinite" in c.mods
        g.write(c.dst, U32, f"fixed_to_bf16({g.read(c.operands[0], U16)}, {scale}, {relu}, {finite})")
    else:
        raise g.unknown()


def _to_16_bit_pair(g: Generator, c: Conversion) -> None:
    halves = []
    for op in c.operands:
        x = g.read(op, F32)
        x = f"ftz({x})" if "ftz" in c.mods else x
        x = f"relu({x})" if "relu" in c.mods else x
        x = f"finite16({x}, '{c.to[:-2]}')" if "satfinite" in c.mods else x
        mode = c.mode or "rn"
        halves.append(f"f32_to_f16({x}, '{mode}').view('u2')" if c.to == "f16x2" else f"f32_to_bf16({x}, '{mode}')")
    g.write(c.dst, U32, f"pack_pair({halves[0]}, {halves[1]}, 16)")


def _to_small_pair(g: Generator, c: Conversion) -> None:
    element, bits, relu = c.to[:-2], _SMALL[c.to], "relu" in c.mods
    if c.source == "f32":
        if len(c.operands) != 2:
            raise g.unknown()
        high, low = (f"f32_to_small({g.read(x, F32)}, '{element}', {relu})" for x in c.operands)
    else:
        t, x = g.temp(), g.read(c.operands[0], TYPES[c.source])
        x = f"bf16_to_f32({x})" if c.source == "bf16x2" else f"{x}.astype('f4')"
        g.line(f"{t} = f32_to_small({x}, '{element}', {relu})")
        high, low = f"{t}[1::2]", f"{t}[0::2]"
    g.write(c.dst, UNSIGNED[2 * bits], f"pack_pair({high}, {low}, {bits})")


def _scales(code: np.ndarray) -> np.ndarray:
    """Return ue8m0 pairs as float32, low code first."""
    return numeric.TABLES["ue8m0"][np.stack([code & 255, code >> 8], -1)].ravel()


@runtime
def scale_to_bf16(code: np.ndarray) -> np.ndarray:
    return numeric.f32_to_bf16(_scales(code)).view(np.uint32)


@runtime
def fixed_to_bf16(code: np.ndarray, scale: np.ndarray | None, relu: bool, finite: bool) -> np.ndarray:
    """Convert s2f6 pairs, times ue8m0 scales, to bf16 pairs (uint32), low code first."""
    x = np.ascontiguousarray(code).view(np.int8).astype(np.float32) / 64
    with np.errstate(over="ignore"):
        x = x if scale is None else x * _scales(scale)
    x = np.maximum(x, np.float32(0)) if relu else x
    return numeric.f32_to_bf16(finite16(x, "bf16") if finite else x).view(np.uint32)


@emits("cvta")
def _cvta(g: Generator, ins: Instruction) -> None:
    """Emit a generic address: windows in bits 56 and up, global addresses unchanged."""
    parts = [p for p in ins.parts[1:] if p not in ("to", "u64", "u32")]
    if len(parts) != 1 or "u64" not in ins.parts:
        raise g.unknown()
    space = parts[0].split("::")[0]
    dst, a = ins.operands
    if space not in WINDOWS:
        raise g.unknown()
    base = WINDOWS[space] << WINDOW_SHIFT
    name = "subtract" if "to" in ins.parts else "add"
    g.ufunc(dst, U64, name, g.read(a, U64), g.constant(base, U64))


@emits("isspacep")
def _isspacep(g: Generator, ins: Instruction) -> None:
    space = ins.parts[1].split("::")[0]
    if space not in WINDOWS or space == "const" or len(ins.parts) != 2:
        raise g.unknown()
    dst, a = ins.operands
    window = f"{g.read(a, U64)} >> {g.constant(WINDOW_SHIFT, U64)}"
    g.write(dst, PRED, f"equal({window}, {g.constant(WINDOWS[space], U64)})")
