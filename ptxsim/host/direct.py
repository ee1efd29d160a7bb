"""Launches by hand: a kernel with explicit dimensions and arguments."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.launch import Dim3, Launch
from ..frontend.parser import Module
from ..memory.global_memory import Memory
from .arguments import Pointer, buffer_of, register
from .linking import nearest


def launch(
    module: Module,
    kernel: str | None,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: Sequence[Any],
    *,
    dynamic_shared: int = 0,
    cluster: tuple[int, ...] = (1, 1, 1),
    pointees: Sequence[Any] = (),
) -> Launch:
    """Return a Launch of `kernel` (None: the module's only one).

    args: one per .param: a numpy array or torch CPU tensor (its address is passed), a Pointer, an int or float of the
    parameter's size, or bytes.
    pointees: arrays that the kernel reaches through addresses stored in others.
    Raises ValueError for a kernel that is not in the module, for counts or sizes that do not fit, and for a grid, block
    or cluster that no GPU supports; CaptureError for an argument of another type.
    """
    name = _name(module, kernel)
    k = module.kernels[name]
    _check_shape(_three(grid), _three(block), _three(cluster))
    if len(args) != len(k.params):
        raise ValueError(f"{len(args)} arguments for the {len(k.params)} parameters of {name}")
    memory, params = Memory(), bytearray(k.param_bytes)
    for n, (p, arg) in enumerate(zip(k.params, args, strict=True)):
        raw = _bytes(arg, p.size, memory, f"argument {n}")
        if len(raw) != p.size:
            raise ValueError(f"argument {n} of {name}: {len(raw)} bytes for a parameter of {p.size}")
        params[p.offset : p.offset + p.size] = raw
    register(pointees, memory)
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


def _name(module: Module, kernel: str | None) -> str:
    """Return the name of the selected kernel."""
    names = list(module.kernels)
    if kernel is None:
        if len(names) != 1:
            raise ValueError(f"{module.path} has {len(names)} kernels: say which; it has {', '.join(names) or 'none'}")
        return names[0]
    if kernel not in module.kernels:
        raise ValueError(f"{module.path} has no kernel {kernel}{nearest(kernel, names)}")
    return kernel


def _check_shape(grid: Dim3, block: Dim3, cluster: Dim3) -> None:
    if min(*grid, *block, *cluster) < 1:
        raise ValueError(f"grid {grid}, block {block} and cluster {cluster} have to be one or more in every dimension")
    if block[0] * block[1] * block[2] > 1024:
        raise ValueError(f"a block of {block} has more than 1024 threads")
    if any(g % c for g, c in zip(grid, cluster, strict=True)) or cluster[0] * cluster[1] * cluster[2] > 16:
        raise ValueError(f"a cluster of {cluster} does not divide the grid {grid}, or has more than 16 CTAs")


def _bytes(arg: Any, size: int, memory: Memory, name: str) -> bytes:
    """Return an argument as a parameter's bytes; register the memory it points to."""
    if isinstance(arg, (bytes, bytearray)):
        return bytes(arg)
    if arg is None:
        return bytes(size)
    if isinstance(arg, (float, np.floating)):
        return struct.pack("<f" if size == 4 else "<d", float(arg))
    if isinstance(arg, (int, np.integer)):
        return (int(arg) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    target = arg if isinstance(arg, Pointer) else Pointer(arg)
    buffer = buffer_of(target.array)
    memory.add(target.name or name, buffer.address, buffer.size, buffer.keep)
    return struct.pack("<Q", buffer.address)


def _three(x: tuple[int, ...]) -> Dim3:
    if len(x) > 3:
        raise ValueError(f"{x} has more than three dimensions")
    first, second, third = (*x, 1, 1, 1)[:3]
    return first, second, third
