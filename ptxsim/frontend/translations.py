"""A folder of translated kernels, shared by processes that simulate the same PTX.

Translation takes 0.1 to 4 seconds, as long as a small launch; loading a file takes a tenth of that.
A file's name digests the PTX, this package's sources, and the Python and numpy versions, so that no stale file is used.
A checksum guards the content; a damaged file is rebuilt. Files are pickles, which can run code when they are read: only
regular files are read that this user owns and nobody else can write.
"""

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
REWRITE_RATIO = 1.25  # growth in compiled functions that makes a rewrite worthwhile
_CHECKSUM_BYTES = hashlib.sha256().digest_size


class Translations:
    """Modules from a folder, which must exist; with None nothing is stored."""

    def __init__(self, folder: Path | str | None) -> None:
        self._folder = Path(folder) if folder else None
        self._files: dict[int, tuple[Module, Path, int]] = {}  # id → module, its file, functions in that file

    @staticmethod
    def prepare() -> None:
        """Compute the digest in file names, once for a process and its forks."""
        translator()

    def module(self, text: str, path: str = "<text>") -> Module:
        """Return the module of a PTX text from `path`. Raises PtxError that names the line."""
        if self._folder is None:
            return Module.from_text(text, path)
        file = self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}-{translator()}{SUFFIX}"
        cached = _read(file)
        module, programs = cached if cached else (Module.from_text(text, path), [])
        module.path = path
        for program in programs:
            remember(program)
        self._files[id(module)] = module, file, _code_count(programs)
        return module

    def keep(self, module: Module) -> None:
        """Store a module's translations if much is new and the folder is writable."""
        if id(module) not in self._files:
            return
        _, file, before = self._files[id(module)]
        programs = [program for kernel in module.kernels.values() if (program := remembered(kernel)) is not None]
        if _code_count(programs) > before * REWRITE_RATIO:
            self._files[id(module)] = module, file, _code_count(programs)
            with contextlib.suppress(OSError):
                _write(file, module, programs)


def _code_count(programs: Sequence[Program]) -> int:
    return sum(len(program.codes) for program in programs)


@without_collection
def _read(file: Path) -> tuple[Module, list[Program]] | None:
    """Return a file's content; None if it is missing, damaged, or writable by another user."""
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
    """Write a file atomically, for concurrent readers and writers."""
    content = pickle.dumps((module, list(programs)), pickle.HIGHEST_PROTOCOL)
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as stream:
        stream.write(hashlib.sha256(content).digest() + content)
    Path(stream.name).replace(file)


@lru_cache(maxsize=1)
def translator() -> str:
    """Return a digest of this package's sources, Python and numpy."""
    digest = hashlib.sha256(f"{sys.version}\0{np.__version__}".encode())
    package = Path(__file__).parents[1]
    for source in sorted(package.rglob("*.py")):
        digest.update(f"\0{source.relative_to(package)}\0".encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()[:16]
