"""Kernels whose CTAs cannot see each other, except through ordinary accesses of global memory."""

from collections.abc import Iterable

from .registry import opcode
from .syntax import Instruction
from .work_items import ELSEWHERE

# modules of `isa` whose instructions act on the lanes of a warp
_OF_LANES = frozenset(
    {"arithmetic", "bits", "compare", "control", "convert", "floating", "integer", "memory", "warp_wide"}
)
_ORDERED = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
_CLOCKS = ("%clock", "%globaltimer")
_OF_PROCESSOR = (*_CLOCKS, "%perctamemoryoffset")


def has_independent_ctas(instructions: Iterable[Instruction]) -> bool:
    """Return whether instructions use no copies, mbarriers, atomics, ordered accesses or clocks.

    Ordinary shared memory and `bar.sync` of all threads are allowed.
    """
    return all(ins.base == "griddepcontrol" or _synchronises(ins) or _is_of_lanes(ins) for ins in instructions)


def has_separate_clusters(instructions: Iterable[Instruction]) -> bool:
    """Return whether clusters share nothing but ordinary accesses and copies of global memory."""
    return not any(
        ins.base in ("clusterlaunchcontrol", "multimem")
        or (ins.base != "prefetch" and any(part.startswith("tensormap") for part in ins.parts))
        or (ins.base in ("atom", "red", "ld", "st") and _orders_clusters(ins))
        or any(name in ins.text for name in _CLOCKS)
        for ins in instructions
    )


def _orders_clusters(ins: Instruction) -> bool:
    ordered = ins.base in ("atom", "red") or not _ORDERED.isdisjoint(ins.parts)
    return ordered and ELSEWHERE.isdisjoint(ins.parts)


def _synchronises(ins: Instruction) -> bool:
    return ins.base in ("bar", "barrier") and "sync" in ins.parts and "cluster" not in ins.parts


def _is_of_lanes(ins: Instruction) -> bool:
    entry = opcode(ins.op)
    return (
        entry is not None
        and entry.emit.__module__.rpartition(".")[2] in _OF_LANES
        and _ORDERED.isdisjoint(ins.parts)
        and "shared::cluster" not in ins.parts
        and not any(name in ins.text for name in _OF_PROCESSOR)
    )
