"""Instruction descriptors of tcgen05.mma, and matrix elements (fields: CUTLASS, BSD headers)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..memory.matrix_operand import Chunks, gather, matrix
from .numeric import TABLES, bf16_to_f32

_F8F6F4 = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_ELEMENTS = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "i8": {0: "u8", 1: "s8"},
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}


@dataclass(frozen=True)
class Descriptor:
    """A decoded instruction descriptor of D = A B^T.

    A is (m, k), B is (n, k), D is (m, n). `a_mn` and `b_mn` say that M or N runs along an operand's rows. `scale`
    is the scale factors' type; `a_id` and `b_id` are the bytes of a word where A's and B's begin.
    """

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
        """Bits of an element in shared memory; 8 for padded 4- and 6-bit types."""
        return {"f16": 16, "tf32": 32, "mxf4": 4, "mxf4nvf4": 4}.get(self.kind, 8)


@lru_cache(maxsize=4096)
def instruction(kind: str, v: int) -> Descriptor:
    """Decode a 32-bit instruction descriptor. Raises ValueError for sparse or unknown forms."""
    if v >> 2 & 1:
        raise ValueError("sparse tcgen05.mma")
    scaled = kind.startswith("mx")
    names = _ELEMENTS.get(kind, _F8F6F4)
    # bit 12 is reserved where types are of mxf4; NVIDIA's Primitives set it
    a, b = names.get(v >> 7 & 7), names.get(v >> 10 & (3 if kind in ("mxf4", "mxf4nvf4") else 7))
    d = "f32" if scaled else {0: "f16", 1: "f32", 2: "s32"}.get(v >> 4 & 3)
    saturate = bool(v >> 3 & 1)
    if a is None or b is None or d is None or (not scaled and (v >> 30 or (saturate and kind != "i8"))):
        raise ValueError(f"instruction descriptor {v:#x} of kind::{kind}")
    k = {"f16": 16, "tf32": 8, "mxf4": 64, "mxf4nvf4": 64}.get(kind, 32)
    if not scaled and v >> 29 & 1:  # of sm_107a; elsewhere the bit is reserved
        if kind != "f8f6f4":
            raise ValueError(f"instruction descriptor {v:#x} of kind::{kind}")
        k *= 2
    if scaled and v >> 31:
        raise ValueError(f"instruction descriptor {v:#x}: K of 96")
    return Descriptor(
        kind=kind,
        m=(v >> 24 & 31) << 4,
        n=(v >> 17 & 63) << 3,
        k=k,
        a=a,
        b=b,
        d=d,
        a_mn=bool(v >> 15 & 1),
        b_mn=bool(v >> 16 & 1),
        a_negate=bool(v >> 13 & 1),
        b_negate=bool(v >> 14 & 1),
        scale=("ue8m0" if v >> 23 & 1 else "ue4m3") if scaled else "",
        a_id=v >> 29 & 3 if scaled else 0,
        b_id=v >> 4 & 3 if scaled else 0,
        saturate=kind == "i8" and saturate,
    )


def values(raw: np.ndarray, fmt: str) -> np.ndarray:
    """Decode bytes (rows, bytes) of a format to float32 (rows, elements)."""
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


PACKED = {"e2m1": 4, "e2m3": 6, "e3m2": 6}  # element bits of types that f8f6f4 pads to 16 elements per 16 bytes


def unpacked(raw: np.ndarray, bits: int) -> np.ndarray:
    """Return one code per byte, from elements packed at the start of every 16 bytes.

    PTX ISA 9.7.16, «Packing formats», for kinds f8f6f4 and mxf8f6f4: the layout of TMA's padded types.
    Raises ValueError for rows that are no multiple of 16 bytes.
    """
    if raw.shape[1] % 16:
        raise ValueError(f"rows of {raw.shape[1]} bytes of {bits}-bit elements, which come in 16 bytes")
    chunks = raw.reshape(-1, 16)[:, : 2 * bits].astype(np.uint32)
    group = chunks.reshape(len(chunks), -1, bits // 2)  # of 4 elements: 2 or 3 bytes
    words = group[..., 0]
    for n in range(1, bits // 2):
        words = words | group[..., n] << np.uint32(8 * n)
    codes = words[..., None] >> np.arange(0, 4 * bits, bits, dtype=np.uint32) & np.uint32((1 << bits) - 1)
    return codes.astype(np.uint8).reshape(raw.shape)


class Values(NamedTuple):
    """A matrix operand as float32 (extent, k), and its 16-byte chunks of shared memory."""

    values: np.ndarray
    chunks: Chunks


def operand_values(
    shared: np.ndarray, desc: int, sm100: bool, mn: bool, extent: int, k: int, bits: int, fmt: str
) -> Values:
    """Read a shared-memory operand of `extent` rows or columns of `bits`-bit elements.

    `mn` says that M or N runs along its rows. Raises ValueError for an unknown descriptor, IndexError for
    one that reaches outside the CTA's shared memory.
    """
    raw, read_chunks = gather(shared, matrix(desc, sm100), mn, extent, k, bits)
    if bits == 8 and fmt in PACKED:
        raw = unpacked(raw, PACKED[fmt])
    v = values(raw, "e2m1x2" if bits == 4 else fmt)
    return Values(v.T if mn else v, read_chunks)
