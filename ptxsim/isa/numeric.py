"""Number formats and arithmetic on numpy arrays, as PTX defines them (PTX ISA 9.7).

Functions take and return arrays of one element per lane (two for packed types, low half first). NaN
payloads are not modelled.
"""

import numpy as np

from ..core.counting import count_nonzero

_U4, _U8, _F4, _F8 = np.uint32, np.uint64, np.float32, np.float64
_HALFWAY, _LOW29 = np.uint64(0x10000000), np.uint64(0x1FFFFFFF)
_MIN_NORMAL = np.float64(2.0**-126)
_MAGNITUDE, _ONE, _SUBNORMALS = np.uint32(0x7FFFFFFF), np.uint32(1), np.uint32(0x7FFFFF)


def to_odd(s: np.ndarray, err: np.ndarray) -> np.ndarray:
    """Round a float64 sum to odd, from the rounded sum and its exact error."""
    bits = s.view(_U8).copy()
    inexact = (err != 0) & np.isfinite(s) & (bits & np.uint64(1) == 0)
    away = (err > 0) == (s > 0)
    bits[inexact & away] += np.uint64(1)
    bits[inexact & ~away] -= np.uint64(1)
    return bits.view(_F8)


def two_sum_error(a: np.ndarray, b: np.ndarray, s: np.ndarray) -> np.ndarray:
    bb = s - a
    return (a - (s - bb)) + (b - bb)


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Compute float32 fma with one rounding to nearest even.

    The product of two float32 is exact in float64. The sum rounds in float64 and again to float32. This is wrong
    only at a midpoint or among the subnormals, so those lanes use round-to-odd (Boldo and Melquiond, 2008).
    """
    p = np.multiply(a, b, dtype=_F8)
    s = np.add(p, c, dtype=_F8)
    near = ((s.view(_U8) & _LOW29) == _HALFWAY) | (np.abs(s) < _MIN_NORMAL)
    if count_nonzero(near):
        if s.ndim:
            p, c = np.broadcast_to(p, s.shape)[near], np.broadcast_to(c, s.shape)[near].astype(_F8)
            s[near] = to_odd(s[near], two_sum_error(p, c, s[near]))
        else:
            s = to_odd(s, two_sum_error(p, c.astype(_F8), s))
    return s.astype(_F4)


def _directed(exact: np.ndarray, err: np.ndarray, mode: str) -> np.ndarray:
    """Round float64 value plus error to float32: toward zero (rz), down (rm) or up (rp)."""
    odd = to_odd(np.atleast_1d(exact), np.atleast_1d(err))
    r = odd.astype(_F4)
    above = np.where(r < odd, np.nextafter(r, _F4(np.inf)), r)
    below = np.where(r > odd, np.nextafter(r, _F4(-np.inf)), r)
    if mode == "rz":
        return np.where(odd >= 0, below, above)
    return above if mode == "rp" else below


def directed_odd32(exact: np.ndarray, err: np.ndarray) -> np.ndarray:
    """Round float64 value plus error to odd in float32, safe for a second, narrower rounding."""
    odd = to_odd(np.atleast_1d(exact), np.atleast_1d(err))
    down = np.ascontiguousarray(_directed(odd, np.zeros_like(odd), "rz"))
    inexact = (down.astype(_F8) != odd) & np.isfinite(odd)
    return (down.view(_U4) | inexact.astype(_U4)).view(_F4)


def add32(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    a, b = np.asarray(a, _F8), np.asarray(b, _F8)
    s = a + b
    return _signed_zero(a, b, _directed(s, two_sum_error(a, b, s), mode), mode)


def _signed_zero(a: np.ndarray, b: np.ndarray, r: np.ndarray, mode: str) -> np.ndarray:
    """Give exact zero sums the sign of IEEE 754, 6.3."""
    if mode != "rm":
        return r
    return np.where((a + b == 0) & (np.signbit(a) | np.signbit(b)), _F4(-0.0), r)


def f64_to_f32(x: np.ndarray, mode: str) -> np.ndarray:
    """Round float64 to float32, to nearest even or by rz, rm, rp."""
    if mode == "rn":
        return x.astype(_F4)
    return _directed(x, np.zeros_like(x), mode)


def mul32(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    p = np.multiply(a, b, dtype=_F8)
    return _directed(p, np.zeros_like(p), mode)


def fma32_directed(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str) -> np.ndarray:
    p, c = np.multiply(a, b, dtype=_F8), np.asarray(c, _F8)
    s = p + c
    return _signed_zero(p, c, _directed(s, two_sum_error(p, np.broadcast_to(c, p.shape), s), mode), mode)


def fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Compute float64 fma lane by lane with exact rationals (rare in these kernels)."""
    from fractions import Fraction

    out = np.empty(np.broadcast(a, b, c).shape, _F8)
    for i, (x, y, z) in enumerate(np.broadcast(a, b, c)):
        if np.isfinite(x) and np.isfinite(y) and np.isfinite(z):
            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            try:
                out[i] = float(exact) if exact else float(x) * float(y) + float(z)
            except OverflowError:
                out[i] = np.inf if exact > 0 else -np.inf
        else:
            out[i] = x * y + z
    return out


