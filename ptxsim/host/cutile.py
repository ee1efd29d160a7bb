"""Launches of cuTile cubins, with the TMA descriptors that the driver would pass.

A cuTile cubin takes its descriptors as hidden parameters after the visible ones. cuTile's compiler writes host code
for each kernel that fills them, and stores it in the cubin as an object. The driver calls it whenever the
arguments change. This module links and calls it in the same way, on parameters laid out as in memory, as
`capture` calls the host code of CuTe DSL objects. CUDA and cuTile are not needed.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from ..core.launch import EARLY, Dim3, Launch
from ..frontend.parser import Module
from ..frontend.syntax import Kernel
from ..memory.global_memory import Memory
from ..memory.tensor_map import decode
from .arguments import Pointer, Tensor, buffer_of, register
from .linking import CaptureError, link_content, nearest

DESCRIPTOR = 128  # bytes
_HOST, _TABLE = ".nv.host", "__CUDA_TILEIR_CALLBACKS"
_BANK_START = {"sm_90": 0x210}  # where parameters begin in the constant bank; a multiple of 64 on others
# Where things lie in that table and in its entries, one per kernel, found by looking at the objects of many kernels.
_ENTRIES, _COUNT, _ENTRY_BYTES, _NAME, _ARGUMENTS = 0x28, 0x30, 0x20, 0x00, 0x28


def tile_launch(
    cubin: str | Path,
    module: Module,
    kernel: str,
    grid: tuple[int, ...],
    args: Sequence[Any],
    *,
    pointees: Sequence[Any] = (),
    early: bool = False,
) -> Launch:
    """Return a launch of an exported cuTile kernel over a grid of tile blocks.

    module: the PTX that the cubin carries.
    args: by cuTile's calling convention. An array (numpy, torch or Tensor) becomes its address, shape and strides.
    An int or a float becomes four bytes; bytes are copied.
    pointees: arrays that the kernel reaches by addresses within bytes or other arrays.
    early: whether the grid may start before the previous launch has ended (programmatic dependent launch).
    Raises ValueError for a missing kernel and for arguments that do not fit, CaptureError for a cubin whose
    host code cannot run on this machine.
    """
    if kernel not in module.kernels:
        raise ValueError(f"{module.path} has no kernel {kernel}{nearest(kernel, module.kernels)}")
    k, memory = module.kernels[kernel], Memory()
    values = [value for n, arg in enumerate(args) for value in _values(arg, f"argument {n}", memory)]
    register(pointees, memory)
    params = parameter_block(cubin, module, kernel, values)
    for p in k.params[len(values) :]:
        if p.size == DESCRIPTOR:
            _check(kernel, params[p.offset : p.offset + p.size], memory)
    return _launch(module, k, grid, params.tobytes(), memory, {EARLY: (1,)} if early else {})


def parameter_block(cubin: str | Path, module: Module, kernel: str, values: Sequence[bytes]) -> np.ndarray:
    """Return the bytes of all parameters: visible ones from `values`, descriptors from host code.

    Each lies at its offset in the kernel's `params`. Raises as `tile_launch` does.
    """
    k = module.kernels[kernel]
    visible, hidden = k.params[: len(values)], k.params[len(values) :]
    wrong = [n for n, (p, value) in enumerate(zip(visible, values, strict=False)) if p.size != len(value)]
    workspace = 8 if "minperctamemory" in k.directives else DESCRIPTOR  # a pointer, which %perctamemoryoffset replaces
    if len(visible) < len(values) or wrong or any(p.size not in (DESCRIPTOR, workspace) for p in hidden):
        sizes, lengths = [p.size for p in k.params if p.size != DESCRIPTOR], [len(x) for x in values]
        raise ValueError(f"{kernel} takes parameters of {sizes} bytes, the arguments make {lengths}")
    params = np.zeros(k.param_bytes, np.uint8)
    for p, value in zip(visible, values, strict=True):
        params[p.offset : p.offset + p.size] = np.frombuffer(value, np.uint8)
    if any(p.size == DESCRIPTOR for p in hidden):
        _fill(Path(cubin), module.target, k, params)
    return params


def _launch(
    module: Module,
    kernel: Kernel,
    grid: tuple[int, ...],
    params: bytes,
    memory: Memory,
    attributes: dict[str, tuple[int, ...]],
) -> Launch:
    """Return a launch with the PTX's block and cluster, and a grid in CTAs."""
    cx, cy, cz = cluster = _three(kernel.directives.get("reqnctapercluster", (1,)))
    x, y, z = _three(grid)
    if "blocksareclusters" in kernel.directives:
        x, y, z = x * cx, y * cy, z * cz
    block = _three(kernel.directives["reqntid"])
    size = -(-kernel.directives.get("minperctamemory", (0,))[0] // DESCRIPTOR) * DESCRIPTOR
    backing = np.zeros(x * y * z * size + DESCRIPTOR, np.uint8)
    own = backing.ctypes.data + -backing.ctypes.data % DESCRIPTOR
    if size:
        memory.add("the CTAs' own memory", own, x * y * z * size, backing)
    return Launch(
        module,
        kernel,
        (x, y, z),
        block,
        params,
        cluster=cluster,
        memory=memory,
        explicit_cluster=cluster != (1, 1, 1),
        cta_memory=(own, size),
        attributes=attributes,
    )


def _three(x: Sequence[int]) -> Dim3:
    first, second, third = (*x, 1, 1, 1)[:3]
    return first, second, third


def _values(arg: Any, name: str, memory: Memory) -> list[bytes]:
    """Return an argument as the bytes of its parameters."""
    if isinstance(arg, (bytes, bytearray)):
        return [bytes(arg)]
    if isinstance(arg, (float, np.floating)):
        return [struct.pack("<f", float(arg))]
    if isinstance(arg, (int, np.integer)):
        return [(int(arg) & 0xFFFFFFFF).to_bytes(4, "little")]
    buffer = buffer_of(arg.array if isinstance(arg, (Tensor, Pointer)) else arg)
    memory.add(getattr(arg, "name", None) or name, buffer.address, buffer.size, buffer.keep)
    shape, strides = buffer.shape, buffer.strides
    if isinstance(arg, Tensor):
        shape, strides = arg.shape or shape, arg.strides or strides
    return [struct.pack("<Q", buffer.address), *(struct.pack("<i", n) for n in (*shape, *strides))]


def _fill(cubin: Path, target: str, kernel: Kernel, params: np.ndarray) -> None:
    """Run the cubin's host code to write a kernel's descriptors into its parameters.

    That code sees the parameters as in the constant bank, where alignment counts from the start of the bank.
    """
    library = _host_code(cubin, cubin.stat().st_mtime_ns)
    address = _callbacks(library, cubin).get(kernel.name)
    if not address:
        raise CaptureError(f"{cubin} has no host code for {kernel.name}, which takes TMA descriptors")
    spare = np.zeros(4096, np.uint8).ctypes.data  # for what else is passed, which the code seen so far does not touch
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
    offsets = _bank_offsets(kernel, _BANK_START.get(target.split(",")[0].rstrip("af"), 0))
    bank = np.zeros(len(params) + 2 * DESCRIPTOR, np.uint8)
    for p, start_offset in zip(kernel.params, offsets, strict=True):
        bank[start_offset : start_offset + p.size] = params[p.offset : p.offset + p.size]
    status: int = prototype(address)(spare, spare, spare, bank.ctypes.data)
    if status:
        raise CaptureError(f"the host code of {kernel.name} in {cubin} refuses its arguments with status {status}")
    for p, start_offset in zip(kernel.params, offsets, strict=True):
        params[p.offset : p.offset + p.size] = bank[start_offset : start_offset + p.size]


def _bank_offsets(kernel: Kernel, start: int) -> list[int]:
    """Return each parameter's offset from the first one, which is at `start` of the bank."""
    out, end = [], start
    for p in kernel.params:
        align = 64 if p.size == DESCRIPTOR else p.size
        end = -(-end // align) * align
        out.append(end - start)
        end += p.size
    return out


def _check(kernel: str, raw: np.ndarray, memory: Memory) -> None:
    """Raise CaptureError unless a descriptor is valid and points into an argument's memory."""
    try:
        descriptor = decode(raw.tobytes())
    except ValueError as error:
        raise CaptureError(f"the host code of {kernel} wrote no descriptor that is understood: {error}") from None
    allocation = memory.find(descriptor.address) or memory.find(descriptor.address - 15)
    if allocation is None and 1 not in descriptor.sizes:
        raise CaptureError(f"a descriptor of {kernel} names {descriptor.address:#x}, which is no argument's memory")


@lru_cache(maxsize=64)
def _host_code(cubin: Path, _changed: int) -> ctypes.CDLL:
    if platform.machine() not in ("x86_64", "AMD64"):
        raise CaptureError(f"{cubin}: its host code is for x86-64, which this machine is not")
    content = _section(cubin, _HOST)
    if content is None or content[:4] != b"\x7fELF":
        raise CaptureError(f"{cubin} carries no host code ({_HOST}): is it cuTile's?")
    path = link_content(content, f"the host code of {cubin}")
    try:
        return ctypes.CDLL(str(path), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    except OSError as error:
        raise CaptureError(f"the host code of {cubin} cannot be loaded: {error}") from None


def _callbacks(library: ctypes.CDLL, cubin: Path) -> dict[str, int]:
    """Return kernel name → address of the callback for changed arguments."""
    try:
        table = ctypes.addressof((ctypes.c_char * (_COUNT + 8)).in_dll(library, _TABLE))
    except ValueError:
        raise CaptureError(f"the host code of {cubin} has no table of callbacks") from None
    first, count, size = (_u64(table + at) for at in (_ENTRIES, _COUNT, _ENTRY_BYTES))
    if not first or not 0 < count < 1024 or not _ARGUMENTS + 8 <= size <= 1024:
        raise CaptureError(f"the host code of {cubin} has a table of callbacks that is not understood")
    entries = [first + n * size for n in range(count)]
    return {ctypes.string_at(_u64(at + _NAME)).decode(): _u64(at + _ARGUMENTS) for at in entries}


def _u64(address: int) -> int:
    return int(ctypes.c_uint64.from_address(address).value)


def _section(cubin: Path, name: str) -> bytes | None:
    """Return a section of a cubin, None if missing. Raises CaptureError for other files."""
    from elftools.common.exceptions import ELFError  # only these launches need pyelftools
    from elftools.elf.elffile import ELFFile

    try:
        data = cubin.read_bytes()
        if data[:4] != b"\x7fELF":
            raise CaptureError(f"{cubin} is not a cubin: no ELF header")
        section = ELFFile(BytesIO(data)).get_section_by_name(name)
    except (OSError, ELFError, UnicodeDecodeError) as error:
        raise CaptureError(f"{cubin} cannot be read as a cubin: {error}") from None
    return None if section is None else bytes(section.data())
