"""NVIDIA's CuTe DSL examples (CUTLASS 4.5, BSD-3): loaded unmodified from the fetched wheel that carries them."""

from __future__ import annotations

import importlib
import sys
from typing import Any

SOURCE = "flashinfer-python"  # the wheel, a key of kernels/upstream.yaml
FOLDER = "flashinfer/data/cutlass/examples/python/CuTeDSL"


def module(name: str) -> Any:
    """Import an example by its path below the folder of examples, such as `blackwell.mla.mla_decode_fp16`.

    To be called where the DSL is set up already, inside the `program` of a build. Raises FetchError if the wheel is
    missing, and whatever the example raises.
    """
    from cutesnake.build.fetch import fetched

    folder = str((fetched(SOURCE) / FOLDER).resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)
