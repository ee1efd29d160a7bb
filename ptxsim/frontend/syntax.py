"""PTX syntax: operands, instructions, variables, kernels (PTX ISA, chapters 4 to 7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias


class PtxError(Exception):
    """PTX that cannot be parsed or simulated; the message names kernel, line and instruction."""

    opcode: str | None = None  # the one that is not simulated, if that is the cause


WIDTHS = {
    "pred": 1,
    "b8": 8,
    "u8": 8,
    "s8": 8,
    "b16": 16,
    "u16": 16,
    "s16": 16,
    "f16": 16,
    "b32": 32,
    "u32": 32,
    "s32": 32,
    "f32": 32,
    "f16x2": 32,
    "b64": 64,
    "u64": 64,
    "s64": 64,
    "f64": 64,
    "b128": 128,
}


class _PickledByFields:
    """Base class that pickles by fields, four times as fast as frozen dataclasses do."""

    __slots__: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class Reg(_PickledByFields):
    """A virtual register: slot in its width's register file, width in bits (predicates: 1)."""

    slot: int
    width: int
    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Imm(_PickledByFields):
    """An immediate: an int, or a float with its exact bits if written in hex."""

    value: int | float
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class Sym(_PickledByFields):
    """The address of a variable or parameter, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Special(_PickledByFields):
    """A special register such as %tid.x."""

    name: str


@dataclass(frozen=True, slots=True)
class Mem(_PickledByFields):
    """[base+offset], with the coordinate operands of a tensor access."""

    base: Operand
    offset: int = 0
    coords: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vec(_PickledByFields):
    """{a, b, ...}; None stands for the sink _."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair(_PickledByFields):
    """a|b, two destinations of one instruction."""

    first: Operand
    second: Operand


Operand: TypeAlias = "Reg | Imm | Sym | Special | Mem | Vec | Pair | None"


def items(operand: Operand) -> tuple[Operand, ...]:
    """Return the elements of a vector operand; any other operand counts as one element."""
    return operand.items if isinstance(operand, Vec) else (operand,)


def pair(operand: Operand) -> tuple[Operand, Operand]:
    """Return the two destinations of a|b; the second is None (the sink) if absent."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)


@dataclass(slots=True)
class Instruction:
    """One instruction: guard, operands, PTX line and source line."""

    op: str
    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Reg | None
    line: int
    source: str | None
    text: str
    target: int = -1  # of a branch: index of the instruction jumped to

    @property
    def base(self) -> str:
        return self.parts[0]

    @property
    def location(self) -> str:
        """The PTX and source line, for a message."""
        return f"PTX line {self.line}" + (f" ({self.source})" if self.source else "")


@dataclass(slots=True)
class Variable:
    """A module or kernel variable: state space, alignment, size, initial bytes or None."""

    name: str
    space: str
    align: int
    size: int
    init: bytes | None = None


@dataclass(slots=True)
class Param:
    name: str
    offset: int
    size: int


@dataclass(slots=True)
class Kernel:
    """An .entry: parameters with offsets, directives, instructions, register counts by width."""

    name: str
    params: list[Param]
    directives: dict[str, tuple[int, ...]]
    instructions: list[Instruction] = field(default_factory=list)
    registers: dict[int, int] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    line: int = 0

    @property
    def param_bytes(self) -> int:
        return max((p.offset + p.size for p in self.params), default=0)
