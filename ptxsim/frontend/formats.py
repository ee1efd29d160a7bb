"""Register formats of generated code, named after PTX types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """A numpy element type; a value of `bits` bits holds `elements`, low first."""

    name: str
    dtype: np.dtype[Any]
    bits: int
    elements: int = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name, since code compares formats by identity."""
        return _format_named, (self.name,)

    @property
    def register_bits(self) -> int:
        """Width of the register that holds a value: bytes live in 16-bit registers."""
        return 16 if self.bits == 8 else self.bits

    @property
    def numpy(self) -> str:
        """The element type as numpy spells it."""
        return self.dtype.str[1:]

    @property
    def is_integer(self) -> bool:
        """Return whether it is one whole number; predicates and packed formats are not."""
        return self.dtype.kind in "ui" and self.elements == 1

    @property
    def is_signed(self) -> bool:
        return self.dtype.kind == "i"

    @property
    def is_float(self) -> bool:
        return self.dtype.kind == "f"

    @property
    def unsigned(self) -> Format:
        """The same bits as one unsigned integer."""
        return UNSIGNED[self.bits]

    @property
    def double(self) -> Format:
        """The integer format of twice the width and equal signedness."""
        return (SIGNED if self.is_signed else UNSIGNED)[2 * self.bits]


def _format_named(name: str) -> Format:
    return _NAMED[name]


def _format(name: str, numpy: str, bits: int, elements: int = 1) -> Format:
    return Format(name, np.dtype(numpy), bits, elements)


PRED = _format("pred", "?", 1)
U8, S8 = _format("u8", "u1", 8), _format("s8", "i1", 8)
U16, S16, F16 = _format("u16", "u2", 16), _format("s16", "i2", 16), _format("f16", "f2", 16)
U32, S32, F32 = _format("u32", "u4", 32), _format("s32", "i4", 32), _format("f32", "f4", 32)
U64, S64, F64 = _format("u64", "u8", 64), _format("s64", "i8", 64), _format("f64", "f8", 64)
F16X2, U16X2, F32X2 = _format("f16x2", "f2", 32, 2), _format("u16x2", "u2", 32, 2), _format("f32x2", "f4", 64, 2)
B128 = _format("b128", "u8", 128, 2)

FORMATS = (PRED, U8, S8, U16, S16, F16, U32, S32, F32, U64, S64, F64, F16X2, U16X2, F32X2, B128)
_NAMED = {fmt.name: fmt for fmt in FORMATS}
UNSIGNED = {1: PRED, 8: U8, 16: U16, 32: U32, 64: U64, 128: B128}
SIGNED = {8: S8, 16: S16, 32: S32, 64: S64}

# The format a PTX type is computed in; bfloat16 and tf32 have no numpy type and use their bits.
TYPES = {
    "pred": PRED,
    "b8": U8,
    "u8": U8,
    "s8": S8,
    "b16": U16,
    "u16": U16,
    "s16": S16,
    "f16": F16,
    "bf16": U16,
    "b32": U32,
    "u32": U32,
    "s32": S32,
    "f32": F32,
    "tf32": U32,
    "f16x2": F16X2,
    "bf16x2": U16X2,
    "b64": U64,
    "u64": U64,
    "s64": S64,
    "f64": F64,
    "f32x2": F32X2,
    "b128": B128,
}
