"""Launches made by hand: a kernel of a module with explicit dimensions and arguments."""

from __future__ import annotations

import struct

import numpy as np

from .capture import Pointer, _buffer
from .machine import Launch
from .memory import Memory
from .parser import Module


def launch(
    module: Module,
    kernel: str | None,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: tuple | list,
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
    memory, block_bytes = Memory(), bytearray(k.param_bytes)
    for n, (p, arg) in enumerate(zip(k.params, args, strict=False)):
        if isinstance(arg, (bytes, bytearray)):
            raw = bytes(arg)
        elif isinstance(arg, (float, np.floating)):
            raw = struct.pack("<f" if p.size == 4 else "<d", float(arg))
        elif isinstance(arg, (int, np.integer)):
            raw = (int(arg) & ((1 << 8 * p.size) - 1)).to_bytes(p.size, "little")
        else:
            target = arg if isinstance(arg, Pointer) else Pointer(arg)
            address, size, *_, keep = _buffer(target.array)
            memory.add(target.name or f"argument {n}", address, size, keep)
            raw = struct.pack("<Q", address)
        if len(raw) != p.size:
            raise ValueError(f"argument {n} of {name}: {len(raw)} bytes for a parameter of {p.size}")
        block_bytes[p.offset : p.offset + p.size] = raw

    def three(x: tuple[int, ...]) -> tuple[int, int, int]:
        return (*x, 1, 1, 1)[:3]

    return Launch(
        module,
        k,
        three(grid),
        three(block),
        bytes(block_bytes),
        dynamic_shared,
        three(cluster),
        {},
        memory,
        explicit_cluster=three(cluster) != (1, 1, 1),
    )
