"""A hand-over between two warps, and what ptxsim reports when one line of it changes."""

import functools
import re
from dataclasses import dataclass

from ptxsim import DEFAULT_SCHEDULES as SCHEDULES
from ptxsim.museum import Exhibit

ADDRESS = re.compile("0x[0-9a-f]+")  # differs from run to run
PTX = """\
    mov.u32 %r0, %smem; add.u32 %r1, %smem, 512;     // r0: buffer, r1: full barrier
    setp.ne.u32 %p1, %thread, 0;
    @%p1 bra READY;
    mbarrier.init.shared.b64 [%r1], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    setp.ne.u32 %p2, %warp, 0;
    @%p2 bra CONSUMER;
    @%p1 bra END;                                    // one thread of warp 0 is the producer
    mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 128;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%g0], 128, [%r1];
    bra END;
CONSUMER:                                            // warp 1: 32 lanes, one word each
    WAIT %r1, 0;
    mad.lo.u32 %r2, %lane, 4, %r0;
    ld.shared.u32 %r3, [%r2];
    mad.wide.u32 %d1, %lane, 4, %g1;
    st.global.u32 [%d1], %r3;
END:
"""


@dataclass(frozen=True)
class Change:
    """One line of the hand-over, changed: `line` becomes `to`."""

    name: str
    line: str
    to: str
    why: str


@dataclass(frozen=True)
class Outcome:
    """Outcome of a change: kind of finding -> schedules, and the first message."""

    change: Change
    kinds: dict[str, list[str]]
    message: str


CHANGES = (
    Change("nothing", "", "", "The wait orders the read after the copy."),
    Change(
        "no wait",
        "    WAIT %r1, 0;\n",
        "",
        "Nothing orders the read after the copy. The numbers can still be right, if the copy happens to be early.",
    ),
    Change(
        "wait for parity 1",
        "WAIT %r1, 0",
        "WAIT %r1, 1",
        "The phase before the first one counts as complete. A wait that comes before the copy returns at once, "
        "and the read finds no data yet. A wait that comes after it waits for the second phase, which never completes.",
    ),
    Change(
        "no arrival",
        "mbarrier.arrive.expect_tx.shared.b64 _,",
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64",
        "The bytes come and are counted, but the one arrival that the barrier expects never comes.",
    ),
    Change(
        "count 2",
        "[%r1], 1;\n    fence",
        "[%r1], 2;\n    fence",
        "The barrier expects two arrivals in each phase and gets one.",
    ),
    Change(
        "256 bytes announced",
        "_, [%r1], 128",
        "_, [%r1], 256",
        "Half of the announced bytes never come, so the phase stays open.",
    ),
    Change(
        "64 bytes announced", "_, [%r1], 128", "_, [%r1], 64", "The count of bytes goes below zero and stays there."
    ),
    Change(
        "each lane reads word 0",
        "mad.lo.u32 %r2, %lane, 4, %r0",
        "mov.u32 %r2, %r0",
        "All waits are in place and all addresses are valid. Only a comparison with a reference can show it.",
    ),
    Change(
        "copy and announce 256 bytes",
        "128",
        "256",
        "The array ends after 128 bytes; the message counts from there to the copy's last byte. "
        "A GPU may read what lies behind it, without any sign.",
    ),
)


@functools.cache
def outcomes() -> list[Outcome]:
    """Run each changed hand-over in ptxsim under its default schedules, in well under a second."""
    return [_outcome(change) for change in CHANGES]


def listing() -> list[tuple[int, str]]:
    """Return the unchanged program, with the line numbers that messages name."""
    return [(number, line) for number, line in exhibit(CHANGES[0]).lines if line]


def exhibit(change: Change) -> Exhibit:
    """Return the changed hand-over; raise ValueError for a change that changes nothing."""
    text = PTX.replace(change.line, change.to) if change.line else PTX
    if change.line and text == PTX:
        raise ValueError(f"{change.name}: the hand-over has no {change.line!r}")
    return Exhibit(
        note=change.name,
        upstream=(),
        file="",
        area="ordering",
        ptx=text,
        args=["1..32", "32 * 0"],
        expected=["", "1..32"],
        threads=64,
    )


def _outcome(change: Change) -> Outcome:
    kernel, message = exhibit(change), ""
    kinds: dict[str, list[str]] = {}
    for schedule, seed in SCHEDULES:
        findings = kernel.findings(False, schedule, seed)
        reported = [one for one in findings if one.kind != "wrong"]
        kind = reported[0].kind if reported else "wrong" if findings else "right"
        kinds.setdefault(kind, []).append(schedule)
        message = message or (ADDRESS.sub("0x…", str(reported[0])) if reported else "")
    return Outcome(change, kinds, message)
