"""What a card loads of a build, in a digest: records with the same one were made with the same machine code.

Sections are read by hand, since a machine that measures need not have pyelftools (envs/requirements.txt).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

ELF_64 = b"\x7fELF\x02"
ALLOCATED = 0x2  # of a section's flags: a card loads it (ELF-64, SHF_ALLOC)
WITHOUT_BYTES = 8  # a section's type where it has a size only (SHT_NOBITS)
DIGITS = 16


def digest_machine_code(folder: Path) -> str | None:
    """Digest of the code and constants in a build's cubins; None for a build without one, or with one that is none.

    Line tables, which move when a comment is added to the kernel, are no part of it, nor is the host's code.
    """
    cubins = {path.name: path.read_bytes() for path in sorted(folder.glob("*.cubin"))}
    if not cubins or not all(data.startswith(ELF_64) for data in cubins.values()):
        return None
    total = hashlib.sha256()
    for file, data in cubins.items():
        total.update(f"{file}\0".encode())
        for name, content in sorted(_loaded(data)):
            total.update(name + b"\0" + hashlib.sha256(content).digest())
    return total.hexdigest()[:DIGITS]


def _loaded(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and content of each section of a cubin that a card loads."""
    table = struct.unpack_from("<Q", data, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", data, table + n * size) for n in range(count)]
    strings = sections[names][4]
    for name, kind, flags, _, offset, length in sections:
        if flags & ALLOCATED and kind != WITHOUT_BYTES:
            begin = strings + name
            yield data[begin : data.index(b"\0", begin)], data[offset : offset + length]
