"""Read from PTX what SASS lacks: tensor memory, local arrays, mbarrier arrays."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_DYNAMIC_SHARED = re.compile(r"\.extern\s+\.shared\s+[^;]*?([\w$]+)\s*\[\s*\]\s*;")
_LOCAL_ARRAY = re.compile(r"\.local\s+(?:\.align\s+\d+\s+)?\.[bsuf](\d+)\s+[\w$]+\[(\d+)\]")
_CALL = re.compile(r"^\s*(?:@!?%\w+\s+)?call\b", re.MULTILINE)
_ALLOC = re.compile(r"tcgen05\.alloc\S*\s+\[[^\]]*\]\s*,\s*([^;\s]+)\s*;")
_INIT = re.compile(r"mbarrier\.init\S*\s+(?:_\s*,\s*)?\[([^\]]+)\]\s*,\s*([^;\s]+)")
_BLOCK_EDGE = re.compile(r"^\s*(?:[\w$]+:|(?:@!?%\w+\s+)?(?:bra|brx|ret|exit)\b)")
_MOVE = re.compile(r"^\s*mov\.[bus](?:16|32|64)\s+(%\w+)\s*,\s*([\w$%-]+)\s*$")
_ADD = re.compile(r"^\s*add\.[bus](?:16|32|64)\s+(%\w+)\s*,\s*(%\w+)\s*,\s*(-?\w+)\s*$")
_TARGET = re.compile(r"^\s*(?:@!?%\w+\s+)?[a-z][\w.:]*\s+(%\w+)")
_INTEGER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)U?")
_STATEMENT = re.compile(r"[;\n]")
_MBARRIER_BYTES = 8


@dataclass(frozen=True)
class Entry:
    """One entry function. Where a figure is None, `notes` says why.

    `pipeline_stages` are the depths of the circular buffers of two or more stages, in order of address: an array of
    mbarriers for «full» and one as long for «empty», side by side.
    """

    symbol: str
    uses_dynamic_shared: bool
    local_array_bytes: int  # per thread
    calls: int
    tensor_memory_columns: int | None
    pipeline_stages: tuple[int, ...] | None
    notes: dict[str, str]


def read_ptx(text: str) -> dict[str, Entry]:
    """Entry functions by symbol."""
    dynamic = set(_DYNAMIC_SHARED.findall(text))
    return {symbol: _entry(symbol, body, dynamic) for symbol, body in _entries(text)}


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """(symbol, body); the body of an entry is its outermost pair of braces."""
    for result in _ENTRY.finditer(text):
        start = text.find("{", result.end())
        depth, end = 0, len(text)
        for brace in re.finditer(r"[{}]", text[start:]):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                end = start + brace.end()
                break
        yield result[1], text[start:end]


def _entry(symbol: str, body: str, dynamic: set[str]) -> Entry:
    values = _Values(body)
    notes: dict[str, str] = {}
    return Entry(
        symbol=symbol,
        uses_dynamic_shared=any(re.search(rf"\b{re.escape(name)}\b", body) for name in dynamic),
        local_array_bytes=sum(int(bits) // 8 * int(count) for bits, count in _LOCAL_ARRAY.findall(body)),
        calls=len(_CALL.findall(body)),
        tensor_memory_columns=_columns(body, values, notes),
        pipeline_stages=_stages(body, values, notes),
        notes=notes,
    )


class _Values:
    """Registers as base plus constant; the base is a symbol, register, or None.

    The PTX that compilers write assigns most registers once; one that is assigned twice counts as unknown.
    """

    def __init__(self, body: str) -> None:
        self._definitions: dict[str, list[tuple[str | None, int]]] = {}
        for line in _STATEMENT.split(body):
            if result := _MOVE.match(line):
                self._define(result[1], _operand(result[2]))
            elif (result := _ADD.match(line)) and _INTEGER.fullmatch(result[3]):
                self._define(result[1], (result[2], _integer(result[3])))
            elif result := _TARGET.match(line):
                self._define(result[1], (result[1], 0))

    def _define(self, register: str, value: tuple[str | None, int]) -> None:
        self._definitions.setdefault(register, []).append(value)

    def resolve(self, operand: str) -> tuple[str | None, int]:
        """Value of a register, symbol or number, or of an address `base+offset`."""
        name, _, offset = operand.replace(" ", "").partition("+")
        base, constant = _operand(name)
        constant += _integer(offset) if offset else 0
        for _ in range(100):  # a chain, unless the text is damaged
            result = self._definitions.get(base or "", [])
            if len(result) != 1 or result[0] == (base, 0):
                break
            base, step = result[0]
            constant += step
        return base, constant


def _operand(text: str) -> tuple[str | None, int]:
    return (None, _integer(text)) if _INTEGER.fullmatch(text) else (text, 0)


def _integer(text: str) -> int:
    return int(text.rstrip("U"), 0)


def _columns(body: str, values: _Values, notes: dict[str, str]) -> int | None:
    """Return allocated columns of 128 lanes x 4 bytes; 0 for none."""
    counts = _ALLOC.findall(body)
    if not counts:
        return 0
    resolved = [values.resolve(count) for count in counts]
    if len(resolved) > 1:
        notes["tensor_memory_columns"] = f"{len(counts)} allocations: which of them are held at once is unknown"
    elif resolved[0][0] is not None:
        notes["tensor_memory_columns"] = "the number of columns is computed while the kernel runs"
    else:
        return resolved[0][1]
    return None


def _stages(body: str, values: _Values, notes: dict[str, str]) -> tuple[int, ...] | None:
    """Depths of the pipelines, or None where arrays of mbarriers cannot be distinguished.

    CuTe initialises each array in a basic block of its own, with one arrival count and consecutive addresses. cuTile
    initialises all in one block, with changing counts: there an array has no visible end.
    """
    arrays = _barrier_arrays(body, values)
    if arrays is None:
        notes["pipeline_stages"] = "the mbarriers are initialised together: where one pipeline ends is not visible"
        return None
    lengths = [length for _, length in sorted(arrays)]
    stages, unpaired = [], []
    while lengths:
        length = lengths.pop(0)
        if length > 1 and lengths and lengths[0] == length:
            stages.append(lengths.pop(0))
        elif length > 1:
            unpaired.append(length)
    if unpaired:
        notes["pipeline_stages"] = f"an array of {unpaired[0]} mbarriers has no second one as long next to it"
        return None
    return tuple(stages)


def _barrier_arrays(body: str, values: _Values) -> list[tuple[int, int]] | None:
    """(address, length) of each array of mbarriers, or None."""
    blocks: list[list[tuple[str | None, int, tuple[str | None, int]]]] = [[]]
    for line in _STATEMENT.split(body):
        if _BLOCK_EDGE.match(line):
            blocks.append([])
        elif result := _INIT.search(line):
            blocks[-1].append((*values.resolve(result[1]), values.resolve(result[2])))
    blocks = [block for block in blocks if block]
    bases = {base for base, _, _ in itertools.chain.from_iterable(blocks)}
    if len(bases) > 1:
        return None
    arrays = []
    for block in blocks:
        addresses = [address for _, address, _ in block]
        steps = {after - before for before, after in itertools.pairwise(addresses)}
        if len({count for _, _, count in block}) > 1 or steps - {_MBARRIER_BYTES}:
            return None
        arrays.append((addresses[0], len(block)))
    return arrays
