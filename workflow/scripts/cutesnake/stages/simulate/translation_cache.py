"""The folder of a run in which its jobs leave each other what ptxsim has made of PTX: checks of one build, its anatomy.

It is there for as long as the run is. Results do not hold it, since it is code of this machine's Python.
"""

from __future__ import annotations

import atexit
import os
import shutil
from pathlib import Path
from typing import Any

VARIABLE = "CUTESNAKE_TRANSLATED"  # the folder; without it every job translates for itself
FOLDER = Path(".snakemake/cutesnake-translated")


def share() -> None:
    """Have the jobs of this run share translations; called by its main process, the only one in this folder."""
    shutil.rmtree(FOLDER, ignore_errors=True)  # of a run that was killed
    try:
        FOLDER.parent.mkdir(exist_ok=True)
        FOLDER.mkdir(mode=0o700)  # whatever the umask: it holds pickles
    except OSError:
        return
    place = str(FOLDER.resolve())
    os.environ[VARIABLE] = place
    atexit.register(shutil.rmtree, place, ignore_errors=True)


def shared_translations() -> Any:
    """ptxsim's modules by way of the run's folder, where there is one."""
    import ptxsim

    folder = os.environ.get(VARIABLE)
    return ptxsim.Translations(folder if folder and Path(folder).is_dir() else None)
