"""Element types by their command-line names; conversion between values and codes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..isa import numeric


class Misuse(ValueError):
    """An impossible request; the one-line message names the argument and a correct form."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element type: command-line name, DLPack name, bits, numpy type of its codes.

    `kind` is "float", "int" or "bool". Codes of four-bit elements take a byte each; tensors pack two to a byte.
    """

    name: str
    dlpack: str
    bits: int
    storage: np.dtype[np.generic]
    kind: str

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Return the codes of values (float64 or integers), rounded to nearest."""
        encode = _ENCODE.get(self.name)
        if encode is None:
            with np.errstate(over="ignore", invalid="ignore"):
                return values.astype(self.storage)
        with np.errstate(over="ignore", invalid="ignore"):
            return encode(np.asarray(values, np.float32).ravel()).reshape(values.shape)

    def values(self, codes: np.ndarray) -> np.ndarray:
        """Return the values of codes, in numpy's type if it has one, else float32."""
        if self.name == "bf16":
            return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)
        table = _TABLES.get(self.name)
        return codes if table is None else np.asarray(numeric.TABLES[table][codes])


def _scale_codes(x: np.ndarray) -> np.ndarray:
    """Return the codes of the nearest powers of two, clamped below at the smallest."""
    whole = np.rint(np.log2(np.maximum(np.abs(x), np.float32(2.0**-127)))).clip(-127, 127)
    return np.where(np.isnan(x), 255, whole + 127).astype(np.uint8)


def _small(name: str) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: numeric.f32_to_small(x, name)


_TABLES = {"e4m3": "e4m3", "e5m2": "e5m2", "e8m0": "ue8m0", "e2m1": "e2m1"}
_ENCODE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "bf16": lambda x: numeric.f32_to_bf16(x, "rn"),
    "e4m3": _small("e4m3"),
    "e5m2": _small("e5m2"),
    "e2m1": _small("e2m1"),
    "e8m0": _scale_codes,
}


def _table() -> dict[str, Element]:
    rows = [
        ("f16", "float16", 16, "f2", "float"),
        ("bf16", "bfloat16", 16, "u2", "float"),
        ("f32", "float32", 32, "f4", "float"),
        ("f64", "float64", 64, "f8", "float"),
        ("e4m3", "float8_e4m3fn", 8, "u1", "float"),
        ("e5m2", "float8_e5m2", 8, "u1", "float"),
        ("e8m0", "float8_e8m0fnu", 8, "u1", "float"),
        ("e2m1", "float4_e2m1fn", 4, "u1", "float"),
        ("bool", "bool", 8, "u1", "bool"),
    ]
    rows += [
        (f"{c}{n}", f"{w}{n}", n, f"{c}{n // 8}", "int") for c, w in (("i", "int"), ("u", "uint")) for n in _WIDTHS
    ]
    return {
        name: Element(name, dlpack, bits, np.dtype(code_type), kind) for name, dlpack, bits, code_type, kind in rows
    }


_WIDTHS = (8, 16, 32, 64)
ELEMENTS = _table()
