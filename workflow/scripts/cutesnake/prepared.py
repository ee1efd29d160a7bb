"""What servers import for each kind of job, once, see cutesnake/forks.py. A kind `cute:sm_90a` is `cute("sm_90a")`.

Only modules that take long matter, and none of `kernels`: those are the job's to import.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from cutesnake.places import ROOT


def host() -> None:
    """Jobs that need neither a DSL nor PyTorch."""
    _import("cutesnake.build.apart", "cutesnake.inspect.build", "cutesnake.inspect.roofline")


def pages() -> None:
    """Jobs that sum up what is known of an operator, in tables and pages."""
    _import("cutesnake.compare.comparison", "cutesnake.operations.page", "cutesnake.report.files")


def pictures() -> None:
    """Jobs that draw."""
    _import("cutesnake.plot", "cutesnake.plot.overview")


def cute(target: str) -> None:
    """Builds with CuTe DSL for one target, which it is set up for when it is imported."""
    from cutesnake.build.cute import set_up

    set_up(target)
    _import_for_builds("cutlass.cute", "cutlass.pipeline", "cutlass.utils", "tvm_ffi")


def cutile() -> None:
    """Builds with cuTile, for any target."""
    _import("cutesnake.build.cutile")
    _import_for_builds("cuda.tile.compilation")


def simulator() -> None:
    """What ptxsim executes, watches or predicts."""
    sys.path.insert(0, str(ROOT))
    _import("torch", "ptxsim")
    _import(*(f"cutesnake.{name}" for name in ("measure.stage", "predict.prediction", "anatomy.folder")))


def _import(*names: str) -> None:
    for name in names:
        importlib.import_module(name)


def _import_for_builds(*names: str) -> None:
    """The modules of a DSL, whose sources have neutral names from the start, without PyTorch."""
    from cutesnake.build.neutral import use_neutral_names
    from cutesnake.build.torch_import import without_torch
    from cutesnake.catalog import roots

    _import("cutesnake.build.apart")
    use_neutral_names(roots(), Path("results/fetch"))
    with without_torch():
        _import(*names)
