"""Make private folders, and connections whose ends know each other's user.

In a folder for everybody, like /tmp, another user can put a socket or a link where a name is known beforehand.
"""

import os
import socket
import stat
import struct
import tempfile
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")  # struct ucred of unix(7): process, user, group


class PrivateError(OSError):
    """What should be this user's own is not. One line."""


def private_folder() -> Path:
    """`<temporary folder>/cutesnake-<user id>`, made for this user alone; PrivateError if somebody else made it."""
    path = Path(tempfile.gettempdir()) / f"cutesnake-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True) if not path.is_symlink() else None
    state = path.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or stat.S_IMODE(state.st_mode) & 0o077:
        raise PrivateError(
            f"{path} is not a folder that only this user can enter: remove it, or set TMPDIR to a folder of your own"
        )
    return path


def open_private(path: Path, flags: int) -> int:
    """Return a descriptor of a file in a private folder; OSError for a link."""
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def peer(connection: socket.socket) -> int:
    """Return the user id at the other end of a Unix socket, from the kernel."""
    content = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(content)[1]


def is_own(connection: socket.socket) -> bool:
    """Whether the other end belongs to this user."""
    return peer(connection) == os.getuid()
