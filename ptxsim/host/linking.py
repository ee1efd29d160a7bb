"""Link an exported object into a shared library with the machine's C compiler."""

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
    """An object that cannot be linked, loaded or called, with its own message if any."""


ELF_HEADER = struct.Struct("<40xQ10xHH2x")  # of 64 bits: where the table of sections begins, their size, their number


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for a misspelt name, or ""."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def exported(obj: str | Path) -> list[str]:
    """Return the functions that an object exports for tvm-ffi. Raises CaptureError for other files."""
    try:
        content = Path(obj).read_bytes()
    except OSError as error:
        raise CaptureError(f"{obj} cannot be read: {error.strerror}") from None
    if content[:4] != b"\x7fELF":
        raise CaptureError(f"{obj} is not an object file: no ELF header")
    declared = _declared_size(content)
    if declared > len(content):
        raise CaptureError(f"{obj} is truncated: it has {len(content)} of {declared} bytes")
    names = re.findall(rb"\0" + ENTRY.encode() + rb"(\w+)(?=\0)", content)
    return sorted({name.decode() for name in names})


def _declared_size(content: bytes) -> int:
    """Return an ELF file's size by its header: the end of its section table."""
    if len(content) < ELF_HEADER.size:
        return ELF_HEADER.size
    offset, entry, count = ELF_HEADER.unpack_from(content)
    return int(offset + entry * count)


def compiler() -> list[str]:
    """Return $CC, else cc, gcc or clang; CaptureError if there is none."""
    configured = shlex.split(os.environ.get("CC") or "")
    if configured:
        if shutil.which(configured[0]) is None:
            raise CaptureError(f"CC={os.environ['CC']} names no program; unset it, or let it name a C compiler")
        return configured
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise CaptureError("launch capture needs a C compiler (gcc, clang or cc on the PATH, or CC set): none was found")


def link(obj: str | Path) -> Path:
    """Link an object with the stub into a shared library, cached per user by content."""
    stub = Path(__file__).with_name("stub.c")
    exported(obj)  # raises for a file that is no object
    return _linked(Path(obj).read_bytes(), str(obj), stub)


def link_content(content: bytes, name: str) -> Path:
    """Link an object given as bytes; `name` is its origin in messages."""
    return _linked(content, name, None)


def runtime_library() -> Path:
    """Compile the stub as the CUDA runtime of functions compiled in this process."""
    return _linked(b"", "ptxsim's stub", Path(__file__).with_name("stub.c"), "-DPTXSIM_JIT")


def _linked(content: bytes, name: str, stub: Path | None, *options: str) -> Path:
    """Return the library of an object, or of the stub alone without content."""
    stub_bytes = b"" if stub is None else stub.read_bytes()
    digest = hashlib.sha256(" ".join(options).encode() + stub_bytes + content).hexdigest()[:24]
    folder = Path(os.environ.get("PTXSIM_CACHE") or Path(tempfile.gettempdir()) / f"ptxsim-{os.getuid()}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise CaptureError(f"the cache folder {folder} belongs to another user: set PTXSIM_CACHE")
    out = folder / f"{digest}.so"
    if out.exists():
        return out
    cc = compiler()
    with tempfile.TemporaryDirectory(dir=folder) as work:
        obj, partial = Path(work) / "given.o", Path(work) / "made.so"
        obj.write_bytes(content)
        sources = [str(x) for x in (stub, obj if content else None) if x is not None]
        command = [*cc, "-shared", "-fPIC", "-O1", "-Wl,-Bsymbolic", *options, "-o", str(partial), *sources]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not partial.exists():
            reason = _reason(done).replace(str(obj), name)
            raise CaptureError(f"{shlex.join(cc)} cannot link {name}: {reason}")
        partial.rename(out)
    return out


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return the line of the linker's output that states the error."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "not recognized" in line or "undefined" in line]
    if lines:
        return (errors or lines)[0][:300]
    return f"it ended with status {done.returncode} and made no library; is it a C compiler?"
