"""Host tensors for a command line: allocated with margins, filled, read back, restored."""

from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from ..host.arguments import Pointer, Tensor
from ..host.linking import nearest
from .elements import ELEMENTS, Element, Misuse
from .specs import FilePart, TensorSpec

MARGIN = 1 << 16  # bytes around each tensor, so that an outside address is nearest to its own tensor
MAX_BYTES = 1 << 34  # bytes of a tensor
# Fraction bits that no instruction sets in a NaN result.
_NAN_BITS = dict.fromkeys(("f16", "bf16", "f32", "f64"), 0x15)
NPY, NPZ = b"\x93N", b"PK"  # magic numbers of numpy files


@dataclass(eq=False)
class HostTensor:
    """A tensor in host memory. `raw` are its bytes; shape and strides count elements."""

    name: str
    element: Element
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    raw: np.ndarray
    pointer: bool = False

    @property
    def address(self) -> int:
        """The address of the first element."""
        return int(self.raw.ctypes.data)

    def argument(self) -> Tensor | Pointer:
        """Return the argument that `capture` takes for this tensor."""
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
        """Return the elements in their shape, in numpy's type if it has one, else float32."""
        return self.element.values(np.ascontiguousarray(self._view(self._codes())))

    def put(self, values: np.ndarray) -> None:
        """Fill the tensor with values of its shape; gaps between elements stay."""
        self._put_codes(self.element.codes(values))

    def put_own_nan(self) -> None:
        """Fill the tensor with a NaN pattern that no instruction writes, to detect written NaN."""
        codes = self.element.codes(np.full(self.shape, np.nan))
        self._put_codes((codes.view(f"u{codes.itemsize}") ^ _NAN_BITS[self.element.name]).view(codes.dtype))

    def nan_since(self, before: np.ndarray) -> np.ndarray:
        """Return the indices of NaN elements written since the bytes were `before`."""
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
        """Fill the tensor from a file's array: values of its shape, or as many bytes."""
        if array.shape == self.shape:
            raw_codes = array.dtype == self.element.storage and array.dtype.kind == "u"
            return self._put_codes(array) if raw_codes else self.put(array)
        if array.dtype.itemsize == 1 and array.size == self.raw.size:
            self.raw[...] = np.ascontiguousarray(array).view(np.uint8).ravel()
            return None
        raise Misuse(f"{self.name}: {path} holds {array.dtype}{list(array.shape)}, which does not fit {self}")

    def __str__(self) -> str:
        return f"{self.element.name}[{','.join(map(str, self.shape))}]"


def make(spec: TensorSpec, name: str, rng: np.random.Generator) -> HostTensor:
    """Make a specification's tensor; other tensors' addresses are filled later. Raises Misuse."""
    loaded_file = _from_file(spec.contents, name) if isinstance(spec.contents, FilePart) else None
    element, shape = spec.element, spec.shape
    if element is None or shape is None or spec.strides is None:
        assert loaded_file is not None  # a specification without a type is a file
        element, shape = _own_type(loaded_file, name), loaded_file[0].shape
        strides = tuple(int(np.prod(shape[k + 1 :])) for k in range(len(shape)))
    else:
        strides = spec.strides
    raw = _memory(name, element, shape, strides, spec.align)
    tensor = HostTensor(name, element, shape, strides, raw, spec.pointer)
    if loaded_file is not None:
        tensor.put_file(loaded_file[0], loaded_file[1].path)
    elif spec.contents == "nan" and element.name in _NAN_BITS:
        tensor.put_own_nan()
    elif not isinstance(spec.contents, (tuple, FilePart)):
        tensor.put(_pattern(tensor, spec.contents, rng))
    return tensor


def _memory(name: str, element: Element, shape: tuple[int, ...], strides: tuple[int, ...], align: int) -> np.ndarray:
    """Return zeroed bytes for a tensor at exactly the alignment `align`.

    The address is a multiple of `align` bytes and of no higher power of two; 0 means a multiple of 256.
    """
    if any(n < 0 for n in shape) or any(s < 0 for s in strides):
        raise Misuse(f"{name}: sizes {shape} and strides {strides} have to be zero or more")
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if 0 not in shape else 0
    size = -(-reach * element.bits // 8)
    if size > MAX_BYTES:
        raise Misuse(f"{name}: {size} bytes; more than {MAX_BYTES} are not made")
    if align * 8 < element.bits and align:
        raise Misuse(f"{name}: elements of {element.bits} bits cannot lie at multiples of {align} bytes only")
    block = np.zeros(size + 2 * MARGIN + 2 * max(align, 256), np.uint8)
    step = 2 * align if align else 256
    start = MARGIN + (-(block.ctypes.data + MARGIN)) % step + align
    return block[start : start + size]


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
        raise Misuse(f"{tensor.name}: {tensor.element.name} has no NaN; expected zeros or a number")
    if contents == "identity":
        at = np.indices(shape) if shape else np.zeros((1, 1))
        return (at == at[0]).all(0).astype(np.int64).reshape(shape)
    if contents == "arange":
        return np.arange(int(np.prod(shape))).reshape(shape)
    return np.full(shape, {"zeros": 0.0, "ones": 1.0, "nan": np.nan}[contents])


def load_array(part: FilePart, what: str) -> np.ndarray:
    """Load .npy, .npz, .pt or .pth; types that numpy lacks become float32. Raises Misuse."""
    return _from_file(part, what)[0]


def _from_file(part: FilePart, what: str) -> tuple[np.ndarray, FilePart, str]:
    """Return (array, its file, its torch type name or "")."""
    if not part.path.is_file():
        raise Misuse(f"{what}: no such file: {part.path}")
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
        problem = f"no entry {part.key}{nearest(part.key or '', keys)}" if part.key is not None else "several entries"
        raise Misuse(f"{what}: {part.path} has {problem}; expected {part.path}:ENTRY, of {', '.join(map(str, keys))}")
    return loaded[key], ""


def _from_torch(part: FilePart, what: str) -> tuple[Any, str]:
    try:
        import torch
    except ImportError:
        raise Misuse(f"{what}: {part.path} needs torch to be read; save it as .npy, or install torch") from None
    return torch.load(part.path, map_location="cpu", weights_only=True), ""


def _of_torch(loaded: Any, part: FilePart, what: str) -> tuple[np.ndarray, str]:
    """Convert a torch tensor to (array, its type name if numpy lacks the type)."""
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


def _own_type(loaded_file: tuple[np.ndarray, FilePart, str], name: str) -> Element:
    """Return the element type of a file's array."""
    array, part, dlpack = loaded_file
    dtype_name = dlpack or array.dtype.name
    for element in ELEMENTS.values():
        if element.dlpack == dtype_name:
            return element
    raise Misuse(f"{name}: {part.path} holds {dtype_name}, which no element type is; say which: f16[…]={part.path}")
