"""NVIDIA's GEMMs of nvidia-cutlass-operators (BSD-3): implementations in CuTe DSL, without the library around them."""

import importlib
import sys
import types
from pathlib import Path
from typing import Any

SOURCE = "nvidia-cutlass-operators"  # the wheel, a key of kernels/upstream.yaml
PACKAGE = "cutlass.operators.providers.cutedsl.gemm.implementations"


def module(name: str) -> Any:
    """Import an implementation, such as `sm100_mixed_input_impl`, from the fetched wheel, unmodified.

    The wheel's package `cutlass.operators` goes into the package of CuTe DSL, `cutlass`. Its initialisers, which import
    every operator of the library, are passed over. To be called where the DSL is set up already, inside the `program`
    of a build. Raises FetchError if the wheel is missing.
    """
    from cutesnake.stages.fetch import fetched

    root = fetched(SOURCE)
    for package in (PACKAGE, "cutlass.operators.utils"):
        parts = package.split(".")
        for depth in range(2, len(parts) + 1):  # `cutlass` itself is the DSL's
            parent = ".".join(parts[:depth])
            if parent not in sys.modules:
                stand_in = types.ModuleType(parent)
                stand_in.__path__ = [str(Path(root, *parts[:depth]))]
                sys.modules[parent] = stand_in
    return importlib.import_module(f"{PACKAGE}.{name}")
