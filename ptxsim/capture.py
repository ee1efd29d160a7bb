"""Launch capture: calls an exported CuTe DSL object with host tensors and keeps the launches it would have made.

The object's own host code computes grids, strides and TMA descriptors; a small C stub (stub.c, compiled with the
machine's compiler) stands in for the CUDA runtime. Nothing of CUDA, CuTe DSL or tvm-ffi is needed.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .launch import Launch
from .memory import Memory
from .parser import Module

CUDA = 2  # DLPack's device type: the object refuses host tensors, so host tensors claim to be device tensors
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_NAMED = {
    "bfloat16": (4, 16),
    "float8_e4m3fn": (10, 8),
    "float8_e5m2": (12, 8),
    "float8_e8m0fnu": (14, 8),
    "float4_e2m1fn_x2": (17, 4),
    "float4_e2m1fn": (17, 4),
}


class CaptureError(Exception):
    """The object could not be linked, loaded or called; the message is the object's own where it gave one."""


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


class _Any(ctypes.Structure):
    _fields_ = [("type_index", ctypes.c_int32), ("zero", ctypes.c_uint32), ("value", ctypes.c_uint64)]


class _Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32)]

    def tuple(self) -> tuple[int, int, int]:
        return self.x, self.y, self.z


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("pad", ctypes.c_int32), ("value", ctypes.c_uint32 * 16)]


class _Config(ctypes.Structure):
    _fields_ = [
        ("grid", _Dim3),
        ("block", _Dim3),
        ("shared", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint32),
    ]


@dataclass
class Tensor:
    """A host buffer with an explicit element type, for types numpy and torch lack.

    `array` is a numpy array or torch CPU tensor that holds the bytes; `dtype` a DLPack name such as
    "float8_e4m3fn"; shape and strides count elements of that type. Four-bit floats have two spellings: of
    "float4_e2m1fn" each is an element, of "float4_e2m1fn_x2" (torch's own type) each pair that shares a byte.
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
    """The memory of an array or tensor: address, bytes spanned, its element type's name, shape, strides in elements."""

    address: int
    size: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    keep: object


def buffer_of(x: Any) -> Buffer:
    """Where a numpy array or torch CPU tensor lies. Raises CaptureError for anything else."""
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


class _Arguments:
    """Arguments packed the tvm-ffi way, with every buffer registered in `memory`."""

    def __init__(self, args: tuple[Any, ...], memory: Memory) -> None:
        self.keep: list[object] = []
        self.memory = memory
        self.count = len(args)
        self.array = (_Any * max(len(args), 1))()
        for n, arg in enumerate(args):
            self._pack(n, self.array[n], arg)

    def _pack(self, n: int, slot: _Any, arg: Any) -> None:
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
            self.memory.add(arg.name or f"argument {n}", buffer.address, buffer.size, buffer.keep)
            slot.type_index, slot.value = 4, buffer.address
        else:
            self._tensor(n, slot, arg if isinstance(arg, Tensor) else Tensor(arg))

    def _tensor(self, n: int, slot: _Any, t: Tensor) -> None:
        buffer = buffer_of(t.array)
        dtype = t.dtype or buffer.dtype
        code, bits = _dtype(dtype)
        shape, strides = t.shape or buffer.shape, t.strides or buffer.strides
        if t.shape and not t.strides:
            strides = tuple(int(np.prod(shape[k + 1 :])) for k in range(len(shape)))
        if dtype == "float4_e2m1fn":
            shape, strides = _in_pairs(t.name or f"argument {n}", shape, strides)
        if buffer.size:
            self.memory.add(t.name or f"argument {n}", buffer.address, buffer.size, buffer.keep)
        dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        steps = (ctypes.c_int64 * max(len(shape), 1))(*strides)
        lanes = 2 if bits == 4 else 1
        d = _DLTensor(buffer.address or None, CUDA, 0, len(shape), code, bits, lanes, dims, steps, 0)
        self.keep += [dims, steps, d]
        slot.type_index, slot.value = 7, ctypes.addressof(d)


