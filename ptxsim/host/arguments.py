"""Arguments of exported functions: host memory in tvm-ffi and DLPack form."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..memory.global_memory import Memory
from .linking import CaptureError

CUDA = 2  # DLPack's device type: the object refuses host tensors, so host tensors claim to be device tensors
ARRAY = 71  # tvm-ffi's type index of an array
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_NAMED = {
    "bfloat16": (4, 16),
    "float8_e4m3fn": (10, 8),
    "float8_e5m2": (12, 8),
    "float8_e8m0fnu": (14, 8),
    "float4_e2m1fn_x2": (17, 4),
    "float4_e2m1fn": (17, 4),
}


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class AnyValue(ctypes.Structure):
    """tvm-ffi's value of any type."""

    _fields_ = [("type_index", ctypes.c_int32), ("zero", ctypes.c_uint32), ("value", ctypes.c_uint64)]


class _Array(ctypes.Structure):
    """tvm-ffi's array object; host code reads it and does not keep it."""

    _fields_ = [
        ("references", ctypes.c_uint64),
        ("type_index", ctypes.c_int32),
        ("pad", ctypes.c_uint32),
        ("deleter", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("data_deleter", ctypes.c_void_p),
    ]


@dataclass
class Tensor:
    """A host buffer with an explicit element type, for types numpy and torch lack.

    `array` is a numpy array or torch CPU tensor that holds the bytes. `dtype` is a DLPack name such as
    "float8_e4m3fn"; shape and strides count elements of that type. Four-bit floats have two names: with
    "float4_e2m1fn" an element is one float, with "float4_e2m1fn_x2" (torch's type) the two that share a byte.
    """

    array: object
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    name: str | None = None


@dataclass
class Pointer:
    """A raw pointer argument to the first byte of a host array."""

    array: object
    name: str | None = None


class Buffer(NamedTuple):
    """The memory of an array: address, bytes spanned, type name, shape, strides in elements."""

    address: int
    size: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    keep: object


def buffer_of(x: Any) -> Buffer:
    """Return the memory of a numpy array or torch CPU tensor. Raises CaptureError for others."""
    if isinstance(x, np.ndarray):
        strides = tuple(s // x.itemsize for s in x.strides)
        span = (1 + sum((n - 1) * s for n, s in zip(x.shape, strides, strict=False))) * x.itemsize if x.size else 0
        return Buffer(x.ctypes.data, span, x.dtype.str[1:], x.shape, strides, x)
    if hasattr(x, "data_ptr"):
        if x.device.type != "cpu":
            raise CaptureError(f"a tensor on {x.device}: the simulator takes host tensors")
        span = (
            (1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=False))) * x.element_size()
            if x.numel()
            else 0
        )
        name = str(x.dtype).removeprefix("torch.")
        return Buffer(x.data_ptr(), span, name, tuple(x.shape), tuple(x.stride()), x)
    raise CaptureError(f"cannot take a {type(x).__name__} as a tensor")


def _dtype(name: str) -> tuple[int, int]:
    if name in _NAMED:
        return _NAMED[name]
    if name == "bool":
        return 6, 8
    if name[0] in _CODES and name[1:].isdigit():
        return _CODES[name[0]], 8 * int(name[1:])
    for prefix, code in (("float", 2), ("uint", 1), ("int", 0)):
        if name.startswith(prefix) and name[len(prefix) :].isdigit():
            return code, int(name[len(prefix) :])
    raise CaptureError(f"unknown element type {name}")


class Arguments:
    """Arguments packed for tvm-ffi; every buffer is registered in `memory`. Tuples become arrays.

    `names` are the function's parameter names, if known.
    """

    def __init__(self, args: tuple[Any, ...], memory: Memory, names: list[str]) -> None:
        self.keep: list[object] = []
        self.memory, self.names = memory, names
        self.count = len(args)
        self.array = (AnyValue * max(len(args), 1))()
        for n, arg in enumerate(args):
            self._pack(self._name(n), self.array[n], arg)

    def _name(self, n: int) -> str:
        return self.names[n] if len(self.names) == self.count else f"argument {n}"

    def _pack(self, name: str, slot: AnyValue, arg: Any) -> None:
        if arg is None:
            slot.type_index, slot.value = 0, 0
        elif isinstance(arg, bool):
            slot.type_index, slot.value = 2, int(arg)
        elif isinstance(arg, (int, np.integer)):
            slot.type_index, slot.value = 1, int(arg) & (2**64 - 1)
        elif isinstance(arg, (float, np.floating)):
            slot.type_index = 3
            slot.value = int(np.array(float(arg)).view(np.uint64))
        elif isinstance(arg, Pointer):
            buffer = buffer_of(arg.array)
            self.memory.add(arg.name or name, buffer.address, buffer.size, buffer.keep)
            slot.type_index, slot.value = 4, buffer.address
        elif isinstance(arg, (tuple, list)):
            self._tuple(name, slot, arg)
        else:
            self._tensor(name, slot, arg if isinstance(arg, Tensor) else Tensor(arg))

    def _tuple(self, name: str, slot: AnyValue, values: Sequence[Any]) -> None:
        data = (AnyValue * max(len(values), 1))()
        keys = getattr(values, "_fields", None)
        for n, value in enumerate(values):
            self._pack(f"{name}.{keys[n]}" if keys else f"{name}[{n}]", data[n], value)
        array = _Array(1, ARRAY, 0, None, ctypes.addressof(data), len(values), len(values), None)
        self.keep += [data, array]
        slot.type_index, slot.value = ARRAY, ctypes.addressof(array)

    def _tensor(self, name: str, slot: AnyValue, t: Tensor) -> None:
        buffer = buffer_of(t.array)
        dtype = t.dtype or buffer.dtype
        code, bits = _dtype(dtype)
        shape, strides = t.shape or buffer.shape, t.strides or buffer.strides
        if t.shape and not t.strides:
            strides = tuple(int(np.prod(shape[k + 1 :])) for k in range(len(shape)))
        if dtype == "float4_e2m1fn":
            shape, strides = _in_pairs(t.name or name, shape, strides)
        if buffer.size:
            self.memory.add(t.name or name, buffer.address, buffer.size, buffer.keep)
        dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        steps = (ctypes.c_int64 * max(len(shape), 1))(*strides)
        lanes = 2 if bits == 4 else 1
        d = _DLTensor(buffer.address or None, CUDA, 0, len(shape), code, bits, lanes, dims, steps, 0)
        self.keep += [dims, steps, d]
        slot.type_index, slot.value = 7, ctypes.addressof(d)


def _in_pairs(name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and strides of four-bit elements, counted in pairs along the stride-1 dimension."""
    inner = max((k for k, step in enumerate(strides) if step == 1), key=lambda k: shape[k], default=None)
    outer = [step for k, step in enumerate(strides) if k != inner and shape[k] > 1]
    if inner is None or shape[inner] % 2 or any(step % 2 for step in outer):
        what = f"shape {shape} and strides {strides} of four-bit elements"
        raise CaptureError(f"{name}: {what} do not come in pairs along a dimension of stride 1")
    pairs = tuple(n // 2 if k == inner else n for k, n in enumerate(shape))
    return pairs, tuple(step if k == inner else step // 2 for k, step in enumerate(strides))


def register(pointees: Sequence[Any], memory: Memory) -> None:
    """Register memory that a launch reaches, but not through its arguments."""
    for n, x in enumerate(pointees):
        buffer = buffer_of(x.array if isinstance(x, (Tensor, Pointer)) else x)
        memory.add(getattr(x, "name", None) or f"pointee {n}", buffer.address, buffer.size, buffer.keep)
