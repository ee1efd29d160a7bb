"""End a job that cannot go on with one clear line instead of a traceback."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cutesnake.model.paths import ROOT
from cutesnake.runtime import machine_check
from cutesnake.runtime.locks import COMPUTING, machine_lock

HINTS = {
    errno.ENOSPC: "the disk is full; free some space and run again, what is finished is kept",
    errno.EDQUOT: "the disk quota is used up; free some space and run again, what is finished is kept",
    errno.EROFS: "the file system is read-only; make it writable, or copy the project elsewhere, and run again",
    errno.EACCES: "no permission; make it writable and run again",
}


def use_utf8() -> None:
    """Make new processes read and write UTF-8, in any locale."""
    os.environ["PYTHONUTF8"] = "1"


@contextmanager
def one_line(stage: str, log: str | None = None) -> Iterator[None]:
    """End the process with `<stage>: <what is wrong>` on a foreseen fault.

    The line goes to stderr and to `log`. Foreseen are OSError (the disk), the exceptions that this library defines, and
    a machine that differs from the plan. Anything else is a bug of this project and keeps its traceback. A build waits
    for the machine's lock first.
    """
    try:
        if stage != "machine":  # which finds out what a machine is
            machine_check.check_packages()
        with machine_lock(COMPUTING if stage == "compile" else None):
            yield
    except Exception as error:
        if not is_foreseen(error):
            raise
        line = f"{stage}: {describe(error)}"
        if log is not None:
            _try_to_log(Path(log), line)
        sys.exit(line)


def is_foreseen(error: Exception) -> bool:
    """Return whether an error is the disk's or one that this library defines."""
    return isinstance(error, OSError) or type(error).__module__.startswith("cutesnake.")


def describe(error: Exception) -> str:
    """Describe an error: what, where and remedy, without this machine's folders."""
    if isinstance(error, OSError) and error.errno is not None:
        where = error.filename2 or error.filename
        message = HINTS.get(error.errno, error.strerror or type(error).__name__)
        text = f"{where}: {message}" if where else message
    else:
        text = str(error)
    return text.replace(f"{ROOT}/", "").replace(f"{Path.cwd()}/", "")


def _try_to_log(path: Path, line: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{line}\n")
    except OSError:  # the disk that is full may be the log's
        pass
