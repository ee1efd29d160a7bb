"""Tensors made for a command line: host memory with room around it, filled, read back, and put back as it was."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from ..host.arguments import Pointer, Tensor
from ..host.linking import nearest
from .elements import ELEMENTS, Element, Misuse
from .specs import FilePart, TensorSpec

ROOM = 1 << 16  # bytes before and behind each tensor, so that an address outside lies nearest to the one that was meant
MOST = 1 << 34  # bytes of a tensor
# Bits of the fraction that no instruction sets in the NaN which it makes.
_NAN_BITS = dict.fromkeys(("f16", "bf16", "f32", "f64"), 0x15)
NPY, NPZ = b"\x93N", b"PK"  # how numpy's files begin


@dataclass(eq=False)
class HostTensor:
    """A tensor in host memory. `raw` are its bytes; shape and strides count elements, of four bits too."""

    name: str
    element: Element
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    raw: np.ndarray
    pointer: bool = False

    @property
    def address(self) -> int:
        """Where its first element lies."""
        return int(self.raw.ctypes.data)

    def argument(self) -> Tensor | Pointer:
        """What capture takes for it."""
        if self.pointer:
            return Pointer(self.raw, self.name)
        return Tensor(self.raw, self.element.dlpack, self.shape, self.strides, self.name)

    def _view(self, codes: np.ndarray) -> np.ndarray:
        steps = tuple(s * codes.itemsize for s in self.strides)
        return np.lib.stride_tricks.as_strided(codes, self.shape, steps)

    def _codes(self) -> np.ndarray:
        if self.element.bits == 4:
            return np.stack([self.raw & 15, self.raw >> 4], -1).ravel()
        return self.raw.view(self.element.storage)

    def values(self) -> np.ndarray:
        """Its elements in their shape: in numpy's own type where it has one, else as float32."""
        return self.element.values(np.ascontiguousarray(self._view(self._codes())))

    def put(self, values: np.ndarray) -> None:
        """Fill it with values of its shape; what lies between its elements stays as it is."""
        self._put_codes(self.element.codes(values))

    def put_own_nan(self) -> None:
        """Fill it with a NaN that no instruction writes, so that NaN which is written differs."""
        codes = self.element.codes(np.full(self.shape, np.nan))
        self._put_codes((codes.view(f"u{codes.itemsize}") ^ _NAN_BITS[self.element.name]).view(codes.dtype))

    def nan_since(self, before: np.ndarray) -> np.ndarray:
        """The indices of elements that are NaN and were written since the bytes were `before`."""
        then = HostTensor(self.name, self.element, self.shape, self.strides, before)
        codes, old = (np.ascontiguousarray(x._view(x._codes())) for x in (self, then))
        bits = f"u{codes.itemsize}"
        return np.argwhere(np.isnan(self.element.values(codes)) & (codes.view(bits) != old.view(bits)))

    def _put_codes(self, new: np.ndarray) -> None:
        codes = self._codes()
        self._view(codes)[...] = new
        if self.element.bits == 4:
            pairs = codes.reshape(-1, 2)
            self.raw[...] = pairs[:, 0] | pairs[:, 1] << 4

    def put_file(self, array: np.ndarray, path: Path) -> None:
        """Fill it from a file: values of its shape, or as many bytes as it has for a type that numpy lacks."""
        if array.shape == self.shape:
            same = array.dtype == self.element.storage and array.dtype.kind == "u"
            return self._put_codes(array) if same else self.put(array)
        if array.dtype.itemsize == 1 and array.size == self.raw.size:
            self.raw[...] = np.ascontiguousarray(array).view(np.uint8).ravel()
            return None
        raise Misuse(f"{self.name}: {path} holds {array.dtype}{list(array.shape)}, which does not fit {self}")

    def __str__(self) -> str:
        return f"{self.element.name}[{','.join(map(str, self.shape))}]"


def make(spec: TensorSpec, name: str, rng: np.random.Generator) -> HostTensor:
    """The tensor of a specification, without what only other tensors can fill it with. Raises Misuse."""
    given = _from_file(spec.contents, name) if isinstance(spec.contents, FilePart) else None
    element, shape = spec.element, spec.shape
    if element is None or shape is None or spec.strides is None:
        assert given is not None  # a specification without a type is a file
        element, shape = _own_type(given, name), given[0].shape
        strides = tuple(int(np.prod(shape[k + 1 :])) for k in range(len(shape)))
    else:
        strides = spec.strides
    raw = _memory(name, element, shape, strides, spec.align)
    tensor = HostTensor(name, element, shape, strides, raw, spec.pointer)
    if given is not None:
        tensor.put_file(given[0], given[1].path)
    elif spec.contents == "nan" and element.name in _NAN_BITS:
        tensor.put_own_nan()
    elif not isinstance(spec.contents, (tuple, FilePart)):
        tensor.put(_pattern(tensor, spec.contents, rng))
    return tensor


