"""Arrivals in machine code before a tensor-memory load has ended."""

from __future__ import annotations

import pytest

from ptxsim import DeviceError
from ptxsim.frontend.parser import Module
from ptxsim.timing.early_arrivals import early_arrivals
from ptxsim.timing.sass import Code, SassOp

PTX = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k() {
.reg .b32 %r<4>;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r2];
tcgen05.wait::ld.sync.aligned;
mbarrier.arrive.shared.b64 _, [%r0];
ret;
}"""
FIRST, SECOND, WAIT, ARRIVAL = 6, 7, 8, 9  # lines


def op(line: int, opcode: int, unit: str, sets: int = -1, waits: int = 0, predicated: bool = False) -> SassOp:
    return SassOp(0, opcode, unit, 1, sets, -1, waits, line, predicated)


LOADS = [op(FIRST, 0x1EE, "tensor"), op(SECOND, 0x1EE, "tensor", sets=1)]  # the first ends with the second
USE, SIGNAL, BRANCH = op(WAIT, 0x21, "fma", waits=2), op(ARRIVAL, 0x1A7, "barrier"), op(WAIT, 0x147, "branch")


@pytest.mark.parametrize(
    ("code", "early"),
    [
        ([*LOADS, USE, SIGNAL], False),
        ([*LOADS, SIGNAL, USE], True),
        ([*LOADS, SIGNAL._replace(waits=2)], False),  # the arrival itself waits
        ([*LOADS, USE._replace(waits=4), SIGNAL], True),  # another scoreboard
        ([LOADS[0]._replace(sets=2), LOADS[1], USE, SIGNAL], False),  # loads end in order
        ([LOADS[0]._replace(sets=2), LOADS[1], USE._replace(waits=4), SIGNAL], True),  # of two, only the first
        ([*LOADS, BRANCH, SIGNAL], False),  # another path
        ([*LOADS, BRANCH._replace(predicated=True), SIGNAL], True),
        ([*LOADS, SIGNAL._replace(line=FIRST), USE], False),  # in PTX, too, it comes before the wait
    ],
)
def test_an_arrival_before_the_end_of_a_load_is_reported(code, early) -> None:
    (kernel,) = Module.from_text(PTX).kernels.values()
    findings = early_arrivals(kernel, Code("k", tuple(code)))
    assert [(f.kind, f.ptx_line) for f in findings] == ([("sass", ARRIVAL)] if early else [])


def test_machine_code_without_ptx_lines_is_refused() -> None:
    (kernel,) = Module.from_text(PTX).kernels.values()
    with pytest.raises(DeviceError, match="no PTX lines for k: compile with --generate-line-info"):
        early_arrivals(kernel, Code("k", tuple(x._replace(line=0) for x in (*LOADS, USE, SIGNAL))))
