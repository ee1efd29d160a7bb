"""Import what each kind of server needs before it forks jobs, see pool.py.

The kind `cute:sm_90a` is `cute("sm_90a")`. Only modules that take long matter, and none of `kernels`, which jobs
import.
"""

import contextlib
import functools
import gc
import importlib
import signal
import warnings
from pathlib import Path
from types import CodeType
from typing import Any

from cutesnake.runtime import machine_faults, pool

# How many objects more than were freed make Python look for garbage (700 by default), and how many such
# looks make it look among older ones. A build makes millions that live until its end, a few seconds later.
RARELY = (1_000_000, 20, 100)
_kept = contextlib.ExitStack()  # until the server ends


def scripts() -> None:
    """Scripts of rules: what Snakemake has them begin with, and what they ask for."""
    _import(
        "snakemake.logging", "snakemake.iocontainers", "snakemake.io", "snakemake.resources", "cutesnake.runtime.job"
    )


def host() -> None:
    """Jobs that need neither a DSL nor PyTorch."""
    _import("cutesnake.stages.compile.job", "cutesnake.stages.inspect.build", "cutesnake.stages.inspect.roofline")
    for name in ("cuda.pathfinder", "cutesnake.stages.inspect.cubin"):
        with contextlib.suppress(ImportError):  # a machine without compilers has neither
            _import(name)


def toolchain(kind: str) -> None:
    """Prepare jobs of another Python that build in its own servers of `kind`."""
    host()
    _import("cutesnake.stages.toolchain.builds")
    pool.start([kind])


def pages() -> None:
    """Jobs that show what is known of an operator in pages."""
    _import("cutesnake.report.operations", "cutesnake.report.files", "cutesnake.stages.anatomy.page")


def plots() -> None:
    """Jobs that compare and draw."""
    _import("cutesnake.analysis.compare.comparison", "cutesnake.report.plot", "cutesnake.report.plot.overview")


def cute(target: str) -> None:
    """Prepare builds with CuTe DSL for one target, which must be set before import."""
    from cutesnake.stages.compile.cute import set_up

    set_up(target)
    _import_for_builds("cutlass.cute", "cutlass.pipeline", "cutlass.utils", "tvm_ffi")
    remember_places(importlib.import_module("cutlass._mlir_helpers.op"))


def cutile() -> None:
    """Prepare builds with cuTile, for any target."""
    # On a full disk, or where its compiler is killed, cuTile would warn and write older bytecode.
    warnings.filterwarnings("error", message=machine_faults.OLDER_BYTECODE)
    _import("cutesnake.stages.compile.cutile")
    _import_for_builds("cuda.tile.compilation")
    from cutesnake.stages.compile.cutile import find_compiler

    find_compiler()


def simulator() -> None:
    """Prepare checks, watched runs and predictions by ptxsim."""
    _import("torch", "ptxsim")
    _import(*(f"cutesnake.stages.{name}" for name in ("measure.batch", "predict.prediction", "anatomy.folder")))
    importlib.import_module("ptxsim").Translations.prepare()  # which reads all of ptxsim


def gpu() -> None:
    """Prepare cases on a GPU, without CUDA: each job makes its own context.

    The server ignores Ctrl-C, which ends its clients; their jobs follow.
    """
    from cutesnake.runtime.driver_holder import driver_holder

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _kept.enter_context(driver_holder())
    _import("torch")


def _import(*names: str) -> None:
    for name in names:
        importlib.import_module(name)


def _import_for_builds(*names: str) -> None:
    """Import a DSL's modules with neutral source names, without PyTorch."""
    from cutesnake.model.catalog import roots
    from cutesnake.stages.compile.neutral_paths import use_neutral_names
    from cutesnake.stages.compile.torch_import import without_torch

    _import("cutesnake.stages.compile.limited_process")
    use_neutral_names(roots(), Path("results/fetch"))
    with without_torch():
        _import(*names)
    gc.set_threshold(*RARELY)


def remember_places(op: Any) -> None:
    """Cache CuTe DSL's look-up of source positions per traced operation.

    `op` is its module `cutlass._mlir_helpers.op`. It goes through a function's table of positions from the start each
    time, and compares names to find whether a caller's module is its own: half of the time that NVIDIA's attention took
    to build. The result stays equal. A DSL without these names builds as before.
    """
    tables: dict[int, tuple[CodeType, tuple]] = {}

    def positions(code: CodeType) -> tuple:
        if id(code) not in tables:  # which the table keeps alive, so that no other one gets its number
            tables[id(code)] = code, tuple(code.co_positions())
        return tables[id(code)][1]

    for name, remembered in (("_CO_POSITIONS", lambda _: positions), ("_is_framework_module", functools.cache)):
        if hasattr(op, name):
            setattr(op, name, remembered(getattr(op, name)))
