"""A deadlock's message names the likely culprit, the missing arrivals and their obstacle."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from snippets import run_kernel

from ptxsim.core import progress
from ptxsim.core.machine import Machine
from ptxsim.timing import simulation

# Warp 1 copies tiles into a buffer, warp 0 takes them out: mbarrier 0 says full, mbarrier 8 says empty.
PIPELINE = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra S;
mbarrier.init.shared.b64 [%r1], 1; mbarrier.init.shared.b64 [%r1+8], 32; fence.mbarrier_init.release.cluster;
S: bar.sync 0; mov.u32 %r9, 0; setp.lt.u32 %p2, %r2, 32; @%p2 bra C; setp.ne.u32 %p3, %r2, 32; @%p3 bra E;
ld.param.u64 %d1, [p0];
P: and.b32 %r4, %r9, 1; xor.b32 %r4, %r4, FIRST;
W: mbarrier.try_wait.parity.shared.b64 %p4, [%r1+8], %r4; @!%p4 bra W;
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], BYTES;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+128], [%d1], 128, [%r1];
add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, 3; @%p5 bra P; bra E;
C: and.b32 %r4, %r9, 1;
V: mbarrier.try_wait.parity.shared.b64 %p4, [%r1], %r4; @!%p4 bra V;
mad.lo.u32 %r5, %r2, 4, %r1; ld.shared.u32 %r6, [%r5+128]; RELEASE
add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, TURNS; @%p5 bra C; E:"""
ANNOUNCE = "mbarrier.arrive.expect_tx.shared.b64 _, [%r1], BYTES;"
RELEASE = "mbarrier.arrive.shared.b64 _, [%r1+8];"


def deadlock(
    first: int = 1, size: int = 128, release: str = RELEASE, rounds: int = 3, announce: str = ANNOUNCE, count: int = 32
) -> tuple[str, str]:
    """The first clause of the finding, and the instruction it stands at.

    Empty without a finding.
    """
    body = PIPELINE.replace(ANNOUNCE, announce).replace("[%r1+8], 32;", f"[%r1+8], {count};")
    body = body.replace("FIRST", str(first)).replace("BYTES", str(size)).replace("RELEASE", release)
    body = body.replace("TURNS", str(rounds))
    result = run_kernel(body, np.zeros(64, np.uint32), threads=64, shared=512, schedule="eager")
    outcome = [f for f in result.findings if f.kind == "deadlock"]
    return (outcome[0].message.split("; waiting: ")[0], outcome[0].instruction) if outcome else ("", "")


def test_the_pipeline_as_it_should_be_does_not_deadlock() -> None:
    assert deadlock() == ("", "")


def test_a_producer_whose_parity_is_flipped_comes_first() -> None:
    message, instruction = deadlock(first=0)
    assert "the first wait of a producer is for parity 1" in message and "%r1+8" in instruction


def test_a_fence_that_no_arrival_follows_is_named() -> None:
    message, _ = deadlock(release="\nfence.proxy.async.shared::cta;\n")
    span = r"waits at PTX line (\d+) .*; it may be missing between PTX line (\d+) and PTX line (\d+)$"
    waited, fence, end = map(int, re.search(span, message).groups())
    assert fence - waited == 2  # the fence is in the second line after the consumer's wait
    assert end - fence == 2  # the branch back
    assert "missing between" not in deadlock(release="")[0]


def test_a_fence_without_an_arrival_is_named_at_another_copy_of_its_line() -> None:
    copies = """setp.ne.u32 %p6, %r1, 0; @%p6 bra F;\n.loc 7 70 1\nfence.proxy.async.shared::cta;
    mov.u32 %r7, 0;\n.loc 7 77 1\nW2: mbarrier.try_wait.parity.shared.b64 %p7, [%r1+8], %r7; @!%p7 bra W2;
    .loc 7 60 1\nF:\n.loc 7 70 1\nfence.proxy.async.shared::cta;\n.loc 7 80 1\nbar.sync 1, 32;\n"""
    message, _ = deadlock(release=copies)
    assert re.search(r"it may be missing between PTX line \d+ \(7:70\) and PTX line \d+ \(7:77\)$", message)


