"""Machine code from a cubin: unit, scheduling fields and PTX line of each instruction.

An instruction has 128 bits. Bits 0 to 8 are the opcode. From bit 105 on are the scheduling fields, documented by
public assemblers such as CuAssembler: stall cycles, the scoreboards (of six) set when the result is ready and when
operands have been read, and the scoreboards to wait for.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .device import DeviceError

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

SIZE = 16  # bytes of an instruction
CODE_LINE = 128  # bytes of a line of the instruction caches
_NO_SCOREBOARD = 7
_EXIT, _WARPGROUP = 0x14D, 0x1C5  # the latter: WARPGROUP.ARRIVE before products, WARPGROUP.DEPBAR for their end
_WGMMA = (0x1F0, 0x1F3)  # HGMMA, QGMMA
_STORE_LOCAL = 0x187
_STACK = 1  # the register with the stack's address
_LAST_USE = 3  # cache-policy field of LDL.LU
_SIZED, _REGISTER_COUNT = 4, 0x2F  # of attributes in .nv.info
# Units in the timing model, and their opcodes (bits 0 to 8) on sm_90 and sm_100. Any other
# opcode uses the ordinary arithmetic pipe.
_UNITS: dict[str, tuple[int, ...]] = {
    "fma": (0x20, 0x21, 0x23, 0x24, 0x25, 0x27, 0x31, 0x32, 0x35),  # FMUL, FADD, FFMA, IMAD, HFMA2 …
    "packed": (0x49, 0x4A, 0x4B),  # FFMA2, FMUL2, FADD2
    "conversion": (0x3E, 0x45, 0x105, 0x106, 0x104, 0x110, 0x111),  # F2FP, I2FP, F2I, I2F, F2F
    "special": (0x102, 0x108),  # FCHK, MUFU
    "double": (0x28, 0x29, 0x2B, 0x2A),  # DMUL, DADD, DFMA, DSETP
    "uniform": (0x82, 0x83, 0x86, 0x87, 0x8C, 0x90, 0x91, 0x92, 0x96, 0x97, 0x99, 0x9C, 0xA4, 0xA5, 0xBD, 0xBF),
    "constant": (0xB9, 0x182, 0x1AC),  # ULDC, LDC, LDCU
    "register": (0xCA, 0x119, 0x1C3, 0x2F),  # R2UR, S2R, S2UR, ELECT
    "shuffle": (0x189, 0x1C4),  # SHFL, REDUX
    "shared": (0x3B, 0x44, 0x184, 0x188, 0x18C, 0x1BD),  # LDSM, STSM, LDS, STS, ATOMS, STAS
    "local": (0x183, 0x187),  # LDL, STL: spills and local arrays
    "global": (0x17E, 0x17F, 0x180, 0x181, 0x185, 0x186, 0x18A, 0x18E, 0x18F, 0x1A8, 0x1AE, 0x98),  # LD, ST, LDG …
    "barrier": (0x11D, 0x1A7, 0x1B2, 0x1C7, 0x1B0),  # BAR, SYNCS, UCGABAR, ARRIVES
    "branch": (0x141, 0x144, 0x147, 0x148, 0x149, 0x150, 0x14D),  # BSYNC, CALL, BRA, WARPSYNC, BRX, RET, EXIT
    "copy": (0x1B4, 0x1B5, 0x1B6, 0x1B7, 0x1B8, 0x1B9, 0x1BA),  # UTMALDG, UTMASTG, …, UBLKCP
    "product": (0x1F0, 0x1F3, 0x1EA, 0x1E7, 0x1E9, 0x3C, 0x3D, 0x3A, 0x3F),  # HGMMA, UTCMMA, UTCCP, UTCBAR, HMMA …
    "tensor": (0x1ED, 0x1EE),  # STTM, LDTM
    "fence": (0x192,),  # MEMBAR
    "sleep": (0x15D,),  # NANOSLEEP
}
_UNIT_OF = {code: unit for unit, codes in _UNITS.items() for code in codes}


class Slot(NamedTuple):
    """A local-memory access on a thread's stack: its first 4-byte word, and how many.

    Word -1 is an address known only at run time. `last` says that the stored value is not needed any more.
    """

    word: int
    words: int
    store: bool
    last: bool


class SassOp(NamedTuple):
    """One instruction: address, unit, stall cycles, scoreboards (-1: none), PTX line.

    `predicated` says that it executes under a predicate; `slot` is the target of a local-memory access.
    """

    address: int
    opcode: int
    unit: str
    stall: int
    sets: int
    frees: int
    waits: int
    line: int
    predicated: bool
    slot: Slot | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """The machine code of one kernel in order, and its registers per thread (0: unknown)."""

    name: str
    ops: tuple[SassOp, ...]
    registers: int = 0

    @property
    def hot_length(self) -> int:
        """The number of instructions up to the last unpredicated exit.

        After it ptxas puts rarely executed code: sleeping after a barrier's first test failed, and slow-path divisions.
        """
        ends = [n for n, op in enumerate(self.ops) if op.opcode == _EXIT and not op.predicated]
        return ends[-1] + 1 if ends else len(self.ops)

    def code_lines(self, lines: Collection[int]) -> list[int]:
        """Return the indices of CODE_LINE-byte lines with code for these PTX lines ({}: all)."""
        ops = self.ops[: self.hot_length]
        return sorted({op.address // CODE_LINE for op in ops if not lines or op.line in lines})

    @property
    def one_product_at_a_time(self) -> bool:
        """Whether ptxas serialised each wgmma (its warning C7510 and others)."""
        products = sum(op.opcode in _WGMMA for op in self.ops)
        return 0 < 2 * products <= sum(op.opcode == _WARPGROUP for op in self.ops)

    @property
    def size(self) -> int:
        """Bytes of code."""
        return SIZE * len(self.ops)


@cache
def read_cubin(path: Path) -> dict[str, Code]:
    """Return kernel name → machine code. Raises DeviceError for other files."""
    from elftools.common.exceptions import ELFError  # only the clock needs pyelftools
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(BytesIO(path.read_bytes()))
    except ELFError:
        raise DeviceError(f"{path} is not a cubin (ELF file)") from None
    lines, registers = _ptx_lines(elf), _registers(elf)
    out = {}
    for section in elf.iter_sections():
        if section.name.startswith(".text."):
            name = section.name.removeprefix(".text.")
            out[name] = Code(name, _decode(section.data(), lines.get(name, {})), registers.get(name, 0))
    return out


def code_of(kernel: str, cubins: Mapping[str, Path] | Path | None) -> Code | None:
    """Return a kernel's machine code from a cubin or mapping; DeviceError if absent."""
    path = cubins.get(kernel) if isinstance(cubins, Mapping) else cubins
    if path is None:
        return None
    code_by_kernel = read_cubin(Path(path))
    if kernel not in code_by_kernel:
        raise DeviceError(f"{path} has no code of the kernel {kernel[:80]}")
    return code_by_kernel[kernel]


