"""Read kernels from a cubin: an ELF file with `.nv.info` attributes.

The attribute codes are those that `cuobjdump -elf` prints by name; tests compare both.
"""

import io
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile

from cutesnake.model.record import RecordError

# Codes of EIATTR_* attributes.
MAX_THREADS = 0x05
REQUIRED_THREADS = 0x10  # REQNTID
FRAME_SIZE = 0x11
REGISTER_COUNT = 0x2F  # REGCOUNT
MBARRIERS = 0x38  # NUM_MBARRIERS
BLOCKS_PER_CLUSTER = 0x3D  # CTA_PER_CLUSTER
NAMED_BARRIERS = 0x4C  # NUM_BARRIERS
_SIZED = 4  # format of an attribute with a payload; others hold their value in the two bytes of the size

# From sm_90 on, `.nv.shared.<kernel>` begins with the kilobyte that the system reserves of each block, and the file has
# a section `.nv.shared.reserved.0`. ptxas and Nsight Compute count that kilobyte apart, and so do we.
RESERVED_SHARED_BYTES = 1024

# What pyelftools and the reading of attributes raise on bytes that are no cubin.
_DAMAGE = (
    ELFError,
    ConstructError,
    struct.error,
    ValueError,
    LookupError,
    ArithmeticError,
    AssertionError,
    AttributeError,
)


@dataclass(frozen=True)
class Kernel:
    """One entry function. `stack_bytes` is per thread, `static_shared_bytes` per block, without the reserve."""

    symbol: str
    registers_per_thread: int
    stack_bytes: int
    static_shared_bytes: int
    required_threads: int | None
    max_threads: int | None
    blocks_per_cluster: int | None
    named_barriers: int
    mbarriers: int
    code_bytes: int


@dataclass(frozen=True)
class Cubin:
    """Kernels with most code first; `ptx` is a cuTile cubin's text, or None."""

    kernels: tuple[Kernel, ...]
    ptx: str | None


def read_cubin(path: Path | str) -> Cubin:
    """Read a cubin; RecordError for a truncated file or no cubin."""
    data = Path(path).read_bytes()
    try:
        return _read(ELFFile(io.BytesIO(data)), len(data))
    except _DAMAGE as error:
        detail = " ".join(str(error).split()) or type(error).__name__
        raise RecordError(
            f"{path}: not a whole cubin ({detail}); delete its folder and run again to rebuild it"
        ) from error


def _read(elf: ELFFile, size: int) -> Cubin:
    if elf["e_machine"] != "EM_CUDA":
        raise ValueError(f"its ELF header says {elf['e_machine']}, not EM_CUDA")
    for table in ("sh", "ph"):  # of section and program headers; both lie at the end of a cubin
        if elf[f"e_{table}off"] + elf[f"e_{table}num"] * elf[f"e_{table}entsize"] > size:
            raise ValueError("its headers end beyond the end of the file")
    sections = {}
    for section in elf.iter_sections():
        if section["sh_type"] != "SHT_NOBITS" and section["sh_offset"] + section["sh_size"] > size:
            raise ValueError(f"section {section.name} ends beyond the end of the file")
        sections[section.name] = section
    if ".nv.info" not in sections or ".symtab" not in sections:
        raise ValueError("it has no section .nv.info or no symbols")
    names = [symbol.name for symbol in sections[".symtab"].iter_symbols()]
    counts: dict[tuple[int, str], int] = {}  # (attribute, function) -> value
    for attribute, payload in _attributes(sections[".nv.info"].data()):
        if attribute in (REGISTER_COUNT, FRAME_SIZE):
            function, value = struct.unpack("<II", payload)
            counts[attribute, names[function]] = value
    reserved = RESERVED_SHARED_BYTES if ".nv.shared.reserved.0" in sections else 0
    prefix = ".nv.constant0."  # the bank of a kernel's parameters: device functions have none
    kernels = [
        _kernel(name.removeprefix(prefix), sections, counts, reserved) for name in sections if name.startswith(prefix)
    ]
    if not kernels:
        raise ValueError("it holds no kernel")
    return Cubin(tuple(sorted(kernels, key=lambda kernel: -kernel.code_bytes)), _ptx(sections))


def _kernel(symbol: str, sections: dict, counts: dict[tuple[int, str], int], reserved: int) -> Kernel:
    info = dict(_attributes(sections[f".nv.info.{symbol}"].data()))
    shared = sections.get(f".nv.shared.{symbol}")
    code = sections[f".text.{symbol}"]

    def volume(attribute: int) -> int | None:
        return math.prod(struct.unpack("<III", info[attribute])) if attribute in info else None

    def value(attribute: int) -> int:
        return int.from_bytes(info.get(attribute, b""), "little")

    return Kernel(
        symbol=symbol,
        registers_per_thread=counts[REGISTER_COUNT, symbol],
        stack_bytes=counts[FRAME_SIZE, symbol],
        static_shared_bytes=shared["sh_size"] - reserved if shared is not None else 0,
        required_threads=volume(REQUIRED_THREADS),
        max_threads=volume(MAX_THREADS),
        blocks_per_cluster=volume(BLOCKS_PER_CLUSTER),
        named_barriers=value(NAMED_BARRIERS) if NAMED_BARRIERS in info else _barriers_of_flags(code["sh_flags"]),
        mbarriers=value(MBARRIERS),
        code_bytes=code["sh_size"],
    )


def _barriers_of_flags(flags: int) -> int:
    """Return named barriers from section flags, as before CUDA 13 (CuTe for sm_90a)."""
    return flags >> 20 & 0x7F


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (attribute code, payload): byte format, byte code, two bytes size or value."""
    offset = 0
    while offset < len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, offset)
        offset += 4
        if form != _SIZED:
            yield attribute, struct.pack("<H", size)
            continue
        if offset + size > len(data):
            raise ValueError("an attribute of .nv.info is cut short")
        yield attribute, data[offset : offset + size]
        offset += size


def _ptx(sections: dict) -> str | None:
    texts = [section.data() for name, section in sections.items() if name.startswith(".nv_debug_ptx_txt")]
    return texts[0].replace(b"\0", b"\n").decode("utf-8", "replace") if texts else None
