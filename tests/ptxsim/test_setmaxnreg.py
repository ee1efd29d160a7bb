"""setmaxnreg moves registers between warps, within the CTA's total."""

from __future__ import annotations

import re

import pytest
from snippets import kernel_text

import ptxsim

BOUNDS = ".reqntid 384, 1, 1\n.minnctapersm 1\n"
# Warps 0 to 3 load, 4 to 11 compute; they may come to their instructions in any order.
ROLES = """mov.u32 %r2, %tid.x; setp.lt.u32 %p1, %r2, 128; @%p1 bra L;
{consumer} bar.sync 1, {computing}; bra E;
L: {producer} E:"""


def run(producer: str, consumer: str, bounds: str = BOUNDS, threads: int = 384, schedule: str = "random"):
    """The result of a kernel of these roles."""
    body = ROLES.format(producer=producer, consumer=consumer, computing=threads - 128)
    text = kernel_text(body, 0).replace("()\n{", f"()\n{bounds}{{")
    assert bounds in text
    return ptxsim.run(ptxsim.launch(ptxsim.Module.from_text(text), "k", (2,), (threads,), ()), schedule)


def dec(count: int) -> str:
    return f"setmaxnreg.dec.sync.aligned.u32 {count};"


def inc(count: int) -> str:
    return f"setmaxnreg.inc.sync.aligned.u32 {count};"


@pytest.mark.parametrize("schedule", ["random", "eager", "late", "warps", "timed"])
@pytest.mark.parametrize(("less", "more"), [(24, 240), (40, 232), (168, 168), (24, 160)])
def test_what_some_warps_give_back_others_may_have(less: int, more: int, schedule: str) -> None:
    assert run(dec(less), inc(more), schedule=schedule).ok


@pytest.mark.parametrize("schedule", ["random", "eager", "late", "warps", "timed"])
def test_a_dec_that_is_missing_is_a_deadlock_at_the_inc(schedule: str) -> None:
    # 168 * 128 + 240 * 256 registers are too many. That the loading warps exit gives nothing back.
    (finding,) = run("", inc(240), schedule=schedule).findings
    assert finding.kind == "deadlock" and finding.instruction.startswith("setmaxnreg.inc") and finding.warp == 4
    assert "64,512 registers (168 per thread at launch)" in finding.message and "82,944" in finding.message
    assert "in warps 4..11" in finding.message and "warps 0..3 gave none back" in finding.message


@pytest.mark.parametrize("schedule", ["random", "eager", "late"])
def test_a_missing_dec_names_where_the_code_of_its_warps_begins_and_the_other_decs(schedule: str) -> None:
    producer = f"setp.lt.u32 %p2, %r2, 96; @%p2 bra M;\n{dec(24)} bra E;\nM: mov.u32 %r3, 0;"
    (finding,) = run(producer, inc(240), schedule=schedule).findings
    begins, others = re.search(
        r"warps 0..2 gave none back \(their own code begins at PTX line (\d+)\); others did at PTX line (\d+)",
        finding.message,
    ).groups()
    assert int(begins) - int(others) == 1


@pytest.mark.parametrize(("less", "more"), [(24, 248), (48, 240), (168, 176)])
def test_an_inc_that_is_too_large_is_a_deadlock(less: int, more: int) -> None:
    (finding,) = run(dec(less), inc(more)).findings
    assert finding.kind == "deadlock" and f"inc to {more} registers" in finding.message
    assert ("; warps gave some back at PTX line" in finding.message) is (less < 168)


def test_launch_bounds_say_how_many_registers_there_are() -> None:
    for bounds, threads, more, ok in (
        (".maxntid 384, 1, 1\n.minnctapersm 2\n", 384, 104, True),  # 80 per thread
        (".maxntid 384, 1, 1\n.minnctapersm 2\n", 384, 112, False),
        (".maxnreg 128\n", 384, 176, True),
        (".maxnreg 128\n", 384, 184, False),
        (".reqntid 256\n", 256, 256, True),
        (".reqntid 16, 8, 3\n", 384, 240, True),
    ):
        assert run(dec(24), inc(more), bounds, threads).ok is ok, (bounds, more)


def test_setmaxnreg_does_nothing_where_nobody_knows_the_registers_at_launch() -> None:
    assert run("", inc(240), ".explicitcluster\n").ok