def _registers(elf: ELFFile) -> dict[str, int]:
    """Return kernel → registers per thread, from .nv.info (EIATTR_REGCOUNT)."""
    info, symbols = elf.get_section_by_name(".nv.info"), elf.get_section_by_name(".symtab")
    out: dict[str, int] = {}
    if info is None or symbols is None:
        return out
    data, at = info.data(), 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            if attribute == _REGISTER_COUNT:
                symbol, count = struct.unpack_from("<II", data, at)
                out[symbols.get_symbol(symbol).name] = count
            at += size
    return out


def _decode(code: bytes, lines: dict[int, int]) -> tuple[SassOp, ...]:
    out, line = [], 0
    for address in range(0, len(code), SIZE):
        low, high = struct.unpack_from("<QQ", code, address)
        line = lines.get(address, line)
        opcode, control = low & 0x1FF, high >> 41
        sets, frees = control >> 5 & 7, control >> 8 & 7
        out.append(
            SassOp(
                address,
                opcode,
                _UNIT_OF.get(opcode, "alu"),
                control & 15,
                -1 if sets == _NO_SCOREBOARD else sets,
                -1 if frees == _NO_SCOREBOARD else frees,
                control >> 11 & 63,
                line,
                low >> 12 & 15 != 7,
                _slot(opcode, low, high) if _UNIT_OF.get(opcode) == "local" else None,
            )
        )
    return tuple(out)


