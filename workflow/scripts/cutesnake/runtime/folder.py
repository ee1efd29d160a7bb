"""The working directory: writable, and used by one run at a time."""

from __future__ import annotations

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
_held: list[int] = []  # the descriptor stays open, and the lock held, until this process ends, however it ends


class FolderError(OSError):
    """The working directory cannot be used now. One line that says why and what to do."""


def check_notes(arguments: Sequence[str]) -> None:
    """FolderError where Snakemake cannot keep its notes, which would end it with a traceback even in a dry run.

    `arguments` are those of the command line: what needs no notes goes on.
    """
    notes = Path(LOCK).parent
    if os.access(notes if notes.is_dir() else Path(), os.W_OK | os.X_OK) or not NEEDS_NO_NOTES.isdisjoint(arguments):
        return
    raise FolderError(
        f"{Path.cwd()} cannot be written, and Snakemake keeps notes there even for a dry run: name another folder to "
        "work in with --directory, or make it writable"
    )


def bring_back_from_the_future(paths: Iterable[str]) -> int:
    """Date what is dated later than now as of now, after a clock was set back or files came from a machine whose clock
    is ahead: Snakemake would refuse whatever is made from them. Returns how many there were.

    What was older than another file never becomes newer by it. A folder's date is that of Snakemake's file in it.
    """
    found, now = 0, time.time_ns()
    for path in dict.fromkeys(paths):
        for place in (path, f"{path}/.snakemake_timestamp"):
            with contextlib.suppress(OSError):
                if os.stat(place).st_mtime_ns > now:
                    os.utime(place, ns=(now, now))
                    found += place == path
    return found


def last_run() -> str | None:
    """What tells the last run in this folder from others, empty before the first; None while it is under way.

    Nothing is written, so that a folder that is read-only can be planned in.
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
    """Take the working directory for this run; FolderError if it cannot be written or another run has it.

    `planned_after` is what `last_run` said when this run was planned: a plan is of no use once another run has worked
    here. The lock is the kernel's (flock): it goes with the process, so a killed run leaves nothing to be unlocked.
    """
    if _held:
        return
    descriptor = _open(Path(results))
    if not _lock(descriptor):
        os.close(descriptor)
        raise FolderError(BUSY)
    if os.pread(descriptor, 64, 0).decode(errors="replace") != planned_after:
        os.close(descriptor)
        raise FolderError("another run worked in this folder while this one was being planned; start it again")
    with contextlib.suppress(OSError):  # a full disk, which the jobs will tell of
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, uuid.uuid4().hex.encode(), 0)
    _held.append(descriptor)


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
    """Whether the lock is ours now."""
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