def ftz(x: np.ndarray) -> np.ndarray:
    """Flush subnormal float32 to zero, keeping the sign."""
    x = np.asarray(x, _F4)
    if not x.ndim:
        return np.where(np.abs(x) < _MIN_NORMAL, np.copysign(_F4(0), x), x)
    below = x.view(_U4) & _MAGNITUDE
    below -= _ONE  # the bits of a zero are then the largest
    small = below < _SUBNORMALS
    return np.where(small, np.copysign(_F4(0), x), x) if count_nonzero(small) else x


def minmax(a: np.ndarray, b: np.ndarray, largest: bool, nan: bool) -> np.ndarray:
    """Return min or max with -0 < +0; with `nan` NaN wins, else it loses."""
    r = (np.maximum if nan else np.fmax)(a, b) if largest else (np.minimum if nan else np.fmin)(a, b)
    zero = (a == b) & (a == 0)
    if count_nonzero(zero):
        negative = np.signbit(a) & np.signbit(b) if largest else np.signbit(a) | np.signbit(b)
        r = np.where(zero, np.where(negative, r.dtype.type(-0.0), r.dtype.type(0.0)), r)
    return r


def bf16_to_f32(x: np.ndarray) -> np.ndarray:
    return (x.astype(_U4) << _U4(16)).view(_F4)


def f32_to_bf16(x: np.ndarray, mode: str = "rn") -> np.ndarray:
    """Round float32 to bfloat16 bits (uint16), to nearest even or toward zero."""
    x = np.ascontiguousarray(x, _F4)
    u = x.view(_U4)
    if mode == "rz":
        r = u >> _U4(16)
    else:
        r = (u + _U4(0x7FFF) + ((u >> _U4(16)) & _U4(1))) >> _U4(16)
    return np.where(np.isnan(x), _U4(0x7FFF), r).astype(np.uint16)


def f32_to_f16(x: np.ndarray, mode: str = "rn") -> np.ndarray:
    """Round float32 to float16, to nearest even or toward zero."""
    h = x.astype(np.float16)
    if mode == "rz":
        over = np.abs(h.astype(_F4)) > np.abs(x)
        h = np.where(over, np.nextafter(h, np.float16(0)), h)
    return h


def f32_to_tf32(x: np.ndarray, mode: str = "rna", finite: bool = False) -> np.ndarray:
    """Round float32 to tf32 in float32: rna, rn, or rz (truncated).

    `finite` (.satfinite) keeps the result within the largest finite tf32.
    """
    u = np.ascontiguousarray(x, _F4).view(_U4)
    to_even = _U4(0xFFF) + ((u >> _U4(13)) & _U4(1))
    r = (u + {"rna": _U4(0x1000), "rz": _U4(0)}.get(mode, to_even)) & _U4(0xFFFFE000)
    r = np.where(np.isfinite(x), r, u)
    if finite:
        top = _U4(0x7F7FE000)
        r = np.where(np.isnan(x), u, np.where((r & _U4(0x7FFFFFFF)) > top, (u & _U4(0x80000000)) | top, r))
    return r.view(_F4)


def _small_table(exponent: int, mantissa: int, bias: int, special: str) -> np.ndarray:
    """Return the float32 value of every code of a small float (OCP FP8, MX)."""
    n = 1 + exponent + mantissa
    out = np.zeros(1 << n, _F4)
    for code in range(1 << n):
        sign = -1.0 if code >> (n - 1) else 1.0
        e, m = (code >> mantissa) & ((1 << exponent) - 1), code & ((1 << mantissa) - 1)
        value = m * 2.0 ** (1 - bias - mantissa) if e == 0 else (1 + m / (1 << mantissa)) * 2.0 ** (e - bias)
        if special == "fn" and e == (1 << exponent) - 1 and m == (1 << mantissa) - 1:
            value = np.nan
        if special == "ieee" and e == (1 << exponent) - 1:
            value = np.nan if m else np.inf
        out[code] = sign * value
    return out


