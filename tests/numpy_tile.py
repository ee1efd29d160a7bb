"""A stand-in for `cuda.tile` that computes with numpy.

A kernel's own source, executed block by block on a CPU.

Tiles are numpy arrays, 16-bit floats and shorter ones float32 arrays of their values. It has what the kernels of matrix
products and of mixed attention use. What it does with memory, shapes and numbers is what cuTile documents; what the
compiler makes of it is not seen.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch

E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=np.float32)


class Tile(types.ModuleType):
    """The module `cuda.tile` of one kernel file."""

    float32, float4_e2m1fn, float8_e4m3fn, float8_e8m0fnu = "float32", "e2m1", "e4m3", "e8m0"
    bfloat16, int32 = "float32", "int32"
    PaddingMode = types.SimpleNamespace(ZERO=0)

    def __init__(self) -> None:
        super().__init__("cuda.tile")
        self.Constant = {int: int, bool: bool}
        self.block: tuple[int, ...] = ()
        self.grid: tuple[int, ...] = ()
        self.function = self.kernel = lambda function: function

    def bid(self, axis: int) -> int:
        return self.block[axis]

    def num_blocks(self, axis: int) -> int:
        return self.grid[axis]

    @staticmethod
    def cdiv(a: int, b: int) -> int:
        return -(-a // b)

    @staticmethod
    def _inside(array: np.ndarray, index: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
        pairs = zip(index, shape, array.shape, strict=True)
        return tuple(slice(i * s, max(i * s, min((i + 1) * s, extent))) for i, s, extent in pairs)

    def load(
        self,
        array: np.ndarray,
        index: tuple[int, ...],
        *,
        shape: tuple[int, ...],
        padding_mode: int = 0,
        order: Any = None,
    ) -> np.ndarray:
        part = array[self._inside(array, index, shape)]
        return np.pad(part, [(0, s - have) for s, have in zip(shape, part.shape, strict=True)])

    def store(self, array: np.ndarray, index: tuple[int, ...], tile: np.ndarray) -> None:
        inside = self._inside(array, index, tile.shape)
        array[inside] = tile[tuple(slice(0, part.stop - part.start) for part in inside)]

    def unpack_from_bytes(self, tile: np.ndarray, dtype: str) -> np.ndarray:
        assert tile.ndim == 1 and tile.dtype == np.uint8 and dtype == "e2m1"
        codes = np.stack((tile & 15, tile >> 4), -1).reshape(-1)  # the low half first
        return np.where(codes & 8, -E2M1[codes & 7], E2M1[codes & 7])

    def bitcast(self, tile: np.ndarray, dtype: str) -> np.ndarray:
        assert tile.dtype == np.uint8
        if dtype == "e8m0":
            return np.exp2(tile.astype(np.float32) - 127)
        return torch.from_numpy(np.ascontiguousarray(tile)).view(torch.float8_e4m3fn).float().numpy()

    @staticmethod
    def mma_scaled(x: np.ndarray, x_scale: np.ndarray, y: np.ndarray, y_scale: np.ndarray, acc: np.ndarray):
        block = x.shape[1] // x_scale.shape[1]
        return (x * x_scale.repeat(block, 1)) @ (y * y_scale.repeat(block, 0)) + acc

    @staticmethod
    def mma(x: np.ndarray, y: np.ndarray, acc: np.ndarray) -> np.ndarray:
        return x @ y + acc

    @staticmethod
    def num_tiles(array: np.ndarray, axis: int, shape: tuple[int, ...]) -> int:
        return -(-array.shape[axis] // shape[axis])

    zeros = staticmethod(lambda shape, dtype: np.zeros(shape, np.float32))
    full = staticmethod(lambda shape, value, dtype: np.full(shape, value, np.float32))
    minimum, maximum = staticmethod(np.minimum), staticmethod(np.maximum)
    arange, where, exp2, log2 = (staticmethod(f) for f in (np.arange, np.where, np.exp2, np.log2))
    max, sum, cat = staticmethod(np.max), staticmethod(np.sum), staticmethod(np.concatenate)
    broadcast_to = staticmethod(np.broadcast_to)
    reshape = staticmethod(np.reshape)
    permute = transpose = staticmethod(np.transpose)
    astype = staticmethod(lambda tile, dtype: tile.astype(dtype))


class Array(np.ndarray):
    """An array that kernels may take a part of, as cuTile's `Array.slice`."""

    def slice(self, axis: int, start: int, stop: int) -> Array:
        return self[(slice(None),) * axis + (slice(start, stop),)]


def load(path: Path, modules: dict[str, types.ModuleType] | None = None) -> tuple[Any, Tile]:
    """The kernel file at `path`, imported with a stand-in of its own, and that stand-in.

    `modules` are stand-ins for other modules that the file imports.
    """
    tile = Tile()
    cuda = types.ModuleType("cuda")
    cuda.tile = tile
    spec = importlib.util.spec_from_file_location(f"numpy_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    stand_ins = {"cuda": cuda, "cuda.tile": tile, **(modules or {})}
    before = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules |= stand_ins
    try:
        spec.loader.exec_module(module)
    finally:
        for name, was in before.items():
            sys.modules.pop(name)
            if was is not None:
                sys.modules[name] = was
    return module, tile


def launch(tile: Tile, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
    """Every block of a grid, one after the other."""
    tile.grid = grid
    for tile.block in itertools.product(*map(range, grid)):
        kernel(*arguments)
