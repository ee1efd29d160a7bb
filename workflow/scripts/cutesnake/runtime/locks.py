"""Locks between processes: flock(2) on small files, freed by the kernel however their holder ends.

A descriptor holds its lock: a process that inherits it (fork, or `pass_fds`) holds the lock until it ends, even if its
parent is killed. Nothing of this project is imported: no build's digest may depend on this module.
"""

import contextlib
import fcntl
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

NO_LINK = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # no link leads elsewhere, no pipe is waited for
GPU_FOLDER = Path("/tmp")  # not TMPDIR: it must be the same for all users and for profiled processes
MACHINE_LOCKS = "CUTESNAKE_TURNS"  # the folder of the machine's locks; without this variable nobody waits
COMPUTING = "computing"
TIMING = "timing"
OTHER = {COMPUTING: TIMING, TIMING: COMPUTING}
WAIT_SECONDS = 0.05  # between two looks, where several locks are waited for


def open_lock(path: Path | str, mode: int = 0o600) -> int:
    """Open a lock file for reading and writing, and create it if it is missing."""
    return os.open(path, os.O_RDWR | os.O_CREAT | NO_LINK, mode)


def try_lock(handle: int, shared: bool = False) -> bool:
    """Lock an open file unless another process holds it; return whether it is locked."""
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked(handle: int) -> Iterator[int]:
    """Wait for the lock of an open file, hold it, and close the file."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def first_free(locks: Sequence[Callable[[], int]], wait_seconds: float = WAIT_SECONDS) -> tuple[int, int]:
    """Wait for the first free of the opened locks; return position and descriptor."""
    while True:
        for position, opened in enumerate(locks):
            handle = opened()
            if try_lock(handle):
                return position, handle
            os.close(handle)
        time.sleep(wait_seconds)


def gpu_lock_path(gpu: str) -> Path:
    """Return a GPU's lock file, by `uuid_hash`, shared by all users here."""
    return GPU_FOLDER / f"cutesnake-gpu-{re.sub(r'[^A-Za-z0-9]', '_', gpu)}.lock"


def open_gpu_lock(gpu: str) -> int:
    """Open the lock file of a GPU, readable for all whatever the umask.

    It is opened for reading: in a sticky /tmp nobody can open another user's file for creation.
    """
    path = gpu_lock_path(gpu)
    with contextlib.suppress(FileExistsError):
        if not os.path.lexists(path):
            _create_readable(path)
    return os.open(path, os.O_RDONLY | NO_LINK)


def _create_readable(path: Path) -> None:
    """Create a file that everybody can read at once; FileExistsError if it exists."""
    unfinished = path.with_suffix(f".{uuid.uuid4().hex}")
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK, 0o600)
    try:
        os.fchmod(handle, 0o644)
        os.link(unfinished, path)
    finally:
        os.close(handle)
        unfinished.unlink()


def gpu_lock(gpu: str) -> contextlib.AbstractContextManager[int]:
    """Wait for a GPU and hold it; yields the descriptor of its lock."""
    return locked(open_gpu_lock(gpu))


@contextlib.contextmanager
def machine_lock(kind: str | None) -> Iterator[None]:
    """Wait until no work of the other kind runs on this machine, and block it.

    Any number of builds and simulations (COMPUTING) may run at once, and any number of timings (TIMING), but never both
    kinds. None, for work that disturbs nothing, waits for nothing.
    """
    folder = os.environ.get(MACHINE_LOCKS)
    if kind is None or not folder:
        yield
        return
    own = _open_kind(folder, kind)
    try:
        while not _try_kind(folder, kind, own):
            time.sleep(WAIT_SECONDS)
        yield
    finally:
        os.close(own)


def _try_kind(folder: str, kind: str, own: int) -> bool:
    """Share the lock of `kind` if the other kind's is free, one process at once."""
    with locked(_open_kind(folder, "gate")):
        other = _open_kind(folder, OTHER[kind])
        try:
            return try_lock(other) and try_lock(own, shared=True)
        finally:
            os.close(other)


def _open_kind(folder: str, name: str) -> int:
    return open_lock(Path(folder) / f"turn-{name}.lock")
