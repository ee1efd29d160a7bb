"""Share ptxsim's translations of PTX between a run's jobs, in a folder.

The folder exists as long as the run. Results do not hold it, since it is code of this machine's Python.
"""

import atexit
import os
import shutil
from pathlib import Path
from typing import Any

VARIABLE = "CUTESNAKE_TRANSLATED"  # the folder; without it every job translates for itself
FOLDER = Path(".snakemake/cutesnake-translated")


def share() -> None:
    """Share translations between this run's jobs; for the main process only."""
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
    """Return ptxsim's modules from the run's folder, where one exists."""
    import ptxsim

    folder = os.environ.get(VARIABLE)
    return ptxsim.Translations(folder if folder and Path(folder).is_dir() else None)
