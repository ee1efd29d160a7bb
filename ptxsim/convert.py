"""Emitters of conversions: cvt between all formats, cvta and isspacep (PTX ISA 9.7.9)."""

from __future__ import annotations

import numpy as np

from . import numeric
from .syntax import Instruction, Reg
from .translate import RUNTIME, TYPE_KIND, Generator, emits, runtime

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

SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW = 1 << 56, 2 << 56, 3 << 56
_SMALL = {"e4m3x2": 8, "e5m2x2": 8, "e2m1x2": 4, "e3m2x2": 8, "e2m3x2": 8, "ue8m0x2": 8}
_FLOATS = {"f16", "bf16", "f32", "f64"}
_MODS = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "ftz", "sat", "satfinite", "relu"}


def _to_f32(g: Generator, op, kind: str, ftz: bool) -> str:
    x = g.read(op, TYPE_KIND[kind])
    if kind == "bf16":
        return f"bf16_to_f32({x})"
    if kind == "f16":
        return f"{x}.astype('f4')"
    return f"ftz({x})" if ftz and kind == "f32" else x


@emits("cvt")
def _cvt(g: Generator, ins: Instruction) -> None:
    types = [p for p in ins.parts[1:] if p not in _MODS]
    mods = {p for p in ins.parts[1:] if p in _MODS}
    if len(types) != 2 or any(t not in TYPE_KIND and t not in _SMALL for t in types):
        raise g.fail(f"unknown opcode {ins.op}")
    to, source = types
    mode = next((m for m in ins.parts[1:] if m in _MODS and m[0] == "r" and m != "relu"), None)
    dst, *ops = ins.operands
    if to in _SMALL or source in _SMALL or to in ("f16x2", "bf16x2"):
        return _packed(g, ins, to, source, mods, mode or "rn")
    if to == "tf32":
        x = g.read(ops[0], "f4")
        x = f"relu({x})" if "relu" in mods else x
        return g.write(dst, "f4", f"f32_to_tf32({x}, '{mode}', {'satfinite' in mods})")
    a = ops[0]
    if to in _FLOATS and source in _FLOATS:
        return _float(g, ins, dst, a, to, source, mods, mode)
    if to in _FLOATS:
        ks = TYPE_KIND[source]
        if to == "f64":
            return g.write(dst, "f8", f"{g.read(a, ks)}.astype('f8')")
        x = f"int_to_f32({g.read(a, ks)}, '{mode or 'rn'}')"
        if to == "f16":
            x = f"{g.read(a, ks)}.astype('f8').astype('f2')"
        elif to == "bf16":
            x = f"f32_to_bf16(round_odd32({g.read(a, ks)}))"
        return g.write(dst, TYPE_KIND[to], f"saturate({x})" if "sat" in mods else x)
    if source in _FLOATS:
        k = TYPE_KIND[to]
        dtype = {"b": "u"}.get(to[0], to[0].replace("s", "i")) + str(int(k[1]))
        x = _to_f32(g, a, source, "ftz" in mods)
        return g.write(dst, k, f"float_to_int({x}, K_{dtype}, '{mode}')")
    kt, ks = TYPE_KIND[to], TYPE_KIND[source]
    x = g.read(a, ks)
    if "sat" in mods:
        g.write(dst, kt, f"int_saturate({x}, K_{kt})")
    else:
        g.write(dst, kt, x if isinstance(a, Reg) and kt == ks else f"{x}.astype('{kt}')")


for _k in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"):
    RUNTIME[f"K_{_k}"] = np.dtype(_k)


@runtime
def int_saturate(x, dtype):
    info = np.iinfo(dtype)
    low = np.where(x < 0, True, False) if info.min == 0 else x.astype(object) < info.min
    high = x.astype(object) > info.max
    return np.where(low, dtype.type(info.min), np.where(high.astype(bool), dtype.type(info.max), x.astype(dtype)))


@runtime
def round_odd32(x):
    """Integer to float32 rounded to odd, for a second rounding to a narrower format."""
    exact = x.astype(np.float64)
    return numeric._directed_odd32(exact, np.zeros_like(exact))


def _float(g: Generator, ins: Instruction, dst, a, to: str, source: str, mods: set[str], mode: str | None) -> None:
    if mode in ("rni", "rzi", "rmi", "rpi"):
        name = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}[mode]
        x = f"round_{name}({_to_f32(g, a, source, 'ftz' in mods)})"
        if to != source:
            raise g.fail(f"unknown opcode {ins.op}")
    else:
        x = _to_f32(g, a, source, "ftz" in mods)
    if "sat" in mods:
        x = f"saturate({x})"
    if "relu" in mods:
        x = f"relu({x})"
    if "satfinite" in mods:
        if to not in ("f16", "bf16"):
            raise g.fail(f"unknown opcode {ins.op}")
        x = f"finite16({x}, '{to}')"
    if to == "f32" and source == "f64":
        x = f"f64_to_f32({x}, '{mode or 'rn'}')"
    elif to == "f64":
        x = f"{x}.astype('f8')"
    elif to == "f16":
        if source == "f64":
            x = f"{x}.astype('f2')"
        elif source != "f16" or mode in ("rni", "rzi", "rmi", "rpi"):
            x = f"f32_to_f16({x}, '{mode if mode in ('rn', 'rz') else 'rn'}')"
        else:
            x = f"{x}.astype('f2')"
    elif to == "bf16":
        x = f"f32_to_bf16({x}, '{mode if mode in ('rn', 'rz') else 'rn'}')"
    if mode in ("rm", "rp") and (to, source) != ("f32", "f64"):
        raise g.fail(f"unknown opcode {ins.op}")
    g.write(dst, TYPE_KIND[to], f"ftz({x})" if "ftz" in mods and to == "f32" else x)


