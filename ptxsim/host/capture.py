"""Launch capture: call an exported CuTe DSL object and record its launches.

The object's own host code computes grids, strides and TMA descriptors. A small C stub (stub.c, compiled with the
machine's compiler) replaces the CUDA runtime. CUDA, CuTe DSL and tvm-ffi are not needed.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..core.launch import Launch
from ..frontend.parser import Module
from ..memory.global_memory import Memory
from .arguments import AnyValue, Arguments, register
from .linking import ENTRY, CaptureError, exported, link, nearest


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


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an exported function: name, and type such as `Tensor([n0, 64], float16)`."""

    name: str
    type: str


def signature(obj: str | Path, function: str) -> list[Parameter]:
    """Return the parameters of an exported function; empty if its object does not list them.

    An object lists them when it rejects a call with too few arguments; this makes such a call.
    Raises CaptureError as `capture` does.
    """
    return _signature(_entry(_library(obj), obj, function))


def _signature(entry: _Entry) -> list[Parameter]:
    entry.lib.ptxsim_setup(LAUNCH_CALLBACK(lambda *_: None), 1, 9, 0)
    if not _call(entry, Arguments((), Memory(), [])):
        return []
    match = re.search(r"`\w+\((.*)\)`", _message(entry.lib), re.S)
    parts = re.split(r", (?=\w+: )", match[1]) if match and match[1] else []
    return [Parameter(name, kind) for name, _, kind in (part.partition(": ") for part in parts)]


def capture(
    obj: str | Path,
    function: str,
    args: Sequence[Any],
    module: Module,
    *,
    sm_count: int = 148,
    compute_capability: tuple[int, int] | None = None,
    pointees: Sequence[Any] = (),
) -> list[Launch]:
    """Return the launches of the exported function for arguments `args`, in order.

    obj: the object (.o) that CuTe DSL exported with --enable-tvm-ffi.
    args: numpy arrays or torch CPU tensors of the compiled shapes and types, Tensor, Pointer, int, float, bool, None,
    or tuples of these.
    The environment stream is no argument.
    module: the PTX of the same build.
    pointees: arrays, tensors, Tensor or Pointer that kernels reach through addresses stored in the arguments' memory.
    Raises CaptureError with the object's message if it rejects its arguments. It is also raised if a launched kernel is
    missing in the module, and for a file that is no such object.
    """
    entry = _entry(_library(obj), obj, function)
    memory = Memory()
    launches: list[Launch] = []
    failures: list[Exception] = []

    def on_launch(name: bytes, config: int, params: int) -> None:
        try:
            launches.append(launch_of(name.decode(), config, params, module, memory))
        except Exception as error:  # an exception cannot cross the C frames between here and the caller
            failures.append(error)

    names = [parameter.name for parameter in _signature(entry)]
    callback = LAUNCH_CALLBACK(on_launch)
    entry.lib.ptxsim_setup(callback, sm_count, *(compute_capability or _capability(module.target)))
    code = _call(entry, Arguments(tuple(args), memory, names))
    if failures:
        raise failures[0]
    if code:
        raise CaptureError(_message(entry.lib) or f"{function} failed with code {code}")
    register(pointees, memory)
    return launches


LAUNCH_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)


class _Entry(NamedTuple):
    """An exported function and its library."""

    lib: ctypes.CDLL
    call: Any


def _library(obj: str | Path) -> ctypes.CDLL:
    path = link(obj)
    try:
        return ctypes.CDLL(str(path), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    except OSError as error:
        raise CaptureError(f"{obj} cannot be loaded: {str(error).removeprefix(f'{path}: ')}") from None


def _entry(lib: ctypes.CDLL, obj: str | Path, function: str) -> _Entry:
    try:
        return _Entry(lib, getattr(lib, f"{ENTRY}{function}"))
    except AttributeError:
        names = exported(obj)
        hint = f"it has {', '.join(names)}" if names else "was it exported with --enable-tvm-ffi?"
        raise CaptureError(f"{obj} has no exported function {function}{nearest(function, names)}: {hint}") from None


def _message(lib: ctypes.CDLL) -> str:
    """Return the object's message about a rejected call."""
    lib.ptxsim_error.restype = ctypes.c_char_p
    text: bytes = lib.ptxsim_error()
    return text.decode(errors="replace")


def _capability(target: str) -> tuple[int, int]:
    """Return the compute capability of a target: (10, 0) for sm_100a."""
    digits = "".join(c for c in target.split(",")[0] if c.isdigit())
    return int(digits[:-1]), int(digits[-1])


def _call(entry: _Entry, packed: Arguments) -> int:
    """Call an exported function by the tvm-ffi convention; return its error code."""
    result, function = AnyValue(), entry.call
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p]
    function.restype = ctypes.c_int
    code: int = function(None, ctypes.addressof(packed.array), packed.count, ctypes.addressof(result))
    return code


def launch_of(name: str, config: int, params: int, module: Module, memory: Memory) -> Launch:
    """Read a launch from the C structures that host code passes to the runtime."""
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
