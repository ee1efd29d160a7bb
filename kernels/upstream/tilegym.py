"""TileGym's cuTile kernels: loaded unmodified from the fetched wheel."""

import importlib
import logging
import sys
import types
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kernels.targets import MULTIPROCESSORS

SOURCE = "tilegym"
TARGETS = {"sm_90a": ("TMA", "wgmma"), "sm_100a": ("tcgen05", "tensor memory")}
CAPABILITY = {"sm_90a": (9, 0), "sm_100a": (10, 0)}  # what torch.cuda.get_device_capability would say there


def module(name: str, package: str = "tilegym.ops.cutile") -> Any:
    """Import `<package>.<name>` from the fetched wheel, by path and unmodified.

    Package initialisers are passed over (they import every operator of the library); of `tilegym.backend` and
    `tilegym.experimental` the modules need only a decorator each, and of torch, at import, a few names: importing torch
    itself would take longer than compiling the kernel. Raises FetchError if the wheel is missing.
    """
    from cutesnake.stages.compile.torch_import import without_torch
    from cutesnake.stages.fetch import fetched

    root = fetched("tilegym")
    for part in ("tilegym.ops.cutile", package):
        names = part.split(".")
        for parent in (".".join(names[: depth + 1]) for depth in range(len(names))):
            if parent not in sys.modules:
                stand_in = types.ModuleType(parent)
                stand_in.__path__ = [str(Path(root, *parent.split(".")))]
                sys.modules[parent] = stand_in
    sys.modules.update(neighbours())
    with without_torch(_torch()):
        return importlib.import_module(f"{package}.{name}")


def require_offered(result: Any, generator: str, target: str, wanted: Mapping[str, Any], *arguments: Any) -> None:
    """Raise ValueError unless a module's autotuner would try a configuration.

    The configuration has the fields of `wanted` on a target. `generator` names the function of the module that yields
    the configurations; it is called with `arguments`.
    """
    properties = types.SimpleNamespace(multi_processor_count=MULTIPROCESSORS[target])
    asked = {"get_device_capability": CAPABILITY[target], "get_device_properties": properties}
    with ExitStack() as stack:
        for name, answer in asked.items():
            stack.enter_context(patch.object(result.torch.cuda, name, return_value=answer))
        offered = [{name: getattr(c, name) for name in wanted} for c in getattr(result, generator)(*arguments)]
    if dict(wanted) not in offered:
        raise ValueError(f"{dict(wanted)} is none of the configurations that TileGym tries for {target}: {offered}")


def configured(
    result: Any, kernel: str, generator: str, target: str, wanted: Mapping[str, Any], *arguments: Any
) -> Any:
    """Return a module's kernel as a configuration of its autotuner compiles it.

    The configuration sets the number of CTAs and the occupancy. What `wanted`, which has both, and the other arguments
    are, and what is raised, `require_offered` says.
    """
    require_offered(result, generator, target, wanted, *arguments)
    return getattr(result, kernel).replace_hints(num_ctas=wanted["num_ctas"], occupancy=wanted["occupancy"])


def hinted(kernel: Any, params: Mapping[str, Any]) -> Any:
    """Return TileGym's kernel with the hints of a variant of this project.

    Such a variant has `warps`, the number of worker warps, which TileGym leaves to the compiler (0 does so too).
    """
    return kernel.replace_hints(
        num_ctas=params.get("num_ctas", 1), occupancy=params["occupancy"], num_worker_warps=params["warps"] or None
    )


def neighbours() -> dict[str, Any]:
    """Stand-ins for the modules of TileGym that only its own drivers need."""
    names = ("backend", "experimental", "autotune", "kernel_utils", "logger")
    result: dict[str, Any] = {f"tilegym.{name}": types.ModuleType(f"tilegym.{name}") for name in names}
    result["tilegym.backend"].register_impl = lambda *_, **__: lambda function: function
    result["tilegym.experimental"].experimental_kernel = lambda kernel: kernel  # it only prints a warning at a launch
    result["tilegym.autotune"].is_autotune_disabled = lambda: True  # variants are this project's way to try tilings
    result["tilegym.autotune"].is_autotune_enabled = lambda: False
    result["tilegym.kernel_utils"].get_kernel_configs = None
    result["tilegym.logger"].get_logger = logging.getLogger
    return result


def _torch() -> Any:
    """Stand in for what TileGym's modules look up in torch at import."""
    torch: Any = types.ModuleType("torch")
    torch.Tensor = torch.dtype = torch.float32 = torch.bfloat16 = torch.float16 = object
    torch.autograd = types.SimpleNamespace(Function=object)
    torch.cuda = types.SimpleNamespace(get_device_capability=None, get_device_properties=None)
    torch.nn = types.ModuleType("torch.nn")
    torch.nn.Module = object
    return torch
