"""TileGym's cuTile kernels: loaded unmodified from the fetched wheel."""

from __future__ import annotations

import importlib
import logging
import sys
import types
from pathlib import Path
from typing import Any

SOURCE = "tilegym"
TARGETS = {"sm_90a": ("TMA", "wgmma"), "sm_100a": ("tcgen05", "tensor memory")}
MULTIPROCESSORS = {"sm_90a": 132, "sm_100a": 148}  # of H100 SXM and H200, of B200: TileGym asks the device
CAPABILITY = {"sm_90a": (9, 0), "sm_100a": (10, 0)}  # what torch.cuda.get_device_capability would say there


def module(name: str) -> Any:
    """Import `tilegym.ops.cutile.<name>` from the fetched wheel, by path and unmodified.

    Package initialisers are passed over (they import every operator of the library); of `tilegym.backend` and
    `tilegym.experimental` the modules need only a decorator each, and of torch, at import, the names below: importing
    torch itself would take longer than compiling the kernel. Raises FetchError if the wheel is missing.
    """
    from cutesnake.build.fetch import fetched
    from cutesnake.build.torch_import import without_torch

    root = fetched("tilegym")
    for parent in ("tilegym", "tilegym.ops", "tilegym.ops.cutile"):
        package = types.ModuleType(parent)
        package.__path__ = [str(Path(root, *parent.split(".")))]
        sys.modules[parent] = package
    backend: Any = types.ModuleType("tilegym.backend")
    backend.register_impl = lambda *_, **__: lambda function: function
    sys.modules["tilegym.backend"] = backend
    experimental: Any = types.ModuleType("tilegym.experimental")
    experimental.experimental_kernel = lambda kernel: kernel  # it only prints a warning at the first launch
    sys.modules["tilegym.experimental"] = experimental
    autotune: Any = types.ModuleType("tilegym.autotune")
    autotune.is_autotune_disabled = lambda: True  # variants are this project's way to try tilings
    sys.modules["tilegym.autotune"] = autotune
    logger: Any = types.ModuleType("tilegym.logger")
    logger.get_logger = logging.getLogger
    sys.modules["tilegym.logger"] = logger
    torch: Any = types.ModuleType("torch")
    torch.Tensor = torch.dtype = torch.float32 = torch.bfloat16 = object
    torch.autograd = types.SimpleNamespace(Function=object)
    torch.cuda = types.SimpleNamespace(get_device_capability=None)
    torch.nn = types.ModuleType("torch.nn")
    torch.nn.Module = object
    with without_torch(torch):
        return importlib.import_module(f"tilegym.ops.cutile.{name}")
