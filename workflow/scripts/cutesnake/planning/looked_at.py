"""Remember facts about files between runs, while dates, size and inode stay.

The memory is one file below .snakemake/, which may be deleted at any time: everything is then read again.
"""

import contextlib
import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from cutesnake.model import record

KNOWN = Path(".snakemake/cutesnake-looked-at.json")
SPARE = 20_000  # entries that are kept though this process did not ask for them
COARSE_NS, FINE_NS = 2_000_000_000, 50_000_000  # two writes within this time may leave the same date
SECOND_NS = 1_000_000_000


class Memory:
    """kind -> path -> what was found, with the file's stamp at that time."""

    def __init__(self, entries: dict[str, dict[str, list[Any]]]) -> None:
        self.entries = entries
        self.used: set[tuple[str, str]] = set()
        self.changed = False

    def get(self, kind: str, path: str, stamp: str) -> Any:
        """Return what is known of a file with this stamp, else None."""
        result = self.entries.get(kind, {}).get(path)
        if result is None or result[0] != stamp:
            return None
        self.used.add((kind, path))
        return result[1]

    def put(self, kind: str, path: str, stamp: str, result: Any) -> None:
        """Keep a fact, unless the file is too young for a reliable stamp."""
        if _settled(stamp):
            self.entries.setdefault(kind, {})[path] = [stamp, result]
            self.used.add((kind, path))
            self.changed = True

    def recall(self, kind: str, key: str, state: str | None, find: Callable[[], Any]) -> Any:
        """Return the last result of `find` for this state; without one, call it."""
        if state is None:
            return find()
        result = self.entries.get(kind, {}).get(key)
        if result is None or result[0] != state:
            result = self.entries.setdefault(kind, {})[key] = [state, find()]
            self.changed = True
        self.used.add((kind, key))
        return result[1]

    def knows(self, kind: str, path: str) -> bool:
        """Whether a file was seen before, however it looks now."""
        return path in self.entries.get(kind, {})

    def forget(self, kind: str, path: str) -> None:
        """Drop what is known of a file."""
        if self.entries.get(kind, {}).pop(path, None) is not None:
            self.changed = True

    def save(self) -> None:
        """Write the memory for the next run, if it changed and is writable."""
        if not self.changed or not KNOWN.parent.is_dir():
            return
        if sum(map(len, self.entries.values())) > len(self.used) + SPARE:
            for kind, path in [(kind, path) for kind, result in self.entries.items() for path in result]:
                if (kind, path) not in self.used:
                    del self.entries[kind][path]
        with contextlib.suppress(OSError):
            text = json.dumps(self.entries, separators=(",", ":"))
            record.write_text(KNOWN, f"{_digest(text)}\n{text}\n")
            self.changed = False


@functools.cache
def memory() -> Memory:
    """Return this process's memory, read at first use; a damaged one is empty."""
    try:
        digest, _, text = KNOWN.read_text().partition("\n")
        text = text.removesuffix("\n")
        return Memory(json.loads(text) if digest == _digest(text) else {})
    except (OSError, ValueError, RecursionError):
        return Memory({})


def stamp(path: str | Path) -> str:
    """Return a file's dates, size and inode, which change with it. Raises OSError."""
    return _stamp(os.stat(path))


def digest(path: str) -> str | None:
    """Return a regular file's sha256 (16 hex digits), read only if changed; else None."""
    try:
        now = stamp(path)
        result = memory().get("files", path, now)
        if result is None:
            if not os.path.isfile(path):
                return None
            with open(path, "rb") as stream:
                result = hashlib.file_digest(stream, "sha256").hexdigest()[:16]
            memory().put("files", path, now, result)
        return str(result)
    except OSError:
        return None


def state_of(folders: Iterable[Path]) -> str | None:
    """Return a digest of names and stamps in folders; None if any is too young."""
    result: list[str] = []
    seen: set[tuple[int, int]] = set()
    waiting = [str(folder) for folder in folders]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.startswith(".") or entry.name == "__pycache__":
                    continue
                state = entry.stat() if os.path.exists(entry.path) else os.lstat(entry.path)  # a link to nothing
                if not entry.is_dir():
                    result.append(f"{entry.path} {_stamp(state)}")
                    if not _settled(_stamp(state)):
                        return None
                elif (state.st_dev, state.st_ino) not in seen:  # a link may lead back
                    seen.add((state.st_dev, state.st_ino))
                    waiting.append(entry.path)
    return _digest("\n".join(sorted(result)))


def _stamp(state: os.stat_result) -> str:
    return f"{state.st_mtime_ns:x}.{state.st_ctime_ns:x}.{state.st_size:x}.{state.st_ino:x}"


def _settled(stamp: str) -> bool:
    modified, changed = (int(part, 16) for part in stamp.split(".")[:2])
    granularity = COARSE_NS if modified % SECOND_NS == changed % SECOND_NS == 0 else FINE_NS
    return time.time_ns() - max(modified, changed) > granularity


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
