"""Instruction mix of SASS, the text that nvdisasm or cuobjdump prints."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

# Every instruction falls in exactly one class, so that the counts of a function add up to its length.
CLASSES = (
    "tensor_core",
    "tma_load",
    "tma_store",
    "tma_multicast",
    "tma_reduce",
    "barrier",
    "special_function",
    "global_memory",
    "shared_memory",
    "tensor_memory",
    "local_memory",
    "other",
)

_OPCODES = {
    # Multicast loads are distinguished by a modifier; UBLKCP by its direction (_class_of).
    "tma_load": {"UTMALDG"},
    "tma_store": {"UTMASTG"},
    "tma_reduce": {"UTMAREDG", "UBLKRED"},
    # Barriers and mbarriers, the fences and commits that order with them, and the waits on asynchronous work.
    "barrier": {
        *("BAR", "B2R", "SYNCS", "UCGABAR_ARV", "UCGABAR_WAIT", "UTCBAR", "ARRIVES", "WARPSYNC", "WARPGROUP"),
        *("MEMBAR", "FENCE", "ERRBAR", "CGAERRBAR", "DEPBAR", "LDGDEPBAR", "UTMACMDFLUSH", "ACQBULK"),
    },
    "special_function": {"MUFU"},
    "global_memory": {"LDG", "STG", "LD", "ST", "ATOM", "ATOMG", "RED", "REDG", "LDGSTS", "LDGMC"},
    "shared_memory": {"LDS", "STS", "LDSM", "STSM", "ATOMS", "STAS", "REDAS"},
    "tensor_memory": {"LDTM", "STTM", "LDT", "STT", "UTCCP", "UTCSHIFT"},
    "local_memory": {"LDL", "STL"},
}
_CLASS = {opcode: name for name, opcodes in _OPCODES.items() for opcode in opcodes}

_FUNCTION = re.compile(r"^\.text\.(?P<nvdisasm>\S+):|^\s+Function : (?P<cuobjdump>\S+)")
_INSTRUCTION = re.compile(
    r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@(?P<predicate>!?U?P[T0-9]+)\s+)?(?P<opcode>[A-Z][A-Z0-9_.a-z]*)(?P<operands>[^;]*);"
)
_HEX = re.compile(r"0x[0-9a-f]+")
_ALL_DONE = re.compile(r", 0x0\s*$")  # a wait until no wgmma group is left


@dataclass(frozen=True)
class Mix:
    """Static counts of a function: by class, by opcode, and setmaxnreg by address.

    `serialized` counts wgmma instructions that lie alone between two full waits for wgmma.
    """

    classes: dict[str, int]
    opcodes: Counter[str]
    setmaxnreg: tuple[int, ...]
    serialized: int


def read_sass(text: str) -> dict[str, Mix]:
    """Return the instruction mix per symbol, without NOP and unreachable instructions."""
    opcodes: dict[str, Counter[str]] = {}
    registers: dict[str, list[int]] = {}
    issued: Counter[str] = Counter()  # wgmma since the last full wait
    serialized: Counter[str] = Counter()
    for symbol, predicate, opcode, operands in _instructions(text):
        counter = opcodes.setdefault(symbol, Counter())
        # `@!PT` never executes: nvdisasm shows such loads where the compiler works around a hardware fault.
        if opcode == "NOP" or predicate in ("!PT", "!UPT"):
            continue
        counter[opcode] += 1
        if opcode.startswith("USETMAXREG") and (value := _HEX.search(operands)):
            registers.setdefault(symbol, []).append(int(value[0], 16))
        elif opcode.split(".")[0].endswith("GMMA"):
            issued[symbol] += 1
        elif opcode == "WARPGROUP.DEPBAR.LE" and _ALL_DONE.search(operands):
            serialized[symbol] += issued[symbol] == 1
            issued[symbol] = 0
    return {
        symbol: Mix(_classes(counter), counter, tuple(registers.get(symbol, ())), serialized[symbol])
        for symbol, counter in opcodes.items()
    }


def _instructions(text: str) -> Iterator[tuple[str, str | None, str, str]]:
    symbol = None
    for line in text.splitlines():
        if result := _FUNCTION.match(line):
            symbol = result["nvdisasm"] or result["cuobjdump"]
        elif symbol and (result := _INSTRUCTION.match(line)):
            yield symbol, result["predicate"], result["opcode"], result["operands"]


def _classes(opcodes: Counter[str]) -> dict[str, int]:
    classes = dict.fromkeys(CLASSES, 0)
    for opcode, count in opcodes.items():
        classes[_class_of(opcode)] += count
    return classes


def _class_of(opcode: str) -> str:
    base, *modifiers = opcode.split(".")
    if base.endswith("MMA"):  # HMMA, QMMA, IMMA, DMMA …; HGMMA … (wgmma); UTCHMMA, UTCQMMA … (tcgen05)
        return "tensor_core"
    if base == "UBLKCP":  # cp.async.bulk, destination before source: S shared, G global memory
        name = "tma_load" if modifiers[:2] == ["S", "G"] else "tma_store"
    else:
        name = _CLASS.get(base, "other")
    return "tma_multicast" if name == "tma_load" and "MULTICAST" in modifiers else name
