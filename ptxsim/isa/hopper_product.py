"""Sums of products with the rounding of Hopper's tensor cores.

NVIDIA documents neither order nor precision of the accumulation. This model was measured on an H200
(tests/ptxsim/products.py) and reproduces every bit. All products of an instruction and the accumulator are
aligned to their largest exponent; a product's exponent is the sum of its factors' exponents. They are truncated toward
zero below a fixed number of fraction bits and summed exactly. The sum is truncated to the accumulator's precision, or
rounded to nearest for f16. The 8-bit floats keep 13 bits throughout.
"""

import contextlib
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

_LEAST = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14}
_NOTHING = -9000  # the exponent of a zero: two of them fit 16 bits
_SMALL = 1 << 13  # multiply-adds up to which one numpy call takes all, such as a few mma.sync
_FEW = 0.6  # share of sums with truncated products up to which these are computed apart
_exactly = [True]  # whether sums are exact, innermost context last


@contextlib.contextmanager
def approximate_sums() -> Iterator[None]:
    """Sum products with numpy inside the block: ten times as fast, less exact."""
    _exactly.append(False)
    try:
        yield
    finally:
        _exactly.pop()


def _exponents(x: np.ndarray, least: int) -> np.ndarray:
    """Return the exponent of each float32; subnormals at `least`, zeros far below all others."""
    e = (np.ascontiguousarray(x, np.float32).view(np.int32) >> 23 & 255) - 127
    return np.where(x == 0, _NOTHING, np.maximum(e, least)).astype(np.int16)


def _cut(x: np.ndarray, bits: int) -> np.ndarray:
    """Truncate float64 to float32 with `bits` fraction bits, toward zero."""
    out = (x.view(np.uint64) & np.uint64(2**64 - 2 ** (52 - bits))).view(np.float64)
    small = np.abs(x) < 2.0**-126
    if small.any():
        step = 2.0 ** (-126 - bits)
        out = np.where(small, np.trunc(x / step) * step, out)
    return out.astype(np.float32)


def _power(exponents: np.ndarray) -> np.ndarray:
    """Return 2 to integer powers within float64's exponents, ten times as fast as np.ldexp."""
    power = exponents.astype(np.int64)
    power += 1023
    power <<= 52
    return power.view(np.float64)


class Sums(NamedTuple):
    """What sums of products need of A and B: (..., m, n) each."""

    top: np.ndarray  # largest exponents of products
    ends: np.ndarray  # exponents, negated, of products' last bits: the largest
    exact: np.ndarray  # float64, if no bit is lost