@pytest.mark.parametrize(("signal", "named"), [("", True), ("cp.async.commit_group;", False)])
def test_copies_of_threads_that_nothing_follows_are_the_cause(signal, named) -> None:
    body = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; ld.param.u64 %d1, [p0]; setp.ne.u32 %p1, %r2, 0; @%p1 bra S;
    mbarrier.init.shared.b64 [%r1], 32; S: bar.sync 0; setp.lt.u32 %p2, %r2, 32; @%p2 bra C;
    mad.lo.u32 %r5, %r2, 4, %r1; cp.async.ca.shared.global [%r5+128], [%d1], 4; SIGNAL bra E;
    C: mov.u32 %r4, 0; V: mbarrier.try_wait.parity.shared.b64 %p4, [%r1], %r4; @!%p4 bra V; E:"""
    args = body.replace("SIGNAL", signal), np.zeros(64, np.uint32)
    (finding,) = run_kernel(*args, threads=64, shared=512, schedule="eager").findings
    assert ("no group or arrival followed the copies (cp.async)" in finding.message) is named


def test_bytes_that_nobody_sends_are_laid_to_who_announced_them() -> None:
    message, instruction = deadlock(size=144)
    assert "fewer bytes arrived than expected at PTX line" in message and "128 arrived, sent at PTX line" in message
    assert "expect_tx" in instruction


def test_bytes_that_nobody_announced_are_laid_to_who_sent_them() -> None:
    message, instruction = deadlock(announce="")
    assert message.startswith("128 bytes have arrived") and "no mbarrier.arrive.expect_tx has announced them" in message
    assert "cp.async.bulk" in instruction


def test_a_count_that_is_too_large_is_laid_to_who_made_the_mbarrier() -> None:
    message, _ = deadlock(count=33)
    assert message.startswith("32 arrivals were made") and "made for 33 at PTX line" in message


def test_a_consumer_that_never_releases_is_named_with_where_it_has_gone() -> None:
    message, instruction = deadlock(release="")
    assert "nobody has ever arrived there" in message and "must release it" in message
    assert "[%r1], %r4" in instruction  # the consumer's wait, behind which the release is missing
    message, _ = deadlock(rounds=1)
    assert "warp 0 of CTA 0, which arrived for phase 0 at PTX line" in message and "has exited since" in message


def test_a_named_barrier_that_too_few_threads_are_left_for_says_so() -> None:
    body = "mov.u32 %r2, %tid.x; setp.lt.u32 %p1, %r2, 32; @%p1 bra E; bar.sync 1, 64; E:"
    (result,) = run_kernel(body, threads=64).findings
    assert "too few threads are left to come" in result.message


# A warp that waits for a flag in memory: {how it reads it into %r1}, until it is not 0.
SPIN = "ld.param.u64 %d1, [p0]; L: {read} setp.eq.u32 %p1, %r1, 0; @%p1 bra L;"
READS = {
    "volatile": "ld.volatile.global.u32 %r1, [%d1+8];",
    "acquire": "ld.acquire.gpu.global.u32 %r1, [%d1+8]; nanosleep.u32 20;",
    "atomic": "atom.global.or.b32 %r1, [%d1+8], 0;",
}


@pytest.fixture
def impatient(monkeypatch) -> None:
    """Lose patience after a tenth of the blocks."""
    for module, name in ((simulation, "_CALM"), (progress, "_CALM"), (progress, "_PATIENCE")):
        monkeypatch.setattr(module, name, getattr(module, name) // 10)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("schedule", ["eager", "random", "warps", "timed"])
@pytest.mark.parametrize("read", READS)
def test_a_flag_that_nobody_sets_is_laid_to_who_goes_round_for_it(read, schedule) -> None:
    began = time.process_time()
    threads = 2 if read == "atomic" else 64
    (finding,) = run_kernel(
        SPIN.format(read=READS[read]), np.zeros(64, np.uint32), threads=threads, schedule=schedule
    ).findings
    assert finding.kind == "deadlock" and READS[read].split(";")[0] in finding.instruction
    assert "CTA (0, 0, 0) warps 0.." in finding.message and "loop forever at PTX line" in finding.message
    assert "reading 4 bytes of argument 0 byte 8, which hold 0x0: no thread will write it" in finding.message
    assert time.process_time() - began < 20


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("schedule", ["eager", "warps", "timed"])
def test_one_thread_that_spins_is_to_blame_where_the_others_wait_for_it_at_a_barrier(schedule) -> None:
    body = "mov.u32 %r2, %tid.x; setp.ne.u32 %p2, %r2, 0; @%p2 bra E; " + SPIN + " E: bar.sync 0;"
    result = run_kernel(body.format(read=READS["volatile"]), np.zeros(64, np.uint32), threads=64, schedule=schedule)
    (finding,) = result.findings
    assert "reading 4 bytes of argument 0 byte 8" in finding.message and "ld.volatile" in finding.instruction
    assert "(all other warps have ended, wait or loop, too)" in finding.message
    assert "for barrier 0 of CTA 0" in finding.message


def test_ctas_that_wait_for_more_than_can_be_resident_are_a_deadlock(monkeypatch) -> None:
    """Every CTA but the last waits for the last."""
    monkeypatch.setattr(Machine, "RESIDENT", 4)
    body = "mov.u32 %r2, %ctaid.x; setp.eq.u32 %p2, %r2, 9; @%p2 bra S; " + SPIN + " bra E; "
    body += "S: ld.param.u64 %d1, [p0]; st.global.u32 [%d1+8], 1; E:"
    kernel = body.format(read=READS["volatile"])
    (finding,) = run_kernel(kernel, np.zeros(64, np.uint32), grid=(10,), schedule="eager").findings
    assert "6 clusters of the grid begin when one of these has ended" in finding.message


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("schedule", ["eager", "warps", "timed"])
@pytest.mark.parametrize("read", READS)
def test_a_flag_that_another_cta_sets_late_is_no_deadlock(read, schedule) -> None:
    # CTA 1 of the cluster counts in a register first, for longer than it is waited before rounds are looked for.
    body = "mov.u32 %r2, %cluster_ctarank; setp.ne.u32 %p2, %r2, 0; @%p2 bra S; " + SPIN + " bra E; "
    body += "S: mov.u32 %r3, 0; A: add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 3000; @%p3 bra A; "
    body += "ld.param.u64 %d1, [p0]; mov.u32 %r4, 1; st.release.gpu.global.u32 [%d1+8], %r4; E:"
    flags = np.zeros(64, np.uint32)
    result = run_kernel(body.format(read=READS[read]), flags, threads=1, grid=(2,), cluster=(2,), schedule=schedule)
    assert not result.findings and flags[2] == 1


def test_a_lock_that_warps_hand_on_is_no_deadlock() -> None:
    # Each warp takes the lock by compare and swap, counts under it, and gives it back; most tries change nothing.
    body = """mov.u32 %r2, %tid.x; and.b32 %r3, %r2, 31; setp.ne.u32 %p1, %r3, 0; @%p1 bra E; ld.param.u64 %d1, [p0];
    L: atom.acquire.gpu.global.cas.b32 %r4, [%d1], 0, 1; setp.ne.u32 %p2, %r4, 0; @%p2 bra L;
    mov.u32 %r5, 0; A: add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 800; @%p3 bra A;
    ld.global.u32 %r6, [%d1+4]; add.u32 %r6, %r6, 1; st.global.u32 [%d1+4], %r6;
    mov.u32 %r7, 0; st.release.gpu.global.u32 [%d1], %r7; E:"""
    for schedule in ("random", "warps"):
        words = np.zeros(64, np.uint32)
        result = run_kernel(body, words, threads=128, schedule=schedule)
        assert not result.findings and words[:2].tolist() == [0, 4]


def test_a_lock_that_lanes_of_a_warp_hand_on_is_no_deadlock() -> None:
    """Who holds it stands behind those who ask for it, which would go first."""
    body = """ld.param.u64 %d1, [p0]; L: atom.acquire.gpu.global.cas.b32 %r4, [%d1], 0, 1; setp.ne.u32 %p2, %r4, 0;
    @%p2 bra L; ld.global.u32 %r6, [%d1+4]; add.u32 %r6, %r6, 1; st.global.u32 [%d1+4], %r6;
    mov.u32 %r7, 0; st.release.gpu.global.u32 [%d1], %r7;"""
    for schedule in ("warps", "timed"):
        words = np.zeros(64, np.uint32)
        result = run_kernel(body, words, threads=2, schedule=schedule)
        assert not result.findings and words[:2].tolist() == [0, 2]
