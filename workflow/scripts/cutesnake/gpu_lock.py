"""One process at a time on a card: a lock file per GPU, freed by the kernel however its holder ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path


def lock_path(card: str) -> Path:
    """The lock file of a card, named by `uuid_hash`, common to all users and checkouts of this machine."""
    return Path(tempfile.gettempdir()) / f"cutesnake-gpu-{re.sub(r'[^A-Za-z0-9]', '_', card)}.lock"


@contextlib.contextmanager
def gpu_lock(card: str) -> Iterator[None]:
    """Wait for the card and hold it. Children that are forked without exec hold it too until they end."""
    handle = os.open(lock_path(card), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
