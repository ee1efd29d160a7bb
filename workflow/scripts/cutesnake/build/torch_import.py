"""Builds without importing torch, which takes longer than compiling most kernels."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def without_torch(stand_in: Any = None) -> Iterator[None]:
    """Keep torch from being imported, unless it has been already; `stand_in` is what imports find instead.

    cuTile and tvm-ffi import torch, where it is installed, to recognise its types. Builds use none of them.
    """
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = stand_in  # None makes an import fail, as if torch were not installed
    try:
        yield
    finally:
        del sys.modules["torch"]