def multiply(
    a: np.ndarray, b: np.ndarray, c: np.ndarray | None, element: str, accumulator: str, sums: Sums | None = None
) -> np.ndarray:
    """Return a b^T + c as float32 or float16.

    a: (..., m, k), b: (..., n, k), c: (..., m, n). All inputs are float32 values. Leading dimensions are equal:
    products of one shape. `element` is the PTX type of the operands, `accumulator` f32 or f16 (and the type
    returned). `sums` is `prepare(a, b, element)`, which is overwritten.
    """
    if not _exactly[-1]:
        with np.errstate(all="ignore"):
            out = a.astype(np.float32) @ b.swapaxes(-1, -2).astype(np.float32) + (0 if c is None else c)
        return out.astype(np.float16 if accumulator == "f16" else np.float32)
    bits, kept = (13, 13) if element in ("e4m3", "e5m2") else (25, 23)
    least = -14 if accumulator == "f16" else -126
    if sums is None and element != "tf32" and a.size * b.shape[-2] > _SMALL:
        sums = prepare(a, b, element)
    if sums is not None:
        exact = _by_matmul(a, b, c, sums, bits, least)
        if exact is not None:
            with np.errstate(all="ignore"):
                return exact.astype(np.float16) if accumulator == "f16" else _cut(exact, kept)
    ea, eb = _exponents(a, _LEAST[element]), _exponents(b, _LEAST[element])
    ec = None if c is None else _exponents(c, least)
    shape = (*a.shape[:-1], b.shape[-2])
    highest = np.full(shape, -400, np.int16) if ec is None else np.maximum(ec, np.int16(-400))
    if highest.size * a.shape[-1] <= _SMALL:
        both = ea[..., :, None, :] + eb[..., None, :, :]
        np.maximum(highest, both.max(-1), out=highest)
    else:
        ebt, both = np.ascontiguousarray(eb.swapaxes(-1, -2)), np.empty_like(highest)
        for k in range(a.shape[-1]):
            np.add(ea[..., k, None], ebt[..., k, None, :], out=both)
            np.maximum(highest, both, out=highest)
    top = highest.astype(np.int32)
    finite = np.isfinite(a).all() and np.isfinite(b).all() and (c is None or np.isfinite(c).all())
    with np.errstate(all="ignore"):
        shift = bits - top
        scale = _power(shift)
        total = _aligned_sum(a, b, c, scale, _within(shift, 120) and _within(ea, 60) and _within(eb, 60))
        exact = np.divide(total, scale)
        out = exact.astype(np.float16) if accumulator == "f16" else _cut(exact, kept)
        if not finite:
            plain = a.astype(np.float64) @ b.swapaxes(-1, -2).astype(np.float64) + (0 if c is None else c)
            odd = ~np.isfinite(a).all(-1)[..., :, None] | ~np.isfinite(b).all(-1)[..., None, :]
            odd = odd if c is None else odd | ~np.isfinite(c)
            out = np.where(odd, plain.astype(out.dtype), out)
    return out


@lru_cache
def _powers(element: str) -> tuple[np.ndarray, np.ndarray]:
    """Return 256 to each 16-bit code's exponent, and to minus its last bit's.

    All are divided by 8. Codes are bf16, or f16 for other types. Zeros give 0; values far from 1 give NaN.
    """
    codes = np.arange(1 << 16, dtype=np.uint16)
    x = (codes.astype(np.uint32) << 16).view(np.float32) if element == "bf16" else codes.view(np.float16)
    x = x.astype(np.float32)
    bits, e = x.view(np.int32), _exponents(x, _LEAST[element])
    whole = bits & 0x7FFFFF | 0x800000
    last = (bits >> 23 & 255) - 277 + ((whole & -whole).astype(np.float32).view(np.int32) >> 23)
    near = (np.abs(e) <= 50) & np.isfinite(x)
    with np.errstate(all="ignore"):
        both = [np.where(near, np.ldexp(0.125, 8 * n.astype(np.int32)), np.nan) for n in (e, -last)]
    return np.where(x == 0, 0.0, both[0]), np.where(x == 0, 0.0, both[1])


