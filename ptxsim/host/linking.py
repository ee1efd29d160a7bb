"""From an exported object to a library that can be called here, by the machine's C compiler."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

ENTRY = "__tvm_ffi_"  # before the name of an exported function


class CaptureError(Exception):
    """The object could not be linked, loaded or called; the message is the object's own where it gave one."""


ELF_HEADER = struct.Struct("<40xQ10xHH2x")  # of 64 bits: where the table of sections begins, their size, their number


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name, or ""."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f" (is {near[0]} meant?)" if near else ""


def exported(obj: str | Path) -> list[str]:
    """The functions that an object exports with tvm-ffi. Raises CaptureError for a file that is no object."""
    try:
        content = Path(obj).read_bytes()
    except OSError as error:
        raise CaptureError(f"{obj} cannot be read: {error.strerror}") from None
    if content[:4] != b"\x7fELF":
        raise CaptureError(f"{obj} is no object file: it does not begin as ELF does")
    told = _told_size(content)
    if told > len(content):
        raise CaptureError(f"{obj} is cut short: it has {len(content)} bytes, and its own header tells of {told}")
    names = re.findall(rb"\0" + ENTRY.encode() + rb"(\w+)(?=\0)", content)
    return sorted({name.decode() for name in names})


def _told_size(content: bytes) -> int:
    """The bytes that an ELF file has to have for its table of sections to lie in it, which is its last part."""
    if len(content) < ELF_HEADER.size:
        return ELF_HEADER.size
    offset, entry, count = ELF_HEADER.unpack_from(content)
    return int(offset + entry * count)


def compiler() -> list[str]:
    """The machine's C compiler, as the words of a command: what CC names, else cc, gcc or clang.

    Raises CaptureError where there is none, or where CC names no program.
    """
    given = shlex.split(os.environ.get("CC") or "")
    if given:
        if shutil.which(given[0]) is None:
            raise CaptureError(f"CC={os.environ['CC']} names no program; unset it, or let it name a C compiler")
        return given
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise CaptureError("launch capture needs a C compiler (gcc, clang or cc on the PATH, or CC set): none was found")


def link(obj: str | Path) -> Path:
    """The object linked with the stub into a shared library, kept in a per-user cache by content."""
    stub = Path(__file__).with_name("stub.c")
    exported(obj)  # raises for a file that is no object
    return _linked(Path(obj).read_bytes(), str(obj), stub)


def link_content(content: bytes, name: str) -> Path:
    """An object that is given by its bytes, linked by itself; `name` says in messages where it came from."""
    return _linked(content, name, None)


def runtime_library() -> Path:
    """Compile the stub alone, as the CUDA runtime of functions that CuTe DSL compiled in this process."""
    stub = Path(__file__).with_name("stub.c")
    return _linked(b"", "ptxsim's stub", stub, "-DPTXSIM_JIT")


def _linked(content: bytes, name: str, stub: Path | None, *options: str) -> Path:
    """The library of an object (of the stub alone without content), out of the cache or made there."""
    beside = b"" if stub is None else stub.read_bytes()
    digest = hashlib.sha256(" ".join(options).encode() + beside + content).hexdigest()[:24]
    folder = Path(os.environ.get("PTXSIM_CACHE") or Path(tempfile.gettempdir()) / f"ptxsim-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise CaptureError(f"the cache folder {folder} belongs to another user: set PTXSIM_CACHE")
    out = folder / f"{digest}.so"
    if out.exists():
        return out
    words = compiler()
    with tempfile.TemporaryDirectory(dir=folder) as work:
        obj, partial = Path(work) / "given.o", Path(work) / "made.so"
        obj.write_bytes(content)
        sources = [str(x) for x in (stub, obj if content else None) if x is not None]
        command = [*words, "-shared", "-fPIC", "-O1", "-Wl,-Bsymbolic", *options, "-o", str(partial), *sources]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not partial.exists():
            reason = _reason(done).replace(str(obj), name)
            raise CaptureError(f"{shlex.join(words)} cannot link {name}: {reason}")
        partial.rename(out)
    return out


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """The line of a linker's messages that says what is wrong."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "not recognized" in line or "undefined" in line]
    if lines:
        return (telling or lines)[0][:300]
    return f"it ended with status {done.returncode} and made no library; is it a C compiler?"