for _k in ("rint", "trunc", "floor", "ceil"):
    RUNTIME[f"round_{_k}"] = getattr(np, _k)


@runtime
def pack_pair(high, low, bits: int):
    """Two codes of `bits` bits in one register, the first source in the upper half."""
    wide = {4: np.uint8, 8: np.uint16, 16: np.uint32}[bits]
    return (np.asarray(high).astype(wide) << wide(bits)) | np.asarray(low).astype(wide)


@runtime
def finite16(x, fmt: str):
    """.satfinite: float32 values clamped to the largest finite f16 or bf16."""
    top = np.float32(65504.0) if fmt == "f16" else np.array(0x7F7F0000, np.uint32).view(np.float32)
    return np.where(np.isnan(x), x, np.clip(x, -top, top))


@runtime
def small_to_f16(code, fmt: str, bits: int):
    """Pairs of small-format codes to f16 pairs, as uint32; low code in the low half."""
    code = np.asarray(code).astype(np.uint32)
    table = numeric.TABLES[fmt]
    mask = np.uint32((1 << bits) - 1) & np.uint32(len(table) - 1)
    low = table[code & mask].astype(np.float16).view(np.uint16).astype(np.uint32)
    high = table[(code >> np.uint32(bits)) & mask].astype(np.float16).view(np.uint16).astype(np.uint32)
    return low | (high << np.uint32(16))


def _packed(g: Generator, ins: Instruction, to: str, source: str, mods: set[str], mode: str) -> None:
    dst, *ops = ins.operands
    relu = "relu" in mods
    if to in ("f16x2", "bf16x2") and source == "f32":
        parts = []
        for op in ops:
            x = g.read(op, "f4")
            x = f"ftz({x})" if "ftz" in mods else x
            x = f"relu({x})" if relu else x
            x = f"finite16({x}, '{to[:-2]}')" if "satfinite" in mods else x
            parts.append(f"f32_to_f16({x}, '{mode}').view('u2')" if to == "f16x2" else f"f32_to_bf16({x}, '{mode}')")
        return g.write(dst, "u4", f"pack_pair({parts[0]}, {parts[1]}, 16)")
    if to == "ue8m0x2":
        if source == "f32":
            parts = [f"f32_to_ue8m0({g.read(op, 'f4')}, '{mode}')" for op in ops]
            return g.write(dst, "u2", f"pack_pair({parts[0]}, {parts[1]}, 8)")
    elif to in _SMALL and source == "f32" and len(ops) == 2:
        parts = [f"f32_to_small({g.read(op, 'f4')}, '{to[:-2]}', {relu})" for op in ops]
        bits = _SMALL[to]
        return g.write(dst, "u2" if bits == 8 else "u1", f"pack_pair({parts[0]}, {parts[1]}, {bits})")
    elif to in _SMALL and source in ("f16x2", "bf16x2"):
        t = g.temp()
        x = g.read(ops[0], TYPE_KIND[source])
        x = f"bf16_to_f32({x})" if source == "bf16x2" else f"{x}.astype('f4')"
        g.line(f"{t} = f32_to_small({x}, '{to[:-2]}', {relu})")
        bits = _SMALL[to]
        return g.write(dst, "u2" if bits == 8 else "u1", f"pack_pair({t}[1::2], {t}[0::2], {bits})")
    elif source in _SMALL and to == "f16x2" and source != "ue8m0x2":
        bits = _SMALL[source]
        x = f"small_to_f16({g.read(ops[0], 'u2' if bits == 8 else 'u1')}, '{source[:-2]}', {bits})"
        return g.write(dst, "u4", x if not relu else f"relu({x}.view('f2')).view('u4')")
    elif source == "ue8m0x2" and to == "bf16x2":
        x = g.read(ops[0], "u2")
        return g.write(dst, "u4", f"scale_to_bf16({x})")
    raise g.fail(f"unknown opcode {ins.op}")


@runtime
def scale_to_bf16(code):
    values = numeric.f32_to_bf16(numeric.TABLES["ue8m0"][np.stack([code & 255, code >> 8], -1)].ravel())
    return values.view(np.uint32)


@emits("cvta")
def _cvta(g: Generator, ins: Instruction) -> None:
    """Generic addresses: a window per space in bits 56 and up; global addresses are the host's own."""
    parts = [p for p in ins.parts[1:] if p not in ("to", "u64", "u32")]
    if len(parts) != 1 or "u64" not in ins.parts:
        raise g.fail(f"unknown opcode {ins.op}")
    space = parts[0].split("::")[0]
    dst, a = ins.operands
    base = {"global": 0, "const": 0, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}.get(space)
    if base is None:
        raise g.fail(f"unknown opcode {ins.op}")
    name = "subtract" if "to" in ins.parts else "add"
    g.ufunc(dst, "u8", name, g.read(a, "u8"), g.constant(base, "u8"))


@emits("isspacep")
def _isspacep(g: Generator, ins: Instruction) -> None:
    space = ins.parts[1].split("::")[0]
    windows = {"global": 0, "shared": 1, "local": 2, "param": 3}
    if space not in windows or len(ins.parts) != 2:
        raise g.fail(f"unknown opcode {ins.op}")
    dst, a = ins.operands
    g.write(dst, "p", f"equal({g.read(a, 'u8')} >> {g.constant(56, 'u8')}, {g.constant(windows[space], 'u8')})")
