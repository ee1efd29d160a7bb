"""Integer, bit-field and byte operations on arrays of lanes (PTX 9.7.1, 9.7.2, 9.7.8)."""

import numpy as np

_U4, _U8 = np.uint32, np.uint64


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the quotient truncated toward zero; all ones for b = 0 (sm_90)."""
    zero = b == 0
    b = np.where(zero, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        q = a // b
    else:
        q = a // b
        q = q + ((q < 0) & (q * b != a)).astype(q.dtype)
    return np.where(zero, ~a.dtype.type(0), q)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    return np.where(zero, a, a - divide(a, safe) * safe)


def mulhi64(a: np.ndarray, b: np.ndarray, signed: bool) -> np.ndarray:
    """Return the high 64 bits of the 128-bit product."""
    m = np.uint64(0xFFFFFFFF)
    s = np.uint64(32)
    ua, ub = a.view(_U8), b.view(_U8)
    al, ah, bl, bh = ua & m, ua >> s, ub & m, ub >> s
    t = ah * bl + ((al * bl) >> s)
    w = al * bh + (t & m)
    hi = ah * bh + (t >> s) + (w >> s)
    if signed:
        hi = hi - np.where(a.view(np.int64) < 0, ub, 0).astype(_U8) - np.where(b.view(np.int64) < 0, ua, 0).astype(_U8)
    return hi


def prmt(a: np.ndarray, b: np.ndarray, sel: np.ndarray, mode: str = "") -> np.ndarray:
    """Permute the bytes of two 32-bit words; modes f4e, b4e, rc8, ecl, ecr, rc16."""
    ab = a.astype(_U8) | (b.astype(_U8) << np.uint64(32))
    sel = sel.astype(_U4)
    if mode == "" and not sel.ndim and ab.ndim and not int(sel) & 0x8888:  # what compilers write: bytes are moved
        taken = [int(sel) >> 4 * i & 7 for i in range(4)]
        return np.ascontiguousarray(ab.view(np.uint8).reshape(-1, 8)[:, taken]).view(_U4)[:, 0]
    out = np.zeros(np.broadcast(ab, sel).shape, _U4)
    s3 = sel & _U4(3)
    for i in range(4):
        if mode == "":
            nibble = (sel >> _U4(4 * i)) & _U4(15)
        elif mode == "f4e":
            nibble = s3 + _U4(i)
        elif mode == "b4e":
            nibble = (s3 - _U4(i)) & _U4(7)
        elif mode == "rc8":
            nibble = s3
        elif mode == "ecl":
            nibble = np.maximum(s3, _U4(i))
        elif mode == "ecr":
            nibble = np.minimum(s3, _U4(i))
        else:
            nibble = (s3 & _U4(1)) * _U4(2) + _U4(i & 1)
        byte = (ab >> ((nibble & _U4(7)).astype(_U8) * np.uint64(8))) & np.uint64(255)
        if mode == "":
            sign = (nibble & _U4(8)) != 0
            byte = np.where(sign, np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0)), byte)
        out |= byte.astype(_U4) << _U4(8 * i)
    return out


def lop3(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: int) -> np.ndarray:
    """Return the bitwise function of three words with truth table `table` (a byte)."""
    out = np.zeros(np.broadcast(a, b, c).shape, _U4)
    for i in range(8):
        if table >> i & 1:
            out |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return out


def popc(x: np.ndarray) -> np.ndarray:
    return np.bitwise_count(x).astype(_U4)


def bfind(x: np.ndarray, shift: bool = False) -> np.ndarray:
    """Return the position of the most significant non-sign bit, 0xffffffff if there is none."""
    if x.dtype.kind == "i":
        x = np.where(x < 0, ~x, x)
    bits = x.dtype.itemsize * 8
    u = x.astype(_U8)
    pos = np.zeros(x.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        big = u >> np.uint64(step) != 0
        pos += np.where(big, step, 0)
        u = np.where(big, u >> np.uint64(step), u)
    pos = np.where(u == 0, -1, pos)
    if shift:
        pos = np.where(pos < 0, pos, bits - 1 - pos)
    return pos.astype(np.int32).view(_U4)


def brev(x: np.ndarray) -> np.ndarray:
    bits = x.dtype.itemsize * 8
    out = np.zeros_like(x)
    one = x.dtype.type(1)
    for i in range(bits):
        out |= ((x >> x.dtype.type(i)) & one) << x.dtype.type(bits - 1 - i)
    return out


def funnel(lo: np.ndarray, hi: np.ndarray, n: np.ndarray, left: bool, wrap: bool) -> np.ndarray:
    """Shift a 64-bit word hi:lo by n; return the upper (left) or lower half (shf)."""
    n = np.asarray(n, _U4)
    n = (n & _U4(31)) if wrap else np.minimum(n, _U4(32))
    word = lo.astype(_U8) | (hi.astype(_U8) << np.uint64(32))
    n = n.astype(_U8)
    r = (word << n) >> np.uint64(32) if left else word >> n
    return r.astype(_U4)


def _amount(x: np.ndarray, bits: int) -> np.ndarray:
    """Return a bit field's position or length: low eight bits, all in 64-bit forms.

    PTX ISA for the former; an H200 does the latter.
    """
    x = np.asarray(x).astype(np.int64)
    return x & 255 if bits == 32 else x


def bfe(a: np.ndarray, pos: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Extract a bit field; sign-extend it for signed types."""
    bits = a.dtype.itemsize * 8
    pos, length = _amount(pos, bits), _amount(length, bits)
    signed = a.dtype.kind == "i"
    last = np.minimum(pos + length - 1, bits - 1)
    u = a.view(f"u{bits // 8}").astype(_U8)
    field = np.where(pos >= bits, np.uint64(0), u >> pos.clip(0, 63).astype(_U8))
    width = np.minimum(length, (bits - pos).clip(0))
    mask = np.where(width >= 64, np.uint64(2**64 - 1), (np.uint64(1) << width.clip(0, 63).astype(_U8)) - np.uint64(1))
    field = field & mask
    if signed:
        sign = (u >> last.clip(0, 63).astype(_U8)) & np.uint64(1)
        field = np.where((sign == 1) & (length > 0), field | ~mask, field)
    return field.astype(f"u{bits // 8}").view(a.dtype)


