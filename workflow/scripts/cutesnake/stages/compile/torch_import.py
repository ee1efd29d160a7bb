"""Builds without importing torch, which takes longer than compiling most kernels."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class StandIn(types.ModuleType):
    """Replace torch for modules that name it at import but never use it.

    Whatever is looked up in it is an empty class: good for an annotation, a base class or a key of a table.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, type(name, (), {}))
        return getattr(self, name)


@contextmanager
def without_torch(stand_in: types.ModuleType | None = None) -> Iterator[None]:
    """Prevent the import of torch; imports get `stand_in` instead.

    cuTile and tvm-ffi import torch, where it is installed, to recognise its types. Builds use none of them. A block
    within another may bring a stand-in of its own; modules among its attributes can be imported by their names.
    """
    if sys.modules.get("torch") is not None:
        yield
        return
    parts = [part for part in vars(stand_in).values() if isinstance(part, types.ModuleType)] if stand_in else []
    modules: dict[str, Any] = {"torch": stand_in} | {part.__name__: part for part in parts}
    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    sys.modules.update(modules)  # None makes an import fail, as if torch were not installed
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]
        sys.modules.update(before)
