"""Digest the machine code that a GPU loads, to compare builds of records."""

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

ELF_64 = b"\x7fELF\x02"
DIGITS = 16


def digest_machine_code(folder: Path) -> str | None:
    """Return the digest of code and constants in a build's cubins, or None.

    Line tables, which move when a comment is added to the kernel, are no part of it, nor is the host's code.
    """
    cubins = {path.name: path.read_bytes() for path in sorted(folder.glob("*.cubin"))}
    if not cubins or not all(data.startswith(ELF_64) for data in cubins.values()):
        return None
    total = hashlib.sha256()
    for file, data in cubins.items():
        total.update(f"{file}\0".encode())
        for name, content in sorted(_loaded(data)):
            total.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return total.hexdigest()[:DIGITS]


def _loaded(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each section of a cubin that a GPU loads."""
    for section in ELFFile(io.BytesIO(data)).iter_sections():
        if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section["sh_type"] != "SHT_NOBITS":
            yield section.name, section.data()
