"""What servers import for each kind of job, once, see cutesnake/forks.py. A kind `cute:sm_90a` is `cute("sm_90a")` here.

Only modules that take long matter, and none of `kernels`: those are the job's to import.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cutesnake.places import ROOT


def host() -> None:
    """Jobs that need neither a DSL nor PyTorch."""
    import cutesnake.build.compile
    import cutesnake.inspect.build  # noqa: F401


def cute(target: str) -> None:
    """Builds with CuTe DSL for one target, which it is set up for when it is imported."""
    from cutesnake.build.cute import set_up
    from cutesnake.build.torch_import import without_torch

    _for_builds()
    set_up(target)
    with without_torch():
        import cutlass.cute
        import cutlass.pipeline
        import cutlass.utils
        import tvm_ffi  # noqa: F401


def cutile() -> None:
    """Builds with cuTile, for any target."""
    import cutesnake.build.cutile
    from cutesnake.build.torch_import import without_torch

    _for_builds()
    with without_torch():
        import cuda.tile.compilation  # noqa: F401


def simulator() -> None:
    """What ptxsim executes, watches or predicts."""
    sys.path.insert(0, str(ROOT))
    import torch

    import cutesnake.anatomy.folder
    import cutesnake.measure.stage
    import cutesnake.predict.prediction
    import ptxsim  # noqa: F401


def _for_builds() -> None:
    """What comes before a DSL is imported: it notes the names of its sources."""
    from cutesnake.build import apart
    from cutesnake.build.neutral import use_neutral_names
    from cutesnake.catalog import roots

    assert apart
    use_neutral_names(roots(), Path("results/fetch"))
