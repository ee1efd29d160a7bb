"""The table of opcodes: emitters, and generated code's functions, from modules of `isa`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from .syntax import Instruction

Emitter = Callable[[Any, Instruction], None]  # called with the block's Generator
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Opcode:
    """Static properties of an opcode.

    `own_block` makes each of its instructions a basic block, so that it can be resumed. `results` is how many of its
    first operands it writes; a memory operand never counts.
    """

    name: str
    emit: Emitter
    own_block: bool
    results: int


OPCODES: dict[str, Opcode] = {}
RUNTIME: dict[str, object] = {}


def emits(*names: str, own_block: bool = False, results: int = 1) -> Callable[[Emitter], Emitter]:
    """Register an emitter for opcodes, by the first parts of their names."""

    def register(emit: Emitter) -> Emitter:
        for name in names:
            OPCODES[name] = Opcode(name, emit, own_block, results)
        return emit

    return register


def runtime(function: Function) -> Function:
    """Make a function callable by name from generated code."""
    RUNTIME[function.__name__] = function
    return function


@lru_cache(maxsize=4096)
def opcode(op: str) -> Opcode | None:
    """Return the registered opcode with the longest matching prefix; None for an unknown one."""
    parts = op.split(".")
    for n in range(min(len(parts), 5), 0, -1):
        entry = OPCODES.get(".".join(parts[:n]))
        if entry is not None:
            return entry
    return None


_NUMPY = """
    add subtract multiply divide reciprocal negative absolute copysign exp2 log2 sqrt sin cos tanh
    rint trunc floor ceil minimum maximum fmin fmax isnan
    bitwise_and bitwise_or bitwise_xor invert left_shift right_shift
    less less_equal greater greater_equal equal not_equal logical_not logical_and logical_or logical_xor
    copyto where full
"""
for _name in _NUMPY.split():
    RUNTIME[_name] = getattr(np, _name)
