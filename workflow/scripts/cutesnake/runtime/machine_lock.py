"""Taking turns on a machine: what computes on its processors, and what is timed, are not under way at the same time.

Any number of builds and simulations may be under way at once, and any number of timings, one to a card; a timing waits
until no build is. The locks are the kernel's (flock), in a folder of this machine and user, so they go with their
processes. Nothing of this project is imported: no build's digest may depend on it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "CUTESNAKE_TURNS"  # the folder of the locks; without it nobody waits
COMPUTING = "computing"
TIMING = "timing"
OTHER = {COMPUTING: TIMING, TIMING: COMPUTING}
WAIT_SECONDS = 0.05


@contextlib.contextmanager
def turn(kind: str | None) -> Iterator[None]:
    """Wait until nothing of the other kind is under way, and keep it from beginning; None waits for nothing."""
    folder = os.environ.get(VARIABLE)
    if kind is None or not folder:
        yield
        return
    mine = _open(folder, kind)
    try:
        while not _begin(folder, kind, mine):
            time.sleep(WAIT_SECONDS)
        yield
    finally:
        os.close(mine)


def _begin(folder: str, kind: str, mine: int) -> bool:
    """Whether it is our turn, which it is then until `mine` is closed. One process at a time asks."""
    gate, other = _open(folder, "gate"), _open(folder, OTHER[kind])
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(mine, fcntl.LOCK_SH)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(other)
        os.close(gate)


def _open(folder: str, name: str) -> int:
    return os.open(Path(folder) / f"turn-{name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
