"""Make two files by whose dates Snakemake learns which jobs have to run.

One is older than every result, the other newer. A job has one of them as input, see workflow/rules/products.smk.
"""

import contextlib
import os
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

CURRENT = ".snakemake/cutesnake-current"
STALE = f".snakemake/cutesnake-stale-{os.getpid()}"
LONG_AGO = 1.0  # seconds since 1970
DAY = 86_400.0


def make(results: Iterable[str]) -> None:
    """Make both; the newer one has new content, since Snakemake compares content too.

    It is newer than these results, too, which a clock that was set back since may have dated later than now.
    """
    with contextlib.suppress(OSError):  # a folder that is read-only, in which nothing can run
        Path(CURRENT).parent.mkdir(exist_ok=True)
        if not os.path.exists(CURRENT):
            Path(CURRENT).write_text("made from what it would be made from now\n")
        if os.stat(CURRENT).st_mtime != LONG_AGO:
            os.utime(CURRENT, (LONG_AGO, LONG_AGO))
        Path(STALE).write_text(f"{uuid.uuid4()}\n")
        newest = max((_date(path) for path in results), default=0.0) + 1.0
        if newest > time.time():
            os.utime(STALE, (newest, newest))


def _date(path: str) -> float:
    """When Snakemake thinks that a result was made."""
    result = 0.0
    for file in (path, f"{path}/.snakemake_timestamp"):
        with contextlib.suppress(OSError):
            result = max(result, os.stat(file).st_mtime)
    return result


def remove() -> None:
    """Remove the newer one, and leftovers of processes that were killed a day ago."""
    for path in Path(STALE).parent.glob("cutesnake-stale-*"):
        with contextlib.suppress(OSError):
            if str(path) == STALE or path.stat().st_mtime < time.time() - DAY:
                path.unlink()