def _slot(opcode: int, low: int, high: int) -> Slot:
    """Decode the stack slot of an LDL or STL (signed 24-bit offset)."""
    size = max(high >> 9 & 7, 4) - 4  # 4 bytes (or fewer), 8, 16
    offset = (low >> 40) - (1 << 24) * (low >> 63)
    on_stack = low >> 24 & 255 == _STACK and not high >> 27 & 1  # not by a uniform register, too
    last = opcode != _STORE_LOCAL and high >> 20 & 7 == _LAST_USE
    return Slot(offset >> 2 if on_stack and offset >= 0 else -1, 1 << size, opcode == _STORE_LOCAL, last)


def _ptx_lines(elf: ELFFile) -> dict[str, dict[int, int]]:
    """Return kernel → address → PTX line, from .nv_debug_line_sass; empty without it."""
    names = (".nv_debug_line_sass", ".rela.nv_debug_line_sass", ".symtab")
    table, moves, symbols = (elf.get_section_by_name(name) for name in names)
    if table is None or moves is None:
        return {}
    kernels: dict[int, str] = {}  # offset of a set_address operand → kernel
    for move in moves.iter_relocations():
        section = elf.get_section(symbols.get_symbol(move["r_info_sym"])["st_shndx"])
        kernels[move["r_offset"]] = section.name.removeprefix(".text.")
    return _LineProgram(table.data(), kernels).run()


class _LineProgram:
    """A DWARF 2 line number program (DWARF 2.0.0, 6.2)."""

    def __init__(self, data: bytes, kernels: dict[int, str]) -> None:
        self.data, self.kernels, self.at = data, kernels, 0
        self.out: dict[str, dict[int, int]] = {}

    def run(self) -> dict[str, dict[int, int]]:
        while self.at + 4 < len(self.data):
            length = struct.unpack_from("<I", self.data, self.at)[0]
            end = self.at + 4 + length
            header = struct.unpack_from("<I", self.data, self.at + 6)[0]
            _, _, base, span, first = struct.unpack_from("<BBbBB", self.data, self.at + 10)
            self.at += 10 + header
            self._unit(end, base, span, first)
            self.at = end
        return self.out

    def _unit(self, end: int, base: int, span: int, first: int) -> None:
        address, line, kernel = 0, 1, ""
        while self.at < end:
            code = self.data[self.at]
            self.at += 1
            if code >= first:
                address += (code - first) // span
                line += base + (code - first) % span
                self.out.setdefault(kernel, {})[address] = line
            elif code == 0:
                size = self._unsigned()
                kind, operand = self.data[self.at], self.at + 1
                if kind == 2:
                    kernel, address = self.kernels.get(operand, ""), struct.unpack_from("<Q", self.data, operand)[0]
                elif kind == 1:
                    address, line = 0, 1
                self.at += size
            elif code == 1:
                self.out.setdefault(kernel, {})[address] = line
            elif code == 2:
                address += self._unsigned()
            elif code == 3:
                line += self._signed()
            elif code in (4, 5):
                self._unsigned()
            elif code == 8:
                address += (255 - first) // span
            elif code == 9:
                address += struct.unpack_from("<H", self.data, self.at)[0]
                self.at += 2

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _signed(self) -> int:
        start = self.at
        value = self._unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value
