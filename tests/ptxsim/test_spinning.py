"""Threads that poll end once what they wait for is done, under every schedule.

Those that never end are reported.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from snippets import kernel_text, run_kernel

import ptxsim
from ptxsim.core.schedule import DEFAULT
from ptxsim.timing import scout

SCHEDULES = [*DEFAULT, ("timed", 0)]
FEW = [("late", 0), ("random", 0), ("timed", 0)]


def crossed(bodies: Iterable[str]) -> list[tuple[str, tuple[str, int]]]:
    """Pair the first loop with every schedule, the others with few."""
    return [(body, s) for i, body in enumerate(bodies) for s in (FEW if i else SCHEDULES)]


# Thread 0 asks for a copy of 128 bytes to byte 128, which signals the mbarrier at byte 0. Then warp 0 goes to W.
COPY = """ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, dyn; mov.u32 %r2, %tid.x;
setp.ne.u32 %p1, %r2, 0; @%p1 bra M; mbarrier.init.shared.b64 [%r1], 1; mbarrier.init.shared.b64 [%r1+8], 1;
st.shared.u32 [%r1+16], 0; fence.mbarrier_init.release.cluster;
M: bar.sync 0; @%p1 bra N; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 128;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+128], [%d1], 128, [%r1];
N: mov.u32 %r9, 1; mov.u32 %r10, 0; setp.lt.u32 %p2, %r2, 32; @%p2 bra W;
"""
TAKE = "ld.shared.u32 %r6, [%r1+132]; mad.wide.u32 %d3, %r2, 4, %d2; st.global.u32 [%d3], %r6;"
SET = "st.volatile.shared.u32 [%r1+16], 1;"
# How a loop asks for the copy's mbarrier, without being put to sleep by the instruction itself.
TESTS = {
    "at once": "V: mbarrier.test_wait.parity.shared.b64 %p4, [%r1], 0; @!%p4 bra V;",
    "nanosleep": "V: mbarrier.test_wait.parity.shared.b64 %p4, [%r1], 0; nanosleep.u32 20; @!%p4 bra V;",
    "counts": "V: add.u32 %r10, %r10, 1; mbarrier.test_wait.parity.shared.b64 %p4, [%r1], 0; @!%p4 bra V;",
    "clock": "V: mov.u32 %r10, %clock; mbarrier.test_wait.parity.shared.b64 %p4, [%r1], 0; @!%p4 bra V;",
    "in turn": """V: mbarrier.test_wait.parity.shared.b64 %p5, [%r1+8], 0;
    mbarrier.test_wait.parity.shared.b64 %p4, [%r1], 0; @!%p4 bra V;""",
}
# How a loop reads a flag that {space}:{place} holds, until it is set.
SPINS = {
    "at once": "L: ld.volatile{at} %r7, {place}; setp.eq.u32 %p5, %r7, 0; @%p5 bra L;",
    "nanosleep": "L: ld.volatile{at} %r7, {place}; nanosleep.u32 20; setp.eq.u32 %p5, %r7, 0; @%p5 bra L;",
    "backs off": """L: ld.volatile{at} %r7, {place}; nanosleep.u32 %r9; shl.b32 %r9, %r9, 1; setp.eq.u32 %p5, %r7, 0;
    @%p5 bra L;""",
    "counts": "L: ld.volatile{at} %r7, {place}; add.u32 %r10, %r10, 1; setp.eq.u32 %p5, %r7, 0; @%p5 bra L;",
    "clock": "L: ld.volatile{at} %r7, {place}; mov.u32 %r10, %clock; setp.eq.u32 %p5, %r7, 0; @%p5 bra L;",
    # one thread asks for all, as in CUTLASS's semaphores: a barrier in each round
    "meets": """setp.ne.u32 %p7, %r2, 32; L: @%p7 bra X; ld.volatile{at} %r7, {place}; st.shared.u32 [%r1+20], %r7;
    X: bar.sync 1, 64; ld.shared.u32 %r8, [%r1+20]; bar.sync 1, 64; setp.eq.u32 %p5, %r8, 0; @%p5 bra L;""",
}
IN_SHARED, IN_GLOBAL = {"at": ".shared.u32", "place": "[%r1+16]"}, {"at": ".global.u32", "place": "[%d2+1020]"}


def copied(body: str, schedule: tuple[str, int], **shape) -> np.ndarray:
    """What a kernel makes of a copy of 0, 1, 2, ….

    Warps 1 and 2 spin.
    """
    x, y = np.arange(64, dtype=np.uint32), np.zeros(256, np.uint32)
    name, seed = schedule
    result = run_kernel(COPY + body, x, y, threads=96, shared=512, schedule=name, seed=seed, **shape)
    assert not result.findings
    return y


@pytest.mark.parametrize(("test", "schedule"), crossed(TESTS))
def test_an_mbarrier_that_is_polled_completes(test: str, schedule) -> None:
    assert (copied(f"bra E; W: {TESTS[test]} {TAKE} E:", schedule)[:32] == 1).all()


@pytest.mark.parametrize(("spin", "schedule"), crossed(SPINS))
def test_a_flag_is_set_by_a_warp_that_waits_for_a_copy(spin: str, schedule) -> None:
    # Warps 1 and 2 poll. They alone could go on for ever while the copy is outstanding.
    body = f"{SPINS[spin].format(**IN_SHARED)} bra E; W: {TESTS['nanosleep']} {TAKE} {SET} E:"
    assert (copied(body, schedule)[:32] == 1).all()


@pytest.mark.parametrize(("spin", "schedule"), crossed(["at once", "counts", "meets"]))
def test_a_flag_in_global_memory_is_set_by_another_cta_that_waits_for_a_copy(spin: str, schedule) -> None:
    body = f"{SPINS[spin].format(**IN_GLOBAL)} bra E; W: mov.u32 %r3, %cluster_ctarank; setp.ne.u32 %p6, %r3, 1; "
    body += f"{TESTS['counts']} @%p6 bra E; {TAKE} fence.acq_rel.gpu; st.volatile.global.u32 [%d2+1020], 1; E:"
    assert (copied(body, schedule, grid=(2,), cluster=(2,))[:32] == 1).all()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s[0]}-{s[1]}")
def test_a_word_that_only_a_bulk_store_writes_is_polled(schedule) -> None:
    body = f"{SPINS['at once'].format(**IN_GLOBAL)} bra E; W: @%p1 bra E; {TESTS['at once']} "
    body += "cp.async.bulk.global.shared::cta.bulk_group [%d2+896], [%r1+128], 128; cp.async.bulk.commit_group; "
    body += "cp.async.bulk.wait_group 0; E:"
    assert copied(body, schedule)[224:].tolist() == list(range(32))


@pytest.mark.parametrize("goal", ["hold:copy:17", "hold:warps:0-0"])
def test_threads_that_spin_end_while_a_copy_or_a_warp_is_held_back(goal: str) -> None:
    body = f"{SPINS['at once'].format(**IN_SHARED)} bra E; W: {TESTS['at once']} {TAKE} {SET} E:"
    assert (copied(body, (goal, 0))[:32] == 1).all()


@pytest.mark.parametrize(("schedule", "seed"), [("random", 0), ("random", 1), ("warps", 0), ("late", 0)])
def test_many_warps_that_sleep_and_poll_do_not_make_one_that_computes_a_deadlock(schedule: str, seed: int) -> None:
    body = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; st.shared.u32 [%r1+16], 0; bar.sync 0; setp.lt.u32 %p1, %r2, 32;
    @%p1 bra W; L: ld.volatile.shared.u32 %r7, [%r1+16]; nanosleep.u32 20; setp.eq.u32 %p5, %r7, 0; @%p5 bra L; bra E;
    W: mov.u32 %r3, 0; A: add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 20000; @%p3 bra A;
    st.volatile.shared.u32 [%r1+16], 1; E:"""
    assert run_kernel(body, threads=544, shared=64, schedule=schedule, seed=seed).ok


