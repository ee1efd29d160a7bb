"""mma.sync: matrix products of one warp, operands in registers (PTX ISA 9.7.14).

Shapes m16n8k4 to m16n8k32 of f16, bf16, tf32, e4m3, e5m2, s8 and u8. The fragments are those of wgmma, a warp at a
time.
"""

from __future__ import annotations

import re

import numpy as np

from .collective import gather_warp
from .descriptor import values
from .product import multiply
from .syntax import Instruction, Reg, Vec
from .translate import Generator, emits, runtime
from .wgmma import from_registers, to_registers

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}


@emits("mma", boundary=True)
def _mma(g: Generator, ins: Instruction) -> None:
    parts = ins.parts[1:]
    shape = next((m for p in parts if (m := re.fullmatch(r"m16n8k(\d+)", p))), None)
    types = [p for p in parts if p in ("f32", "s32", *_BITS)]
    known = {"sync", "aligned", "row", "col", "satfinite"}
    if shape is None or len(types) != 4 or set(parts) - known - {shape[0], *types} or types[0] != types[3]:
        raise g.fail(f"unknown opcode {ins.op}")
    d, a, b, c = ins.operands
    k, bits = int(shape[1]), _BITS[types[1]]
    chunks = k * bits // 128  # 16-byte pieces of a row: one or two
    lists = [x.items if isinstance(x, Vec) else (x,) for x in (d, a, b, c)]
    held = 2 if types[0] == "f16" else 4
    if bits != _BITS[types[2]] or [len(x) for x in lists] != [held, 2 * chunks, chunks, held] or chunks not in (1, 2):
        raise g.fail(f"unknown opcode {ins.op}")
    gather_warp(g)
    for item in lists[0]:
        if not isinstance(item, Reg):
            raise g.fail("mma needs registers here")
    sources = [f"({', '.join(g.read(x, 'u4') for x in items)},)" for items in lists[1:]]
    t = g.temp()
    g.line(f"{t} = warp_product(f, {k}, {types[:3]!r}, {'satfinite' in parts}, {', '.join(sources)})")
    for j, item in enumerate(lists[0]):
        g.write(item, "u4", f"{t}[{j}]")


def _words(regs: tuple, lanes: int) -> np.ndarray:
    return np.stack([np.broadcast_to(np.asarray(r, np.uint32), (lanes,)) for r in regs])


def _rows(words: np.ndarray, halves: int, element: str) -> np.ndarray:
    """Registers (pieces of 16 bytes times row halves, 32) of a warp to float32 (8 * halves, k)."""
    w = words.reshape(-1, halves, 8, 4).transpose(1, 2, 0, 3)
    return values(np.ascontiguousarray(w).reshape(8 * halves, -1).view(np.uint8), element)


@runtime
def warp_product(f, k: int, types: list, satfinite: bool, a: tuple, b: tuple, c: tuple) -> np.ndarray:
    dtype, ta, tb = types
    lanes = -(-f.n // 32) * 32
    a, b, c = (_words(x, lanes) for x in (a, b, c))
    counts = f.cta.machine.counts
    out = np.empty((len(c), lanes), np.uint32)
    for w in range(lanes // 32):
        at = slice(32 * w, 32 * w + 32)
        am, bm = _rows(a[:, at], 2, ta), _rows(b[:, at], 1, tb)
        cm = from_registers(np.ascontiguousarray(c[:, at]), 8, dtype)
        counts.mma_instructions += 1
        counts.mma_flops += 2 * 16 * 8 * k
        if dtype == "s32":
            d = am.astype(np.int64) @ bm.T.astype(np.int64) + cm
            d = (d.clip(-(2**31), 2**31 - 1) if satfinite else d).astype(np.int32)
        elif ta in ("e4m3", "e5m2"):
            d = _through_f16(am, bm, cm, dtype)
        else:
            d = multiply(am, bm, cm, ta, dtype)
        out[:, at] = to_registers(d, dtype)
    return out[:, : f.n]


def _through_f16(a: np.ndarray, b: np.ndarray, c: np.ndarray, dtype: str) -> np.ndarray:
    """8-bit floats on Hopper: ptxas makes f16 products of the even and the odd pairs of columns and adds C last."""
    first = np.arange(a.shape[1]) % 4 < 2
    if a.shape[1] == 16:  # one product of f16 would do; not measured
        return multiply(a, b, c, "f16", dtype)
    t = multiply(a[:, first], b[:, first], None, "f16", dtype)
    t = multiply(a[:, ~first], b[:, ~first], t.astype(np.float32), "f16", dtype)
    kind = np.float16 if dtype == "f16" else np.float32
    with np.errstate(over="ignore"):
        return t.astype(kind) + c.astype(kind)
