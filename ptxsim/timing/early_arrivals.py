"""Arrivals that ptxas moved before the end of tensor-memory loads.

In PTX, tcgen05.wait::ld stands between a load and the arrival that releases what it reads. In machine code the wait
is an instruction that waits for the load's scoreboard. Loads end in order: a wait for one covers earlier ones, and
ptxas gives some loads no scoreboard of their own. The search follows the order of the code and stops at unconditional
branches. It does not see loads that are in flight when a loop begins again.
"""

import bisect
from typing import NamedTuple

from ..core.finding import Finding
from ..frontend.syntax import Instruction, Kernel
from .device import DeviceError
from .sass import Code, SassOp

_LOAD, _DEPBAR, _LEAVES = 0x1EE, 0x11A, (0x147, 0x14D, 0x150)  # LDTM; BRA, EXIT, RET
_SIGNALS = ("barrier", "product")  # units of arrivals and commits


class _Load(NamedTuple):
    """A load in flight, and the PTX line of the wait that should end it."""

    op: SassOp
    waited: int


def early_arrivals(kernel: Kernel, code: Code) -> list[Finding]:
    """Return arrivals before the end of loads that come first in PTX.

    Raises DeviceError if the machine code of the loads has no PTX lines.
    """
    by_line = {ins.line: ins for ins in kernel.instructions}
    loads = [op for op in code.ops if op.opcode == _LOAD]
    if loads and not any(op.line in by_line for op in loads):
        raise DeviceError(f"the cubin has no PTX lines for {kernel.name[:80]}: compile with --generate-line-info")
    waits = sorted(ins.line for ins in kernel.instructions if ins.parts[:2] == ("tcgen05", "wait::ld"))
    findings: dict[int, Finding] = {}
    flying: list[_Load] = []
    for op in code.ops:
        ended = [n for n, load in enumerate(flying) if load.op.sets >= 0 and op.waits >> load.op.sets & 1]
        flying = flying[ended[-1] + 1 :] if ended else flying
        ins = by_line.get(op.line)
        if op.opcode == _DEPBAR or (op.opcode in _LEAVES and not op.predicated):
            flying = []
        elif op.opcode == _LOAD and ins is not None:
            after = bisect.bisect_left(waits, op.line)
            flying += [_Load(op, waits[after])] if after < len(waits) else []
        elif ins is not None and op.unit in _SIGNALS and arrives(ins):
            early = [load for load in flying if load.waited < op.line]
            if early:
                findings.setdefault(op.line, _finding(kernel, ins, by_line, early[0]))
    return list(findings.values())


def arrives(ins: Instruction) -> bool:
    """Return whether an instruction tells other threads that earlier work is done."""
    barrier = ins.parts[0] in ("bar", "barrier") and ins.parts[1] != "warp"
    return barrier or "arrive" in ins.parts or ins.parts[:2] == ("tcgen05", "commit")


def _finding(kernel: Kernel, ins: Instruction, by_line: dict[int, Instruction], load: _Load) -> Finding:
    message = (
        f"ptxas moved this arrival before the end of the tcgen05.ld at {by_line[load.op.line].location}, "
        f"which PTX waits for at {by_line[load.waited].location}"
    )
    return Finding("sass", message, kernel.name, ins.line, ins.source, ins.text[:160])
