"""Kernels whose CTAs cannot see each other, except through ordinary accesses of global memory."""

from collections.abc import Iterable

from .registry import opcode
from .syntax import Instruction

# modules of `isa` whose instructions act on the lanes of a warp
_OF_LANES = frozenset(
    {"arithmetic", "bits", "compare", "control", "convert", "floating", "integer", "memory", "warp_wide"}
)
_ORDERED = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
_OF_PROCESSOR = ("%clock", "%globaltimer", "%perctamemoryoffset")


def has_independent_ctas(instructions: Iterable[Instruction]) -> bool:
    """Return whether no instruction uses shared memory, barriers, atomics, ordered accesses or clocks."""
    return all(ins.base == "griddepcontrol" or _is_of_lanes(ins) for ins in instructions)


def _is_of_lanes(ins: Instruction) -> bool:
    entry = opcode(ins.op)
    return (
        entry is not None
        and entry.emit.__module__.rpartition(".")[2] in _OF_LANES
        and _ORDERED.isdisjoint(ins.parts)
        and not any(part.startswith("shared") for part in ins.parts)
        and not any(name in ins.text for name in _OF_PROCESSOR)
    )