def bfi(a: np.ndarray, b: np.ndarray, pos: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Insert bits 0..length of a into b at pos."""
    bits = b.dtype.itemsize * 8
    pos = _amount(pos, bits)
    length = np.minimum(_amount(length, bits), (bits - pos).clip(0))
    mask = np.where(length >= 64, np.uint64(2**64 - 1), (np.uint64(1) << length.clip(0, 63).astype(_U8)) - np.uint64(1))
    mask = mask << pos.clip(0, 63).astype(_U8)
    out = (b.astype(_U8) & ~mask) | ((a.astype(_U8) << pos.clip(0, 63).astype(_U8)) & mask)
    return np.where(pos >= bits, b.astype(_U8), out).astype(b.dtype)


def dot_bytes(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, signed: tuple[bool, bool], terms: int, skip: int
) -> np.ndarray:
    """Return c plus `terms` products of a with bytes of b, modulo 2^32.

    a holds bytes for four terms, 16-bit halves for two; `signed` is the signedness of a and b.
    """
    out = np.asarray(c).astype(_U4)
    for n in range(terms):
        x = _element(a, 32 // terms, n, signed[0])
        y = _element(b, 8, skip + n, signed[1])
        out = out + (x * y).astype(_U4)
    return out


def _element(word: np.ndarray, width: int, n: int, signed: bool) -> np.ndarray:
    """Return element n (`width` bits) of 32-bit words as int64."""
    x = np.asarray(word).astype(np.int64) >> (width * n) & ((1 << width) - 1)
    return x - ((x >> (width - 1) & 1) << width) if signed else x
