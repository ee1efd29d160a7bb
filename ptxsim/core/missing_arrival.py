"""Places where an arrival on an mbarrier that nobody signals may be missing.

An arrival follows what it publishes or releases. So a fence, or a wait for loads, stores or products, is suspect if
the next wait, the end of its loop or the return comes before any arrival.
"""

from collections.abc import Iterable, Iterator

from ..frontend.program import Program
from ..frontend.syntax import Instruction

FAR = 400  # instructions around a wait that are searched for a product
BEFORE_ARRIVALS = (
    ("tcgen05", "wait::ld"),
    ("tcgen05", "wait::st"),
    ("tcgen05", "fence::before_thread_sync"),
    ("fence", "proxy", "async"),
    ("wgmma", "wait_group"),
)
LOADS = (("tcgen05", "ld"), ("tcgen05", "wait::ld"))
WAITS = (("mbarrier", "try_wait"), ("mbarrier", "test_wait"))


def missing_arrival(program: Program, visits: Iterable[int], at: int) -> list[tuple[int, int]]:
    """Return (first, last) instructions between which an arrival may be missing; [] if unknown."""
    code = program.instructions
    ran = {n for block in visits for n in range(program.blocks[block].first, program.blocks[block].last)}
    unused = list(unused_releases(code))
    if executed := [span for span in unused if span[0] in ran]:
        return executed
    loads = [n for n in ran if code[n].parts[:2] in LOADS]
    if loads and any(ins.parts[:2] == ("tcgen05", "mma") for ins in code[max(at - FAR, 0) : at + FAR]):
        last = max(loads)  # the wait was for tensor memory that loads must release first
        return [(last, end_of_loop(program, last))]
    sources = {code[n].source for n in ran}  # another copy of a line, inlined or unrolled, may show what is missing
    return [span for span in unused if code[span[0]].source in sources - {None}]


def unused_releases(code: list[Instruction]) -> Iterator[tuple[int, int]]:
    """Yield fences and waits without a following signal, with what follows instead."""
    for n, ins in enumerate(code):
        if any(ins.parts[: len(form)] == form for form in BEFORE_ARRIVALS):
            following = next((m for m in range(n + 1, len(code)) if ends_search(code[m], n)), len(code) - 1)
            if not is_signal(code[following]):
                yield n, following


def ends_search(ins: Instruction, start: int) -> bool:
    """Return whether an instruction decides what a fence at `start` was for."""
    again = any(ins.parts[: len(form)] == form for form in BEFORE_ARRIVALS)
    back = ins.base == "bra" and ins.target <= start
    return again or back or is_signal(ins) or ins.parts[:2] in WAITS or ins.base in ("ret", "exit")


def is_signal(ins: Instruction) -> bool:
    """Return whether an instruction signals other threads, is a fence or begins a copy."""
    parts = ins.parts
    if any(parts[: len(form)] == form for form in BEFORE_ARRIVALS):
        return True
    barrier = parts[0] in ("bar", "barrier") and parts[1] != "warp"
    return "arrive" in parts or barrier or parts[:2] == ("tcgen05", "commit") or parts[:3] == ("cp", "async", "bulk")


def end_of_loop(program: Program, at: int) -> int:
    """Return the instruction with the loop's last source line; `at` outside of loops."""
    code, blocks = program.instructions, program.blocks
    file = (code[at].source or "").rpartition(":")[0]
    for first, (last, _) in program.loops.items():
        if blocks[first].first <= at < blocks[last].last:
            inside = [n for n in range(at + 1, blocks[last].last) if file and (code[n].source or "").startswith(file)]
            return max(inside, key=lambda n: int((code[n].source or "").rpartition(":")[2]), default=at)
    return at
