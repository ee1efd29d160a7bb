"""Read the budget of shared memory, per buffer in bytes, from the DSL's IR."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

LIMIT = 232_448  # bytes that one block may have on sm_90 and sm_100 (CUDA programming guide, compute capabilities)

_KERNEL = re.compile(r"cuda\.kernel @(\w+)\(")
_ALLOCATION = re.compile(
    r"%(\w+) = cute\.memref\.alloca\(\)(?: \{(?P<attributes>.*?)\})? : (?P<type>!memref_smem\w*|!cute\.memref<[^\n]*)"
)
_FIELDS = re.compile(r"smem\.struct_fields = \[(.*?)\]")
_ALIAS = re.compile(r"^(!memref_smem\w*) = (!cute\.memref<.*>)$", re.MULTILINE)
_TYPE = re.compile(r"!cute\.memref<(\w+), smem, align<(\d+)>, (?:S<[\d,]+>, )?\"(.*?)\"")
_BITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Buffer:
    """Bytes of dynamic shared memory; `alignment` shows padding before it."""

    name: str
    offset: int
    bytes: int
    field: bool  # whether the kernel's source names it

    @property
    def end(self) -> int:
        """Return the offset behind the buffer."""
        return self.offset + self.bytes


def budgets(ir: str) -> dict[str, list[Buffer]]:
    """Kernel -> its buffers in order of address, from the text of kernel.mlir.

    The IR lists allocations in the order in which they are laid out, each at its alignment.
    """
    aliases = dict(_ALIAS.findall(ir))
    starts = [(m[1], m.start()) for m in _KERNEL.finditer(ir)]
    ends = [start for _, start in starts[1:]] + [len(ir)]
    return {symbol: list(_buffers(ir[start:end], aliases)) for (symbol, start), end in zip(starts, ends, strict=True)}


def _buffers(text: str, aliases: dict[str, str]) -> Iterator[Buffer]:
    place = 0
    for number, result in enumerate(_ALLOCATION.finditer(text)):
        kind = _TYPE.match(aliases.get(result["type"], result["type"]))
        if kind is None:
            continue
        alignment = int(kind[2])
        place = -(-place // alignment) * alignment
        size = _elements(kind[3]) * max(_width(kind[1]) // 8, 1)
        fields = _FIELDS.search(result["attributes"] or "")
        inner = sorted(_fields(fields[1], place), key=lambda b: b.offset) if fields else []
        yield from inner or [Buffer(f"buffer {number + 1}", place, size, False)]
        place += size


def _fields(text: str, base: int) -> Iterator[Buffer]:
    for entry in re.findall(r'"([^"]*)"', text):
        name, size, offset = entry.rsplit(":", 2)
        if int(size):
            yield Buffer(name, base + int(offset), int(size), True)


def _elements(layout: str) -> int:
    """Elements of a layout whose strides leave no gaps: the product of its shape."""
    size = 1
    for extent in _BITS.findall(layout.split(":")[0]):
        size *= int(extent)
    return size


def _width(element: str) -> int:
    result = _BITS.search(element)
    return int(result[1]) if result else 8