def _highest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the largest sum of exponents per pair of rows, from `_powers`.

    A sum of up to 32 powers of 256 lies below the next one, so its exponent gives the largest.
    """
    sums: np.ndarray = a @ b.swapaxes(-1, -2)
    highest = sums.view(np.uint64)
    highest >>= np.uint64(55)
    return highest.view(np.int64) - 127  # of a NaN 128 or 384


def prepare(a: np.ndarray, b: np.ndarray, element: str) -> Sums:
    """Return what `multiply` needs of A and B, of any type but tf32."""
    a, b = np.ascontiguousarray(a, np.float32), np.ascontiguousarray(b, np.float32)
    powers, last_bits = _powers(element)
    if element == "bf16":
        ca, cb = a.view(np.uint32) >> 16, b.view(np.uint32) >> 16
    else:
        ca, cb = a.astype(np.float16).view(np.uint16), b.astype(np.float16).view(np.uint16)
    with np.errstate(all="ignore"):
        exact = a.astype(np.float64) @ b.swapaxes(-1, -2).astype(np.float64)
    return Sums(_highest(powers[ca], powers[cb]), _highest(last_bits[ca], last_bits[cb]), exact)


def _by_matmul(
    a: np.ndarray, b: np.ndarray, c: np.ndarray | None, sums: Sums, bits: int, least: int
) -> np.ndarray | None:
    """Return truncated float64 sums (..., m, n); None if they need the general way.

    A float64 matrix product is exact where no product loses bits. Other sums are computed term by term.
    """
    top, ends, exact = sums
    if c is not None:
        c = np.ascontiguousarray(c, np.float32)
        e = c.view(np.int32) >> 23
        e &= 255
        if int(np.minimum.reduce(e, axis=None)) == 0 or int(np.maximum.reduce(e, axis=None)) == 255:
            if not np.isfinite(c).all():
                return None
            e = _exponents(c, least).astype(np.int32)
        else:
            e -= 127
            if least > -126:
                np.maximum(e, least, out=e)
        np.maximum(top, e, out=top)
    shift = (bits - top).astype(np.int32)
    if np.maximum.reduce(shift, axis=None) >= 120 or np.minimum.reduce(shift, axis=None) <= -100:
        return None
    cut = np.flatnonzero(ends > shift)
    if len(cut) > _FEW * shift.size:
        return None
    shift += 127
    shift <<= 23
    scale = shift.view(np.float32)
    if len(cut):
        m, n, k = *exact.shape[-2:], a.shape[-1]
        rows = cut // n
        by = scale.ravel()[cut]
        columns = cut - rows * n
        if exact.ndim > 2:
            columns += rows // m * n
        terms = a.reshape(-1, k)[rows].astype(np.float32, copy=False)
        terms *= b.reshape(-1, k)[columns]
        terms *= by[:, None]
        np.trunc(terms, out=terms)
        exact.ravel()[cut] = terms.astype(np.float64) @ np.ones(k) / by
    if c is not None:
        terms = c * scale
        np.trunc(terms, out=terms)
        terms /= scale
        exact += terms
    exact += 0.0  # a zero is positive
    return exact


def _within(exponents: np.ndarray, limit: int) -> bool:
    """Return whether all exponents of nonzero values are within (-limit, limit)."""
    if exponents.min() > -limit and exponents.max() < limit:
        return True
    return bool((np.abs(exponents[exponents != _NOTHING]) < limit).all())


def _large_sum(a: np.ndarray, bt: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the int64 sum (..., m, n) of truncated a*b*scale, by k for caches."""
    total = np.zeros(scale.shape, np.int64)
    term, whole, part = np.empty_like(scale), np.empty(scale.shape, np.int32), np.empty(scale.shape, np.int32)
    for first in range(0, a.shape[-1], 8):  # a term is below 2**27: eight fit in 32 bits
        part[:] = 0
        for k in range(first, min(first + 8, a.shape[-1])):
            np.multiply(a[..., k, None], bt[..., k, None, :], out=term)
            np.multiply(term, scale, out=term)
            np.copyto(whole, term, casting="unsafe")
            np.add(part, whole, out=part)
        total += part
    return total


def _aligned_sum(a: np.ndarray, b: np.ndarray, c: np.ndarray | None, power: np.ndarray, narrow: bool) -> np.ndarray:
    """Return the int64 sum (..., m, n) of truncated a*b*power and c*power.

    With `narrow` exponents the products are exact in float32, and the truncated part is below one.
    """
    scale = power.astype(np.float32) if narrow else power
    dtype = scale.dtype
    a, b = a.astype(dtype), b.astype(dtype)
    if power.size * a.shape[-1] <= _SMALL:
        terms = a[..., :, None, :] * b[..., None, :, :]
        terms *= scale[..., None]
        total = terms.astype(np.int32).sum(-1, dtype=np.int64)
    else:
        total = _large_sum(a, np.ascontiguousarray(b.swapaxes(-1, -2)), scale)
    if c is not None:
        total += np.multiply(c, power).astype(np.int64)  # which cuts toward zero
    return total
