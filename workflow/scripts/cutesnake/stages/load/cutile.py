"""Load and launch cuTile's cubins by CUDA driver calls, without cuTile.

cuTile's calling convention `cutile_python_v1`, as the PTX of a build shows it: an array is its pointer, then one int32
per extent, then one int32 per stride (in elements, constant strides included); a list of arrays is the pointer of a
table on the device, with a row of such words for each array, all of 64 bits, and its int32 length; a scalar is itself;
constants do not appear. TMA descriptors are further, hidden parameters that the driver fills in. A launch asks for
blocks of (1, 1, 1): the driver knows how many threads a tile block has.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda.bindings import driver

from cutesnake.model.contract import Launch, Runner, nothing
from cutesnake.stages.load.loaders import Opening


class DriverError(RuntimeError):
    """A CUDA driver call failed: which one, and the driver's own words."""


def check(name: str, reply: tuple[Any, ...]) -> Any:
    """Return the value of a driver call; DriverError if its status is an error."""
    status, *values = reply
    if status != driver.CUresult.CUDA_SUCCESS:
        text = driver.cuGetErrorString(status)[1]
        raise DriverError(f"{name}: {text.decode() if text else status}")
    return values[0] if values else None


# Of a launch: its symbol, grid, values, and whether it may start while its predecessor is finishing.
Enqueue = Callable[[str, tuple[int, int, int], Sequence[Any], bool], None]


@dataclass(frozen=True)
class Played:
    """An entry point without a GPU: its opener receives every launch."""

    enqueue: Enqueue


Opener = Callable[[Path], Enqueue]  # path of a cubin -> what takes its launches
_opening: Opening[Opener] = Opening("cuTile")
opened_by = _opening.by


def open_function(path: Path, symbol: str) -> Any:
    """Return an entry point of a cubin; DriverError if the driver refuses it."""
    opener = _opening.opener
    return Played(opener(path)) if opener else Cubin(path).function(symbol)


def multiprocessors() -> int:
    """Return the multiprocessors of the current device, or of the simulated one."""
    if _opening.processors:
        return _opening.processors
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    device = check("cuCtxGetDevice", driver.cuCtxGetDevice())
    return check("cuDeviceGetAttribute", driver.cuDeviceGetAttribute(attribute, device))


class Cubin:
    """A cubin in the current context, else the first device's primary context."""

    def __init__(self, path: Path) -> None:
        check("cuInit", driver.cuInit(0))
        if not int(check("cuCtxGetCurrent", driver.cuCtxGetCurrent())):
            device = check("cuDeviceGet", driver.cuDeviceGet(0))
            context = check("cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain(device))
            check("cuCtxSetCurrent", driver.cuCtxSetCurrent(context))
        if not path.is_file():
            raise DriverError(f"{path} is missing: run the compile stage for this build again")
        self._module = check(f"cuModuleLoad {path.name}", driver.cuModuleLoad(str(path).encode()))

    def function(self, symbol: str) -> Any:
        """Handle of an entry point, its code already on the device (functions load lazily otherwise)."""
        function = check(f"cuModuleGetFunction {symbol}", driver.cuModuleGetFunction(self._module, symbol.encode()))
        check(f"cuFuncLoad {symbol}", driver.cuFuncLoad(function))
        return function


def flatten(values: Sequence[Any]) -> Iterator[Any]:
    """Kernel parameters as ctypes values, in order; TypeError for what cannot be one.

    A tensor is anything with `data_ptr()`, `shape` and `stride()`; int becomes int32, float becomes float32; a list of
    tensors is an `ArrayList`. Raises ValueError for an extent or stride that needs more than 32 bits.
    """
    for value in values:
        if isinstance(value, ArrayList):
            yield ctypes.c_uint64(value.table.data_ptr())
            yield ctypes.c_int32(len(value.table))
        elif hasattr(value, "data_ptr"):
            yield ctypes.c_uint64(value.data_ptr())
            yield from (ctypes.c_int32(extent) for extent in _extents(value))
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{value!r} is neither a tensor nor an int nor a float")
        else:
            yield ctypes.c_int32(value) if isinstance(value, int) else ctypes.c_float(value)


def _extents(tensor: Any) -> tuple[int, ...]:
    """Shape and strides of a tensor; ValueError where 32 bits do not hold them."""
    extents = (*tensor.shape, *tensor.stride())
    if max(extents, default=0) >= 2**31:
        raise ValueError(f"an array of shape {tuple(tensor.shape)} needs more than 32-bit extents and strides")
    return extents


def arrays(values: Sequence[Any]) -> list[Any]:
    """Return every tensor that a kernel reaches, with lists and their tables."""
    result: list[Any] = []
    for value in values:
        if isinstance(value, ArrayList):
            result += [value.table, *value.tensors]
        elif hasattr(value, "data_ptr"):
            result.append(value)
    return result


class ArrayList:
    """A list of arrays on one device; it keeps the arrays alive."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        import torch

        self.tensors = tuple(tensors)
        text = [(tensor.data_ptr(), *_extents(tensor)) for tensor in tensors]
        self.table = torch.tensor(text, dtype=torch.int64, device=tensors[0].device)


class TileLaunch:
    """One launch with everything bound but the stream; calling it enqueues it.

    With `overlap` the kernel may start while its predecessor in the stream is finishing (programmatic dependent
    launch): the kernel itself waits for the predecessor's results.
    """

    def __init__(
        self, function: Any, symbol: str, grid: tuple[int, int, int], values: Sequence[Any], overlap: bool = False
    ) -> None:
        self.launch = Launch(symbol, grid, (1, 1, 1))
        self._function = function
        self._overlap = overlap
        self._kept = tuple(values)  # tensors must outlive the launches that point at them
        self._parameters = tuple(flatten(values))
        pointers = [ctypes.addressof(parameter) for parameter in self._parameters]
        self._pointers = (ctypes.c_void_p * len(pointers))(*pointers)
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX = config.blockDimY = config.blockDimZ = 1
        if overlap:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            config.attrs, config.numAttrs = [attribute], 1
        self._config = config

    def __call__(self, stream: int) -> None:
        """Enqueue the launch on a stream."""
        if isinstance(self._function, Played):
            return self._function.enqueue(self.launch.symbol, self.launch.grid, self._kept, self._overlap)
        self._config.hStream = stream
        check(
            f"cuLaunchKernelEx {self.launch.symbol}",
            driver.cuLaunchKernelEx(self._config, self._function, ctypes.addressof(self._pointers), 0),
        )
        return None


def sequence(*launches: TileLaunch, finish: Callable[[], Any] = nothing) -> Runner:
    """Return a runner of launches, one after the other on one stream."""

    def enqueue(stream: int) -> None:
        for launch in launches:
            launch(stream)

    return Runner(enqueue, tuple(launch.launch for launch in launches), finish)
