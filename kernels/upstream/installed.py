"""What the kernels that a Python package brings along share: `flash_mla` and `flashinfer`.

They are there to be compared with, timed in the same run on the same GPU. Nothing of them is built or kept here.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Runner, Variant, Workload, not_baked

if TYPE_CHECKING:
    import torch


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Nothing is a compile-time constant: one build for everything."""
    return (Variant("package", {}),)


def nothing_built(package: str, variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    """Return the result of a `compile` that has nothing to compile."""
    notes = [f"the kernels of the Python package {package}"]
    return {"symbols": [], "launch": {}, "function": None, "compilers": {}, "notes": notes}


def import_package(name: str) -> ModuleType:
    """Import the package; RuntimeError if it is broken, which is its own fault."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        raise RuntimeError(f"{name} is installed but cannot be imported: {error}") from error


def on_stream(tensor: torch.Tensor, stream: int) -> contextlib.AbstractContextManager[Any]:
    """Set PyTorch's current stream to a CUDA handle; nothing for CPU tensors."""
    import torch

    if not tensor.is_cuda:
        return contextlib.nullcontext()
    return torch.cuda.stream(torch.cuda.ExternalStream(stream))


@not_baked
def copying_runner(
    compared: torch.Tensor, call: Callable[[], Iterable[torch.Tensor]], *outputs: torch.Tensor, warm: bool = False
) -> Runner:
    """Return calls, on the GPU of `compared`, of a function that allocates its results.

    `finish` copies the results to `outputs` and spoils them, so that a later call that writes nothing shows. `warm`
    makes a first call now.
    """
    results: list[torch.Tensor] = []

    def spoil() -> None:
        for result in results:
            result.fill_(float("nan"))

    def enqueue(stream: int) -> None:
        with on_stream(compared, stream):
            results[:] = call()

    def finish() -> None:
        for output, result in zip(outputs, results, strict=True):
            output.copy_(result)
        spoil()

    if warm:
        results[:] = call()
        spoil()
    return Runner(enqueue, finish=finish)
