"""Launches made by hand: a kernel of a module with explicit dimensions and arguments."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from .capture import Pointer, buffer_of
from .launch import Dim3, Launch
from .memory import Memory
from .parser import Module


def launch(
    module: Module,
    kernel: str | None,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: Sequence[Any],
    *,
    dynamic_shared: int = 0,
    cluster: tuple[int, ...] = (1, 1, 1),
) -> Launch:
    """A Launch of `kernel` (None: the module's only one).

    args: one per .param: a numpy array or torch CPU tensor (its address is passed), an int or float of the
    parameter's size, or bytes. Raises ValueError when counts or sizes do not fit.
    """
    name = kernel or next(iter(module.kernels))
    k = module.kernels[name]
    if len(args) != len(k.params):
        raise ValueError(f"{len(args)} arguments for the {len(k.params)} parameters of {name}")
    memory, params = Memory(), bytearray(k.param_bytes)
    for n, (p, arg) in enumerate(zip(k.params, args, strict=True)):
        raw = _bytes(arg, p.size, memory, f"argument {n}")
        if len(raw) != p.size:
            raise ValueError(f"argument {n} of {name}: {len(raw)} bytes for a parameter of {p.size}")
        params[p.offset : p.offset + p.size] = raw
    shape = _three(cluster)
    return Launch(
        module,
        k,
        _three(grid),
        _three(block),
        bytes(params),
        dynamic_shared=dynamic_shared,
        cluster=shape,
        memory=memory,
        explicit_cluster=shape != (1, 1, 1),
    )


def _bytes(arg: Any, size: int, memory: Memory, name: str) -> bytes:
    """An argument as a parameter's bytes; what it points to is registered in `memory`."""
    if isinstance(arg, (bytes, bytearray)):
        return bytes(arg)
    if isinstance(arg, (float, np.floating)):
        return struct.pack("<f" if size == 4 else "<d", float(arg))
    if isinstance(arg, (int, np.integer)):
        return (int(arg) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    target = arg if isinstance(arg, Pointer) else Pointer(arg)
    buffer = buffer_of(target.array)
    memory.add(target.name or name, buffer.address, buffer.size, buffer.keep)
    return struct.pack("<Q", buffer.address)


def _three(x: tuple[int, ...]) -> Dim3:
    first, second, third = (*x, 1, 1, 1)[:3]
    return first, second, third
