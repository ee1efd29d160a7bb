"""Instruction descriptors of tcgen05.mma and the elements of matrix operands (fields: CUTLASS, BSD headers)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .numeric import TABLES, bf16_to_f32
from .operand import gather, matrix

_F8F6F4 = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}


@dataclass(frozen=True)
class Descriptor:
    """A decoded instruction descriptor."""

    kind: str
    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    a_mn: bool
    b_mn: bool
    a_negate: bool
    b_negate: bool
    scale: str
    a_id: int
    b_id: int
    saturate: bool = False

    @property
    def bits(self) -> int:
        """Bits an element takes in shared memory (4- and 6-bit types of f8f6f4 take 8)."""
        return {"f16": 16, "tf32": 32, "mxf4": 4, "mxf4nvf4": 4}.get(self.kind, 8)


@lru_cache(maxsize=4096)
def instruction(kind: str, v: int) -> Descriptor:
    """Decode the 32-bit instruction descriptor of a kind. Raises ValueError for sparse or unknown forms."""
    if v >> 2 & 1:
        raise ValueError("sparse tcgen05.mma")
    a, b = v >> 7 & 7, v >> 10 & 7
    scaled = kind.startswith("mx")
    if kind == "f16":
        names = {0: "f16", 1: "bf16"}
    elif kind == "tf32":
        names = {2: "tf32"}
    elif kind == "i8":
        names = {0: "u8", 1: "s8"}
    elif kind in ("mxf4", "mxf4nvf4"):
        names = {1: "e2m1"}
    else:
        names = _F8F6F4
    d = "f32" if scaled else {0: "f16", 1: "f32", 2: "s32"}.get(v >> 4 & 3)
    if (
        a not in names
        or b not in names
        or d is None
        or (kind != "i8" and not scaled and v >> 3 & 1)
        or (not scaled and v >> 30)
    ):
        raise ValueError(f"instruction descriptor {v:#x} of kind::{kind}")
    k = {"f16": 16, "tf32": 8, "mxf4": 64, "mxf4nvf4": 64}.get(kind, 32)
    if scaled and v >> 31:
        raise ValueError(f"instruction descriptor {v:#x}: K of 96")
    return Descriptor(
        kind,
        (v >> 24 & 31) << 4,
        (v >> 17 & 63) << 3,
        k,
        names[a],
        names[b],
        d,
        bool(v >> 15 & 1),
        bool(v >> 16 & 1),
        bool(v >> 13 & 1),
        bool(v >> 14 & 1),
        ("ue8m0" if v >> 23 & 1 else "ue4m3") if scaled else "",
        v >> 29 & 3 if scaled else 0,
        v >> 4 & 3 if scaled else 0,
        kind == "i8" and bool(v >> 3 & 1),
    )


def values(raw: np.ndarray, fmt: str) -> np.ndarray:
    """Elements of a format out of bytes (rows, bytes), as float32 (rows, elements)."""
    if fmt == "f16":
        return raw.view(np.float16).astype(np.float32)
    if fmt == "bf16":
        return bf16_to_f32(raw.view(np.uint16))
    if fmt == "tf32":
        return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if fmt == "u8":
        return raw.astype(np.float32)
    if fmt == "s8":
        return raw.view(np.int8).astype(np.float32)
    if fmt == "e2m1x2":
        out = np.empty((raw.shape[0], raw.shape[1] * 2), np.float32)
        out[:, 0::2], out[:, 1::2] = TABLES["e2m1"][raw & 15], TABLES["e2m1"][raw >> 4]
        return out
    table = TABLES[fmt]
    return table[raw & np.uint8(len(table) - 1)]


def operand_values(cta, desc: int, sm100: bool, mn: bool, extent: int, k: int, bits: int, fmt: str):
    """(float32 (extent, k), chunk numbers) of a shared-memory operand."""
    raw, index = gather(cta, matrix(desc, sm100), mn, extent, k, bits)
    v = values(raw, "e2m1x2" if bits == 4 else fmt)
    return (v.T if mn else v), index