def _in_pairs(name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of four-bit elements counted in pairs, which lie along the dimension of stride 1."""
    inner = max((k for k, step in enumerate(strides) if step == 1), key=lambda k: shape[k], default=None)
    outer = [step for k, step in enumerate(strides) if k != inner and shape[k] > 1]
    if inner is None or shape[inner] % 2 or any(step % 2 for step in outer):
        what = f"shape {shape} and strides {strides} of four-bit elements"
        raise CaptureError(f"{name}: {what} do not come in pairs along a dimension of stride 1")
    pairs = tuple(n // 2 if k == inner else n for k, n in enumerate(shape))
    return pairs, tuple(step if k == inner else step // 2 for k, step in enumerate(strides))


def compiler() -> str:
    """The machine's C compiler. Raises CaptureError where there is none."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return name
    raise CaptureError("launch capture needs a C compiler (gcc, clang or cc on the PATH, or CC set): none was found")


def link(obj: str | Path) -> Path:
    """The object linked with the stub into a shared library, kept in a per-user cache by content."""
    stub = Path(__file__).with_name("stub.c")
    digest = hashlib.sha256(stub.read_bytes() + Path(obj).read_bytes()).hexdigest()[:24]
    folder = Path(os.environ.get("PTXSIM_CACHE") or Path(tempfile.gettempdir()) / f"ptxsim-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise CaptureError(f"the cache folder {folder} belongs to another user: set PTXSIM_CACHE")
    out = folder / f"{digest}.so"
    if not out.exists():
        partial = folder / f"{digest}.{os.getpid()}"
        command = [compiler(), "-shared", "-fPIC", "-O1", "-Wl,-Bsymbolic", "-o", str(partial), str(stub), str(obj)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise CaptureError(f"cannot link {obj}: {done.stderr.strip().splitlines()[-1] if done.stderr else command}")
        partial.rename(out)
    return out


def capture(
    obj: str | Path,
    function: str,
    args: Sequence[Any],
    module: Module,
    *,
    sm_count: int = 148,
    compute_capability: tuple[int, int] | None = None,
) -> list[Launch]:
    """The launches that the exported function makes when called with `args`, in order.

    obj: the object (.o) that CuTe DSL exported with --enable-tvm-ffi. args: numpy arrays or torch CPU tensors (of the
    shapes and types the function was compiled for), Tensor, Pointer, int, float, bool or None; the environment stream
    is no argument. module: the PTX of the same build. Raises CaptureError with the object's own message when it
    refuses its arguments, or when a kernel it launches is not in the module.
    """
    lib = ctypes.CDLL(str(link(obj)), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    memory = Memory()
    launches: list[Launch] = []
    trouble: list[Exception] = []

    def on_launch(name: bytes, config: int, params: int) -> None:
        try:
            launches.append(_launch(name.decode(), config, params, module, memory))
        except Exception as error:  # an exception cannot cross the C frames between here and the caller
            trouble.append(error)

    callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)(on_launch)
    lib.ptxsim_setup(callback, sm_count, *(compute_capability or _capability(module.target)))
    try:
        entry = getattr(lib, f"__tvm_ffi_{function}")
    except AttributeError:
        hint = "was it exported with --enable-tvm-ffi?"
        raise CaptureError(f"{obj} has no exported function {function} ({hint})") from None
    code = _call(entry, _Arguments(tuple(args), memory))
    if trouble:
        raise trouble[0]
    if code:
        lib.ptxsim_error.restype = ctypes.c_char_p
        raise CaptureError(lib.ptxsim_error().decode(errors="replace") or f"{function} failed with code {code}")
    return launches


def _capability(target: str) -> tuple[int, int]:
    """(10, 0) for sm_100a."""
    digits = "".join(c for c in target.split(",")[0] if c.isdigit())
    return int(digits[:-1]), int(digits[-1])


def _call(entry: Any, packed: _Arguments) -> int:
    """Call an exported function the tvm-ffi way; returns its error code."""
    result = _Any()
    entry.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p]
    entry.restype = ctypes.c_int
    code: int = entry(None, ctypes.addressof(packed.array), packed.count, ctypes.addressof(result))
    return code


def _launch(name: str, config: int, params: int, module: Module, memory: Memory) -> Launch:
    kernel = module.kernels.get(name)
    if kernel is None:
        raise CaptureError(f"the object launches {name[:80]}, which is not in {module.path}")
    cfg = _Config.from_address(config)
    pointers = (ctypes.c_void_p * len(kernel.params)).from_address(params)
    block = bytearray(kernel.param_bytes)
    for p, where in zip(kernel.params, pointers, strict=False):
        block[p.offset : p.offset + p.size] = ctypes.string_at(where, p.size)
    attributes = {cfg.attributes[k].id: tuple(cfg.attributes[k].value[:3]) for k in range(cfg.count)}
    cluster = attributes.get(4, (1, 1, 1))
    if "reqnctapercluster" in kernel.directives:
        cluster = (*kernel.directives["reqnctapercluster"], 1, 1)[:3]
    return Launch(
        module,
        kernel,
        cfg.grid.tuple(),
        cfg.block.tuple(),
        bytes(block),
        cfg.shared,
        cluster,
        {f"attribute_{k}": v for k, v in attributes.items()},
        memory,
        explicit_cluster=4 in attributes,
    )
