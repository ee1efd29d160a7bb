"""Memory of a GPU with nothing mapped on either side of it.

Whoever touches what lies next to it ends the test.
"""

from __future__ import annotations

import ctypes
from typing import Any

GRAIN = 2 << 20  # of mappings
GAP = 32 * GRAIN


class _Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = [(name, ctypes.c_int) for name in ("type", "handles", "place", "card")]
    _fields_ += [("windows", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class _Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [(name, ctypes.c_int) for name in ("place", "card", "flags")]


def island(tensor: Any) -> Any:
    """A copy of a tensor that begins where the mapped memory begins.

    It stays mapped until the process ends.
    """
    import torch

    size = -(-tensor.numel() * tensor.element_size() // GRAIN) * GRAIN
    driver = ctypes.CDLL("libcuda.so.1")
    gpu, pinned, read_and_write = 1, 1, 3
    what, handle, base = _Properties(pinned, 0, gpu, 0), ctypes.c_uint64(), ctypes.c_uint64()
    none, length = ctypes.c_uint64(0), ctypes.c_size_t(size)
    _succeed(driver.cuMemCreate(ctypes.byref(handle), length, ctypes.byref(what), none))
    _succeed(driver.cuMemAddressReserve(ctypes.byref(base), ctypes.c_size_t(size + 2 * GAP), none, none, none))
    start = ctypes.c_uint64(base.value + GAP)
    _succeed(driver.cuMemMap(start, length, none, handle, none))
    access = _Access(gpu, 0, read_and_write)
    _succeed(driver.cuMemSetAccess(start, length, ctypes.byref(access), ctypes.c_size_t(1)))
    there = type("Mapped", (), {})()
    there.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (start.value, False), "version": 3}
    copy = torch.as_tensor(there, device="cuda")[: tensor.numel() * tensor.element_size()]
    return copy.view(tensor.dtype).view(tensor.shape).copy_(tensor)


def _succeed(code: int) -> None:
    assert code == 0, f"the driver says {code}"
