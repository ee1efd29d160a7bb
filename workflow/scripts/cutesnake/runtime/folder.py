"""The working directory: writable, and used by one run at a time."""

import contextlib
import errno
import os
import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

from cutesnake.runtime.locks import open_lock, try_lock

LOCK = ".snakemake/cutesnake.lock"
PATIENCE_SECONDS = 1.0  # another run that only looks has the lock for a moment
BUSY = "another run is under way in this folder; wait for it to end, or use a copy of the folder"
NEEDS_NO_NOTES = frozenset(("--lint", "--list-rules", "--list", "-l", "--list-target-rules", "--lt"))  # of Snakemake
_kept_open: list[int] = []  # the descriptor stays open, and the lock held, until this process ends, however it ends


class FolderError(OSError):
    """Report a working directory that cannot be used now, with reason and remedy."""


def check_notes(arguments: Sequence[str]) -> None:
    """Raise FolderError where Snakemake cannot keep its notes.

    Snakemake would end with a traceback even in a dry run. arguments: of the command line; some need no notes and go
    on.
    """
    notes = Path(LOCK).parent
    if os.access(notes if notes.is_dir() else Path(), os.W_OK | os.X_OK) or not NEEDS_NO_NOTES.isdisjoint(arguments):
        return
    raise FolderError(
        f"{Path.cwd()} cannot be written, and Snakemake keeps notes there even for a dry run: name another folder to "
        "work in with --directory, or make it writable"
    )


def bring_back_from_the_future(paths: Iterable[str]) -> int:
    """Set dates later than now to now; return how many there were.

    Such dates follow from a clock that was set back or from a machine whose clock is ahead. Snakemake would refuse what
    is made from such files. Their order by date stays. A folder's date is the date of Snakemake's file in it.
    """
    result, now = 0, time.time_ns()
    for path in dict.fromkeys(paths):
        for place in (path, f"{path}/.snakemake_timestamp"):
            with contextlib.suppress(OSError):
                if os.stat(place).st_mtime_ns > now:
                    os.utime(place, ns=(now, now))
                    result += place == path
    return result


def last_run() -> str | None:
    """Return a mark of the last run in this folder, empty before the first.

    None while it is under way. Nothing is written, so that a read-only folder can be planned in.
    """
    try:
        descriptor = os.open(LOCK, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, 64).decode(errors="replace") if try_lock(descriptor, shared=True) else None
    finally:
        os.close(descriptor)


def claim(planned_after: str | None, results: Path | str = "results") -> None:
    """Take the working directory for this run; FolderError if it is not available.

    `planned_after` is what `last_run` returned when this run was planned: a plan is of no use once another run has
    worked here. The lock is the kernel's (flock): it ends with the process, so a killed run leaves nothing to be
    unlocked.
    """
    if _kept_open:
        return
    descriptor = _open(Path(results))
    if not _lock(descriptor):
        os.close(descriptor)
        raise FolderError(BUSY)
    if os.pread(descriptor, 64, 0).decode(errors="replace") != planned_after:
        os.close(descriptor)
        raise FolderError("another run worked in this folder while this one was being planned; start it again")
    with contextlib.suppress(OSError):  # a full disk, which the jobs will report
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, uuid.uuid4().hex.encode(), 0)
    _kept_open.append(descriptor)


def _open(results: Path) -> int:
    try:
        for folder in (results, Path(LOCK).parent):
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "not writable", str(folder))
        return open_lock(LOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise FolderError(f"{error.filename}: the disk is full; free some space and run again") from None
        raise FolderError(
            f"{error.filename}: cannot be written ({error.strerror}); make it writable or copy the project"
        ) from None


def _lock(descriptor: int) -> bool:
    """Return whether this process has the lock now."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            if try_lock(descriptor):
                return True
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        except OSError as error:
            raise FolderError(
                f"{LOCK}: this file system keeps no locks ({error.strerror}): mount it with them, or make .snakemake a "
                "link to a folder on one that does"
            ) from None
