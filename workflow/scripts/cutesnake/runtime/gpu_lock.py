"""One process at a time on a card: a lock file per GPU, freed by the kernel however its holder ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # no link leads elsewhere, no pipe is waited for
FOLDER = Path("/tmp")  # not TMPDIR: it must be the same for all users and for profiled processes


def lock_path(card: str) -> Path:
    """The lock file of a card, named by `uuid_hash`, common to all users and checkouts of this machine."""
    return FOLDER / f"cutesnake-gpu-{re.sub(r'[^A-Za-z0-9]', '_', card)}.lock"


def open_lock(card: str) -> int:
    """A descriptor of the lock file of a card."""
    path = lock_path(card)
    try:  # a sticky /tmp lets nobody open another user's file for creation, but anyone for reading
        return os.open(path, FLAGS)
    except FileNotFoundError:
        return os.open(path, FLAGS | os.O_CREAT, 0o644)


@contextlib.contextmanager
def gpu_lock(card: str) -> Iterator[int]:
    """Wait for the card and hold it.

    Yields the lock's file descriptor: a process that inherits it (fork, or `pass_fds`) holds the card until it ends,
    even if its parent is killed.
    """
    handle = open_lock(card)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)