def _memory(name: str, element: Element, shape: tuple[int, ...], strides: tuple[int, ...], align: int) -> np.ndarray:
    """Zeroed bytes for a tensor, at a multiple of `align` and of no higher power of two (0: a multiple of 256)."""
    if any(n < 0 for n in shape) or any(s < 0 for s in strides):
        raise Misuse(f"{name}: sizes {shape} and strides {strides} have to be zero or more")
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if 0 not in shape else 0
    size = -(-reach * element.bits // 8)
    if size > MOST:
        raise Misuse(f"{name}: {size} bytes; more than {MOST} are not made")
    if align * 8 < element.bits and align:
        raise Misuse(f"{name}: elements of {element.bits} bits cannot lie at multiples of {align} bytes only")
    room = np.zeros(size + 2 * ROOM + 2 * max(align, 256), np.uint8)
    step = 2 * align if align else 256
    start = ROOM + (-(room.ctypes.data + ROOM)) % step + align
    return room[start : start + size]


def _pattern(tensor: HostTensor, contents: str | float, rng: np.random.Generator) -> np.ndarray:
    shape, floats = tensor.shape, tensor.element.kind == "float"
    if isinstance(contents, float):
        return np.full(shape, contents if floats else int(contents))
    if contents == "random" and floats and tensor.element.name != "e8m0":
        return rng.standard_normal(shape)
    if contents in ("random", "integers"):
        return np.exp2(rng.integers(-3, 4, shape)) if tensor.element.name == "e8m0" else rng.integers(0, 4, shape)
    if contents == "uniform":
        return rng.random(shape) if floats else rng.integers(0, 4, shape)
    if contents == "nan" and (not floats or tensor.element.name == "e2m1"):
        raise Misuse(f"{tensor.name}: {tensor.element.name} has no NaN; right would be zeros or a number")
    if contents == "identity":
        at = np.indices(shape) if shape else np.zeros((1, 1))
        return (at == at[0]).all(0).astype(np.int64).reshape(shape)
    if contents == "arange":
        return np.arange(int(np.prod(shape))).reshape(shape)
    return np.full(shape, {"zeros": 0.0, "ones": 1.0, "nan": np.nan}[contents])


def load_array(part: FilePart, what: str) -> np.ndarray:
    """The array of a .npy, .npz, .pt or .pth file; types of torch that numpy lacks come as float32. Raises Misuse."""
    return _from_file(part, what)[0]


def _from_file(part: FilePart, what: str) -> tuple[np.ndarray, FilePart, str]:
    """(array, where from, its type's name in torch or "")"""
    if not part.path.is_file():
        raise Misuse(f"{what}: there is no file {part.path}")
    try:
        loaded, name = _from_torch(part, what) if part.path.suffix in (".pt", ".pth") else (np.load(part.path), "")
        if isinstance(loaded, (dict, np.lib.npyio.NpzFile)):
            loaded, name = _entry(loaded, part, what)
    except UnpicklingError:
        raise Misuse(f"{what}: {part.path} is no file of tensors that torch wrote (torch.save makes one)") from None
    except (OSError, ValueError, EOFError, RuntimeError) as error:
        if isinstance(error, Misuse):
            raise
        if part.path.suffix in (".npy", ".npz") and part.path.read_bytes()[:2] not in (NPY, NPZ):
            raise Misuse(f"{what}: {part.path} is no file that numpy wrote (np.save makes one)") from None
        raise Misuse(f"{what}: {part.path} cannot be read: {str(error).splitlines()[0]}") from None
    if not isinstance(loaded, np.ndarray):
        loaded, name = _of_torch(loaded, part, what)
    return loaded, part, name


def _entry(loaded: Any, part: FilePart, what: str) -> tuple[Any, str]:
    keys = list(loaded)
    key = part.key if part.key is not None else keys[0] if len(keys) == 1 else None
    if key not in keys:
        told = f"no entry {part.key}{nearest(part.key or '', keys)}" if part.key is not None else "several entries"
        raise Misuse(
            f"{what}: {part.path} has {told}; right would be {part.path}:ENTRY, of {', '.join(map(str, keys))}"
        )
    return loaded[key], ""


def _from_torch(part: FilePart, what: str) -> tuple[Any, str]:
    try:
        import torch
    except ImportError:
        raise Misuse(f"{what}: {part.path} needs torch to be read; save it as .npy, or install torch") from None
    return torch.load(part.path, map_location="cpu", weights_only=True), ""


def _of_torch(loaded: Any, part: FilePart, what: str) -> tuple[np.ndarray, str]:
    """A tensor of torch as an array, with its type's name where that is not numpy's."""
    if not hasattr(loaded, "numpy"):
        raise Misuse(f"{what}: {part.path} holds a {type(loaded).__name__}, no tensor")
    tensor, name = loaded.detach().cpu(), str(loaded.dtype).removeprefix("torch.")
    if name == "float4_e2m1fn_x2":
        import torch

        return tensor.view(torch.uint8).numpy(), ""
    try:
        return tensor.numpy(), ""
    except TypeError:  # bfloat16 and the small floats
        return tensor.float().numpy(), name


def _own_type(given: tuple[np.ndarray, FilePart, str], name: str) -> Element:
    """The element type that a file's array has by itself."""
    array, part, dlpack = given
    wanted = dlpack or array.dtype.name
    for element in ELEMENTS.values():
        if element.dlpack == wanted:
            return element
    raise Misuse(f"{name}: {part.path} holds {wanted}, which no element type is; say which: f16[…]={part.path}")
