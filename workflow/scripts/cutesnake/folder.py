"""The working directory: writable, and used by one run at a time."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

LOCK = ".snakemake/cutesnake.lock"
_held: list[int] = []  # the descriptor stays open, and the lock held, until this process ends, however it ends


class FolderError(OSError):
    """The working directory cannot be used now. One line that says why and what to do."""


def claim(results: Path | str = "results") -> None:
    """Take the working directory for this run; FolderError if it cannot be written or another run has it.

    The lock is the kernel's (flock): it goes with the process, so a killed run leaves nothing to be unlocked.
    """
    if _held:
        return
    try:
        for folder in (Path(results), Path(LOCK).parent):
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "not writable", str(folder))
        descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise FolderError(f"{error.filename}: the disk is full; free some space and run again") from None
        raise FolderError(
            f"{error.filename}: cannot be written ({error.strerror}); make it writable or copy the project"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise FolderError(
            "another run is under way in this folder; wait for it to end, or use a copy of the folder"
        ) from None
    _held.append(descriptor)