@pytest.mark.parametrize("schedule", ["late", "random", "warps"])
def test_a_lane_may_set_what_the_other_lanes_of_its_warp_count_rounds_for(schedule: str) -> None:
    body = """ld.param.u64 %d1, [p0]; mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 5; @%p1 bra S; mov.u32 %r10, 0;
    L: ld.volatile.global.u32 %r7, [%d1]; add.u32 %r10, %r10, 1; setp.eq.u32 %p5, %r7, 0; @%p5 bra L; bra E;
    S: st.volatile.global.u32 [%d1], 1; E:"""
    assert run_kernel(body, np.zeros(4, np.uint32), schedule=schedule).ok


# Loops of warp 1 that end for nothing: {what changes in each round}.
ENDLESS = {
    "counts": "add.u32 %r10, %r10, 1;",
    "clock": "mov.u32 %r10, %clock;",
    "stores": "add.u32 %r10, %r10, 1; st.global.u32 [%d2+8], %r10;",
    "meets": "bar.sync 1, 32;",
}


@pytest.mark.parametrize(
    ("change", "schedule"),
    [*((change, s) for change in ENDLESS for s in ("late", "timed")), *(("counts", s) for s in ("random", "warps"))],
)
def test_a_kernel_that_never_ends_is_reported_with_the_warp_and_line_that_loop(change, schedule, monkeypatch) -> None:
    """A copy is outstanding, too, which nobody waits for."""
    monkeypatch.setattr(scout, "LIMIT", 3000)
    body = f"""setp.ge.u32 %p3, %r2, 64; @%p3 bra W;
    .loc 1 70 0
    L: ld.volatile.global.u32 %r7, [%d2];
    {ENDLESS[change]}
    setp.eq.u32 %p5, %r7, 0; @%p5 bra L; W:"""
    text = kernel_text(f".loc 1 10 0\n{COPY}{body}", shared=512) + '.file 1 "spin.py"\n'
    arrays = np.arange(64, dtype=np.uint32), np.zeros(256, np.uint32)
    launch = ptxsim.launch(ptxsim.Module.from_text(text), "k", (1,), (96,), arrays, dynamic_shared=512)
    result = ptxsim.run(launch, schedule, step_limit=3000)
    (finding,) = result.findings
    assert finding.kind == "deadlock" and finding.warp == 1 and finding.source.endswith("spin.py:70")
    assert "CTA (0, 0, 0) warps 1..1 loop at PTX line" in finding.message and "spin.py:70" in finding.message
    assert "basic blocks ran since" in finding.message and len(finding.message.splitlines()) == 1


@pytest.mark.parametrize(("limit", "ends"), [(4000, True), (1000, False)])
def test_the_step_limit_is_of_blocks_between_exits_and_completed_work(limit: int, ends: bool) -> None:
    """A thread counts to 2,000 between two of 8 copies."""
    body = """ld.param.u64 %d1, [p0]; mov.u32 %r1, dyn; mbarrier.init.shared.b64 [%r1], 1; mov.u32 %r3, 0;
    A: mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+128], [%d1], 16, [%r1];
    and.b32 %r4, %r3, 1; mov.u32 %r5, 0; B: add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 2000; @%p1 bra B;
    W: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], %r4; @!%p2 bra W;
    add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 8; @%p3 bra A;"""
    result = run_kernel(body, np.zeros(4, np.uint32), threads=1, shared=256, schedule="late", step_limit=limit)
    assert result.ok is ends


def test_a_search_has_the_step_limit_of_its_runs() -> None:
    body = "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra L;"
    result = run_kernel(body, schedule="search", step_limit=500)
    assert [f.kind for f in result.findings] == ["deadlock"] and len(result.tried) == 1
