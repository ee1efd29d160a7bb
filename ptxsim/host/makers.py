"""Constructors of Launch: from an exported object, from PTX, from a cuTile cubin."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.launch import Launch, makers
from ..frontend.parser import Module
from .capture import capture
from .cutile import tile_launch
from .direct import launch


def _module(ptx: str | Path | Module | None, kernel: str | Path = "") -> Module:
    """Return a Module; parse PTX text or a file first."""
    if isinstance(ptx, Module):
        return ptx
    if isinstance(ptx, str) and "\n" in ptx:
        return Module.from_text(ptx)
    return Module.from_file(Path(kernel).with_suffix(".ptx") if ptx is None else Path(ptx))


def _from_object(obj: str | Path, function: str, args: Sequence[Any], ptx: Any, **options: Any) -> list[Launch]:
    return capture(obj, function, args, _module(ptx, obj), **options)


def _from_ptx(ptx: Any, *args: Any, **options: Any) -> Launch:
    return launch(_module(ptx), *args, **options)


def _from_cubin(cubin: str | Path, kernel: str, grid: Any, args: Any, ptx: Any, **options: Any) -> Launch:
    return tile_launch(cubin, _module(ptx, cubin), kernel, grid, args, **options)


makers.update(object=_from_object, ptx=_from_ptx, cubin=_from_cubin)
