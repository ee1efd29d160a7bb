"""Register layouts of wgmma, mma.sync and their operands (PTX ISA 9.7.14 and 9.7.15)."""

from functools import lru_cache

import numpy as np

from .descriptor import values

ELEMENT_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}


@lru_cache(maxsize=64)
def accumulator(n: int, packed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return (row within 16, first column) per accumulator register and lane: (registers, 32)."""
    t = np.arange(32)[None, :]
    r = np.arange(n // 4 if packed else n // 2)[:, None]
    if packed:
        return t // 4 + 8 * (r % 2), t % 4 * 2 + 8 * (r // 2)
    return t // 4 + 8 * (r // 2 % 2), t % 4 * 2 + r % 2 + 8 * (r // 4)


def fragment(words: np.ndarray, halves: int, element: str) -> np.ndarray:
    """Convert A (two halves) or B (one) to float32 (rows, k).

    Words: (parts * halves, lanes) of whole warps, each of 8 * halves rows.
    """
    warps = words.shape[1] // 32
    w = np.ascontiguousarray(words.reshape(-1, halves, warps, 8, 4).transpose(2, 1, 3, 0, 4))
    return values(w.reshape(8 * halves * warps, -1).view(np.uint8), element)


@lru_cache(maxsize=64)
def _places(n: int, warps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return flat indices of an accumulator's values in its register words, and the reverse.

    Values: (16 * warps, n). Words: (n / 2, lanes), of one value each.
    """
    rows, cols = accumulator(n, False)
    at = (16 * np.arange(warps)[:, None] + rows[:, None, :]) * n + cols[:, None, :]
    to_words = at.ravel()
    from_words = np.empty_like(to_words)
    from_words[to_words] = np.arange(to_words.size)
    return from_words.reshape(16 * warps, n), to_words.reshape(len(rows), 32 * warps)


def from_registers(words: np.ndarray, n: int, kind: str) -> np.ndarray:
    """Return the accumulator (16 * warps, n), float32 or int32, of registers (registers, lanes)."""
    warps = words.shape[1] // 32
    if kind != "f16":
        from_words, _ = _places(n, warps)
        return np.take(words, from_words).view(np.int32 if kind == "s32" else np.float32)
    rows, cols = accumulator(n, True)
    out = np.empty((warps, 16, n), np.float32)
    w = words.reshape(len(words), warps, 32).transpose(1, 0, 2)
    pairs = np.ascontiguousarray(w).view(np.float16).reshape(*w.shape, 2)
    out[:, rows, cols], out[:, rows, cols + 1] = pairs[..., 0], pairs[..., 1]
    return out.reshape(16 * warps, n)


def to_registers(d: np.ndarray, kind: str) -> np.ndarray:
    """Convert an accumulator (16 * warps, n) to register words (registers, lanes)."""
    if kind != "f16":
        return np.take(d, _places(d.shape[1], len(d) // 16)[1]).view(np.uint32)
    rows, cols = accumulator(d.shape[1], True)
    d = d.reshape(-1, 16, d.shape[1])
    words = np.stack([d[:, rows, cols], d[:, rows, cols + 1]], -1).astype(np.float16).view(np.uint32)[..., 0]
    return words.transpose(1, 0, 2).reshape(len(rows), -1)


def integer_product(a: np.ndarray, b: np.ndarray, c: np.ndarray | None, saturate: bool) -> np.ndarray:
    """Return a b^T + c as int32, wrapped or saturated.

    a: (..., m, k), b: (..., n, k), c: (..., m, n).
    """
    d: np.ndarray = a.astype(np.int64) @ b.swapaxes(-1, -2).astype(np.int64)
    if c is not None:
        d = d + c
    if saturate:
        d = d.clip(-(2**31), 2**31 - 1)
    return d.astype(np.int32)
