"""Grids that may be smaller: CTAs loop over work items with a stride.

A loop counter that grows by a value computed from the grid's size is such a stride. The kernel must not use that size
in addresses or stored values, and must not poll: partial results per CTA or barriers of the grid fix its size.
The data flow ignores the order of instructions: compilers write a register once, except copies at joins.
"""

from collections.abc import Sequence

from .pending import results_and_sources
from .syntax import Instruction, Operand, Special

ORDERED = frozenset({"volatile", "relaxed", "acquire", "mmio"})  # parts of loads that may wait for another CTA
ELSEWHERE = frozenset({"shared", "shared::cta", "shared::cluster", "local", "param", "const"})  # not global memory
SIZES, INDICES = ("nctaid", "nclusterid"), ("ctaid", "clusterid")
AXES = "xyz"
_COUNTING = ("add", "mad", "sub")
_MEMORY = ("ld", "st", "atom", "red", "cp", "multimem")
_PRIVATE = ("param", "const", "local")
Key = tuple[int, int]  # width and slot of a register
Flow = tuple[Instruction, list[Key], list[Key]]  # an instruction, its results and its sources


def reads_global_in_order(ins: Instruction) -> bool:
    """Return whether it is a relaxed, acquiring, volatile or atomic read of global memory."""
    parts = set(ins.parts)
    return (ins.base == "atom" or (ins.base == "ld" and bool(parts & ORDERED))) and ELSEWHERE.isdisjoint(parts)


def strided_axes(instructions: Sequence[Instruction]) -> frozenset[int]:
    """Return grid axes whose sizes stride work items; None for risky smaller grids."""
    if not any(read_axes(ins, SIZES) for ins in instructions):
        return frozenset()
    flows = [flow(ins) for ins in instructions]
    if any(reads_global_in_order(ins) for ins in instructions) and not only_adds(flows):
        return frozenset()
    origins = copies(flows)
    indices: dict[Key, frozenset[int]] = {}
    sizes: dict[Key, frozenset[int]] = {}
    strides: set[int] = set()
    changed = True
    while changed:
        changed = False
        for ins, results, sources in flows:
            if not results or ins.base in _MEMORY:
                continue
            index = read_axes(ins, INDICES).union(*(indices.get(key, ()) for key in sources))
            size = read_axes(ins, SIZES).union(*(sizes.get(key, ()) for key in sources))
            if size and ins.base in _COUNTING and not origins.get(results[0], {results[0]}).isdisjoint(sources):
                strides |= size  # a loop counter's own step
                size = frozenset()
            into = indices if index else sizes  # the number of a CTA in the grid is an index
            for key in results:
                if not (index or size) <= into.get(key, frozenset()):
                    into[key] = into.get(key, frozenset()) | (index or size)
                    changed = True
    if any(sizes.get(key) for ins, _, sources in flows if touches_memory(ins) for key in sources):
        return frozenset()
    return frozenset(strides)


def only_adds(flows: list[Flow]) -> bool:
    """Return whether all that polls may mean is atomics whose results nothing reads."""
    read = {key for _, _, sources in flows for key in sources}
    return not any(
        (ins.base == "ld" and ORDERED.intersection(ins.parts)) or (ins.base == "atom" and not read.isdisjoint(results))
        for ins, results, _ in flows
        if not ELSEWHERE.intersection(ins.parts)
    )


def touches_memory(ins: Instruction) -> bool:
    """Return whether an instruction accesses memory that other threads see."""
    return ins.base in _MEMORY and not any(part in _PRIVATE for part in ins.parts[1:3])


def flow(ins: Instruction) -> Flow:
    """Return an instruction with its results and sources as keys."""
    results, sources = results_and_sources(ins)
    return ins, [(r.width, r.slot) for r in results], [(r.width, r.slot) for r in sources]


def read_axes(ins: Instruction, names: tuple[str, ...]) -> frozenset[int]:
    """Return the axes of the special registers that an instruction reads."""
    return frozenset(AXES.index(axis) for x in ins.operands if (axis := special_axis(x, names)))


def special_axis(operand: Operand, names: tuple[str, ...]) -> str:
    """Return the axis of a special register of these names; empty for other operands."""
    name, _, axis = operand.name[1:].partition(".") if isinstance(operand, Special) else ("", "", "")
    return axis if name in names else ""


def copies(flows: list[Flow]) -> dict[Key, set[Key]]:
    """Return, per register, the registers that its value is copied to."""
    direct: dict[Key, set[Key]] = {}
    for ins, results, sources in flows:
        if ins.base in ("mov", "selp") and results:
            for source in sources:
                direct.setdefault(source, set()).add(results[0])
    out: dict[Key, set[Key]] = {}
    for start in direct:
        reached, work = {start}, [start]
        while work:
            for key in direct.get(work.pop(), ()):
                if key not in reached:
                    reached.add(key)
                    work.append(key)
        out[start] = reached
    return out
