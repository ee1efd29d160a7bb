"""Tell faults of the machine from faults of a kernel.

A full disk, a tool killed for memory or a tool that cannot be started says nothing about a kernel: recording it would
make a passing trouble permanent. Nothing of this project is imported: no build's digest may depend on it.
"""

import errno
import re
import shutil
import signal
import subprocess
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

ERRNOS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ESTALE}
)
# Signals that somebody else sends. A compiler that ends by SIGSEGV or SIGABRT has met a kernel that it cannot compile.
FOREIGN_SIGNALS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU})
OLDER_BYTECODE = "Failed to detect the maximum supported TileIR bytecode version"
# What compilers, linkers and loaders print of such faults, where their callers pass on nothing but the text.
MESSAGES = re.compile(
    r"No space left on device|Disk quota exceeded|Cannot allocate memory|Read-only file system|Too many open files"
    r"|(?:terminated with|killed by|died from) signal (?:9|15|2|1)\b|died with <Signals\.SIG(?:KILL|TERM|INT|HUP)"
    r"|failed to map segment from shared object|cannot find .?(?:ld|as|collect2)\b.?(?:\s|$)"
    rf"|{OLDER_BYTECODE}"
)
SPARE_BYTES = 1 << 20  # with less free than this, a failure is put down to the disk


class MachineFaultError(OSError):
    """The machine, not the kernel, is at fault. One line, with what would help."""


def machine_fault(error: BaseException) -> str | None:
    """Return what is wrong with the machine; None if the kernel may be at fault."""
    for one in _chain(error):
        if isinstance(one, MachineFaultError | MemoryError) or (isinstance(one, OSError) and one.errno in ERRNOS):
            return _line(one)
        status = getattr(one, "returncode", getattr(one, "return_code", None))
        if isinstance(status, int) and -status in FOREIGN_SIGNALS:
            return f"{_line(one)} (ended by {signal.Signals(-status).name}: out of memory?)"
        if isinstance(one, OSError) and _was_starting_a_program(one):
            return f"{one.filename} cannot be started: {one.strerror}"
        if result := MESSAGES.search(str(one)):
            return f"{_line(one)} ({result[0].strip()})" if result[0] not in _line(one) else _line(one)
    if full := full_disk(tempfile.gettempdir()):
        return f"{_line(error)}; no space left on the disk of {full}"
    return None


def full_disk(*folders: Path | str) -> Path | None:
    """Return the first of these folders whose disk has no space left."""
    return next((Path(folder) for folder in folders if shutil.disk_usage(folder).free < SPARE_BYTES), None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it came from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _was_starting_a_program(error: OSError) -> bool:
    """Whether subprocess raised it: a file that the kernel itself misses is the kernel's fault."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename == subprocess.__file__


def _line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:300]}" if text else type(error).__name__
