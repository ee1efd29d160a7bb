"""Kernels that have been read and translated, kept in a folder for other processes that simulate the same PTX.

Reading PTX and writing Python code for it takes a tenth of a second to four of them, as long as running a small launch;
taking both from a file takes a tenth of that. A file is named by the PTX and by all that made something of it, this
package's sources, Python and numpy, so that none is used that would be made otherwise now; and its content is held
against a checksum, so that a damaged one is made anew. Files are pickles, which can run code when they are read: only
regular files are read that this user owns and nobody else can write.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from .garbage import without_collection
from .parser import Module
from .program import Program, remember, remembered

SUFFIX = ".translated"
WORTH = 1.25  # as many pieces of code as a file has, times this, make it worth writing anew
_CHECKSUM_BYTES = hashlib.sha256().digest_size


class Translations:
    """Modules out of a folder, which must exist, or read here; without a folder nothing is kept."""

    def __init__(self, folder: Path | str | None) -> None:
        self._folder = Path(folder) if folder else None
        self._files: dict[int, tuple[Module, Path, int]] = {}  # by id: a module, its file, pieces of code in that

    @staticmethod
    def prepare() -> None:
        """Read what the names of files depend on, once for a process and those that it forks."""
        translator()

    def module(self, text: str, path: str = "<text>") -> Module:
        """The module of a PTX text that stands at `path`. Raises PtxError naming the line that cannot be read."""
        if self._folder is None:
            return Module.from_text(text, path)
        file = self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}-{translator()}{SUFFIX}"
        found = _read(file)
        module, programs = found if found else (Module.from_text(text, path), [])
        module.path = path
        for program in programs:
            remember(program)
        self._files[id(module)] = module, file, _pieces(programs)
        return module

    def keep(self, module: Module) -> None:
        """Write what has been made of a module that came from here, where that is much more than its file has.

        A folder that cannot be written is no fault: the next process translates for itself.
        """
        if id(module) not in self._files:
            return
        _, file, before = self._files[id(module)]
        programs = [program for kernel in module.kernels.values() if (program := remembered(kernel)) is not None]
        if _pieces(programs) > before * WORTH:
            self._files[id(module)] = module, file, _pieces(programs)
            with contextlib.suppress(OSError):
                _write(file, module, programs)


def _pieces(programs: Sequence[Program]) -> int:
    return sum(len(program.codes) for program in programs)


@without_collection
def _read(file: Path) -> tuple[Module, list[Program]] | None:
    """What a file holds; None where there is none, not a whole one, or one that another user can have written."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
            if not _is_own(os.fstat(stream.fileno())):
                return None
            content = stream.read()
    except OSError:
        return None
    checksum, rest = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
    if hashlib.sha256(rest).digest() != checksum:
        return None
    module, programs = pickle.loads(rest)
    return module, programs


def _is_own(state: os.stat_result) -> bool:
    """Return whether this user owns a regular file that nobody else can write."""
    return stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022


@without_collection
def _write(file: Path, module: Module, programs: Sequence[Program]) -> None:
    """In one go for readers, and for others who write the same."""
    content = pickle.dumps((module, list(programs)), pickle.HIGHEST_PROTOCOL)
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as stream:
        stream.write(hashlib.sha256(content).digest() + content)
    Path(stream.name).replace(file)


@lru_cache(maxsize=1)
def translator() -> str:
    """Digest of what reads and translates: this package's sources, Python and numpy."""
    digest = hashlib.sha256(f"{sys.version}\0{np.__version__}".encode())
    package = Path(__file__).parents[1]
    for source in sorted(package.rglob("*.py")):
        digest.update(f"\0{source.relative_to(package)}\0".encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()[:16]
