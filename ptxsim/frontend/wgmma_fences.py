"""Registers of wgmma products that no wgmma.fence orders (PTX ISA 9.7.15.7.1).

A warp must execute wgmma.fence before its first product, and between another access of a product's registers
(accumulators, and A in registers) and the product. Products that accumulate into the same registers need none among
them. Only writes of accumulators are checked: compilers move the computation of A past the fence, and ptxas
waits for it as for any operand. A copy (mov) counts as its source: compilers put reads and copies
between fence and product, and ptxas removes them. A data flow over the basic blocks finds unfenced writes;
only their instructions are recorded at run time.
"""

from .code import Code
from .pending import PRODUCT, registers, results_and_sources
from .syntax import Instruction, Reg

FENCE = ("wgmma", "fence")
Slots = dict[int, frozenset[int]]  # register → the instructions that may have written it since the last fence


def unfenced(program: Code) -> dict[int, dict[int, str]]:
    """Return, per product, the writes that may precede it unfenced, with register names."""
    products = {at: ins for at, ins in enumerate(program.instructions) if ins.parts[:2] == PRODUCT}
    if not products:
        return {}
    watched = _copied_into(program, {slot for ins in products.values() for slot in _of_product(ins)})
    unfenced_writes: dict[int, dict[int, str]] = {}
    before: dict[int, Slots] = {0: {}}
    work = [0]
    while work:
        block = program.blocks[work.pop()]
        used = dict(before[block.index])
        for at in range(block.first, block.last):
            _step(program.instructions[at], at, used, watched, unfenced_writes)
        for following in program.successors(block):
            known = before.get(following)
            if known is None:
                before[following] = dict(used)
            elif all(slot in known and writes <= known[slot] for slot, writes in used.items()):
                continue  # no new information on this path
            else:
                before[following] = _merged(known, used)
            work.append(following)
    return unfenced_writes


def _of_product(ins: Instruction) -> dict[int, str]:
    """Return the 32-bit accumulators of a product: slot → name."""
    return {r.slot: r.name for r in registers(ins.operands[0]) if r.width == 32}


def _copied_into(program: Code, slots: set[int]) -> set[int]:
    """Return these registers, and those that are copied into them."""
    copies = [pair for ins in program.instructions if (pair := _copy(ins)) is not None]
    while more := {source for to, source in copies if to in slots} - slots:
        slots = slots | more
    return slots


def _copy(ins: Instruction) -> tuple[int, int] | None:
    """Return (to, from) of a mov between 32-bit registers."""
    if ins.base == "mov" and all(isinstance(x, Reg) and x.width == 32 for x in ins.operands):
        to, source = (r.slot for operand in ins.operands for r in registers(operand))
        return to, source
    return None


def _merged(a: Slots, b: Slots) -> Slots:
    return {slot: a.get(slot, frozenset()) | b.get(slot, frozenset()) for slot in a.keys() | b.keys()}


def _step(
    ins: Instruction, at: int, used: Slots, watched: set[int], unfenced_writes: dict[int, dict[int, str]]
) -> None:
    if ins.parts[:2] == FENCE:
        used.clear()
    elif ins.parts[:2] == PRODUCT:
        for slot, name in _of_product(ins).items():
            for first in used.get(slot, ()):
                unfenced_writes.setdefault(at, {})[first] = name
    elif (pair := _copy(ins)) is not None:
        to, source = pair
        if to in watched:
            used[to] = used.get(source, frozenset())
    elif ins.base == "mov" and not any(registers(x) for x in ins.operands[1:]):
        for r in registers(ins.operands[0]):
            used.pop(r.slot, None)  # a constant
    else:
        for r in results_and_sources(ins)[0]:
            if r.width == 32 and r.slot in watched:
                used[r.slot] = used.get(r.slot, frozenset()) | {at}