TABLES = {
    "e4m3": _small_table(4, 3, 7, "fn"),
    "e5m2": _small_table(5, 2, 15, "ieee"),
    "e2m1": _small_table(2, 1, 1, ""),
    "e3m2": _small_table(3, 2, 3, ""),
    "e2m3": _small_table(2, 3, 1, ""),
}


def _steps(table: np.ndarray) -> np.ndarray:
    """Return the least float32 that rounds to each later code, ties to even."""
    half = table[: len(table) // 2]
    finite = half[np.isfinite(half)]
    middle = (finite[:-1] + finite[1:]) / _F4(2)  # exact: neighbours differ by less than their bits
    odd = np.arange(1, len(finite)) % 2 == 1
    return np.where(odd, np.nextafter(middle, _F4(np.inf)), middle)


_STEPS = {name: _steps(table) for name, table in TABLES.items()}
TABLES["ue8m0"] = np.array([2.0 ** (c - 127) for c in range(255)] + [np.nan], _F4)
TABLES["ue4m3"] = np.concatenate([TABLES["e4m3"][:128], TABLES["e4m3"][:128]])


def f32_to_small(x: np.ndarray, fmt: str, relu: bool = False) -> np.ndarray:
    """Round float32 to e4m3, e5m2, e2m1, e3m2 or e2m3 codes (uint8), to nearest even, saturating.

    A NaN becomes the format's NaN; formats without one take the positive maximum (PTX ISA, cvt).
    """
    half, last, steps = len(TABLES[fmt]) // 2, len(_STEPS[fmt]), _STEPS[fmt]
    x = np.asarray(x, _F4)
    code = np.asarray(np.searchsorted(steps, np.abs(x), side="right"))
    if relu:
        code[x < 0] = 0
    else:
        code[np.signbit(x)] += half
    code[np.isnan(x)] = half - 1 if fmt in ("e4m3", "e5m2") else last
    return code.astype(np.uint8)


def f32_to_ue8m0(x: np.ndarray, mode: str) -> np.ndarray:
    """Round float32 to power-of-two codes (uint8) by rz or rp; NaN is 255."""
    mag = np.abs(x.astype(_F8))
    mantissa, e = np.frexp(mag)
    code = e - 1 + 127
    if mode == "rp":
        code = np.where(mantissa > 0.5, code + 1, code)
    code = np.where(mag == 0, 0, code.clip(0, 254))
    return np.where(np.isnan(x), 255, np.where(np.isinf(x), 254, code)).astype(np.uint8)


def float_to_int(x: np.ndarray, dtype: np.dtype, mode: str) -> np.ndarray:
    """Round by rni, rzi, rmi or rpi, and clamp to the range of `dtype`.

    A NaN gives 0 or, from f64 or to 64 bits, the top bit alone (PTX ISA, cvt).
    """
    nan = np.isnan(x)
    top = dtype.type(1 << (8 * dtype.itemsize - 1)) if dtype.kind == "u" else np.iinfo(dtype).min
    invalid = top if x.dtype == _F8 or dtype.itemsize == 8 else dtype.type(0)
    y = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](x.astype(_F8))
    info = np.iinfo(dtype)
    y = np.where(np.isnan(y), 0.0, y)
    low, high = y <= float(info.min), y >= float(info.max)
    r = np.where(low | high, 0.0, y).astype(dtype)
    r = np.where(low, dtype.type(info.min), np.where(high, dtype.type(info.max), r))
    return np.where(nan, invalid, r).astype(dtype)


def int_to_f32(x: np.ndarray, mode: str) -> np.ndarray:
    """Round integers to float32 in a mode; numpy itself rounds to nearest even."""
    r = x.astype(_F4)
    if mode == "rn":
        return r
    exact = x.astype(object)
    out = r.copy()
    for i, v in enumerate(exact):
        got = int(r[i])
        if mode == "rz" and abs(got) > abs(v):
            out[i] = np.nextafter(r[i], _F4(0))
        elif mode == "rm" and got > v:
            out[i] = np.nextafter(r[i], _F4(-np.inf))
        elif mode == "rp" and got < v:
            out[i] = np.nextafter(r[i], _F4(np.inf))
    return out
