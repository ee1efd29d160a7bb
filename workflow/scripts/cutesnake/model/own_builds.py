"""Checksums of the libraries that this user compiled on this machine.

Loading a library runs its code. A results folder from someone else describes its libraries with checksums of its own,
so those prove nothing. The compile stage notes checksums outside of results, and loading refuses what is not noted.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

TRUST = "CUTESNAKE_TRUST_BUILDS"  # 1: load libraries that are not noted
NATIVE = ("kernel.o", "kernel.so")


def notes() -> Path:
    """Return the file of this user's checksums, one a line."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local/state") / "cutesnake/builds"


def note(digests: Iterable[str]) -> None:
    """Append SHA-256 sums of libraries; without a writable home folder nothing is noted."""
    new = set(digests) - _noted()
    with contextlib.suppress(OSError):
        notes().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(notes(), flags, 0o600)
        try:
            os.write(handle, "".join(f"{digest}\n" for digest in sorted(new)).encode())
        finally:
            os.close(handle)


def is_own(digest: str) -> bool:
    """Say whether this user compiled a library, or trusts all libraries."""
    return os.environ.get(TRUST) == "1" or digest in _noted()


def _noted() -> set[str]:
    """Return the noted sums; none from a file that another user owns or can write."""
    try:
        with notes().open(encoding="ascii") as stream:
            state = os.fstat(stream.fileno())
            if state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o022:
                return set()
            return set(stream.read().split())
    except (OSError, ValueError):
        return set()


def digest_of(path: Path) -> str | None:
    """Return the SHA-256 of a file, None without one."""
    if not path.exists():
        return None
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
