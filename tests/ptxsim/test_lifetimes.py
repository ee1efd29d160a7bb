"""What must not outlive what it uses.

Shared memory of CTAs that exit, tensor memory that is freed, barriers' uses.
"""

from __future__ import annotations

import numpy as np
import pytest
from snippets import run_kernel

OUT = "ld.param.u64 %d1, [p0];"
STORE = f"""mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r2, 4, %r1; st.shared.u32 [%r3], %r2;
fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p1, %r2, 0; @%p1 bra E; {OUT}
cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 128; cp.async.bulk.commit_group; WAIT E:"""


@pytest.mark.parametrize("schedule", ["eager", "late"])
@pytest.mark.parametrize("wait", ["cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0;", ""])
def test_a_cta_that_exits_has_waited_for_its_bulk_stores(wait, schedule) -> None:
    body = STORE.replace("WAIT", wait)
    result = run_kernel(body, np.zeros(32, np.uint32), shared=256, schedule=schedule, checks=("exit", "race"))
    assert [f.kind for f in result.findings] == ([] if wait else ["exit"])
    assert wait or "wait_group.read" in result.findings[0].message


LOAD = f"""mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra E;
mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster; {OUT}
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 128;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+128], [%d1], 128, [%r1]; WAIT E:"""
UNTIL = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra W;"


@pytest.mark.parametrize("schedule", ["eager", "late"])
@pytest.mark.parametrize("wait", [UNTIL, ""])
def test_a_cta_that_exits_has_waited_for_its_loads(wait, schedule) -> None:
    body = LOAD.replace("WAIT", wait)
    result = run_kernel(body, np.zeros(32, np.uint32), shared=512, schedule=schedule, checks=("exit", "race"))
    assert [f.kind for f in result.findings] == ([] if wait else ["exit"])


PEER = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; mov.u32 %r3, %cluster_ctarank; mad.lo.u32 %r4, %r2, 4, %r1;
st.shared.u32 [%r4], %r2; barrier.cluster.arrive; barrier.cluster.wait; setp.ne.u32 %p1, %r3, 0; @%p1 bra L;
xor.b32 %r5, %r3, 1; mapa.shared::cluster.u32 %r6, %r4, %r5; ACCESS
L: LAST"""


@pytest.mark.parametrize("access", ["ld.shared::cluster.u32 %r7, [%r6];", "st.shared::cluster.u32 [%r6], 5;"])
@pytest.mark.parametrize("last", ["barrier.cluster.arrive; barrier.cluster.wait;", ""])
def test_shared_memory_of_another_cta_is_used_before_its_exit(access, last) -> None:
    for seed in range(3):
        body = PEER.replace("ACCESS", access).replace("LAST", last)
        result = run_kernel(body, grid=(2,), cluster=(2,), shared=256, seed=seed, checks=("exit", "race"))
        assert [f.kind for f in result.findings] == ([] if last else ["exit"])


FREE = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5; setp.ne.u32 %p1, %r3, 0; @%p1 bra A;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; A: bar.sync 0; ld.shared.u32 %r4, [%r1];
shl.b32 %r5, %r3, 21; add.u32 %r5, %r5, %r4; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r2};
tcgen05.wait::st.sync.aligned; BARRIER
@%p1 bra E; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32; E: AFTER"""


@pytest.mark.parametrize("schedule", ["eager", "warps"])
@pytest.mark.parametrize("barrier", ["bar.sync 0;", ""])
def test_tensor_memory_is_freed_after_its_last_use(barrier, schedule) -> None:
    body = FREE.replace("BARRIER", barrier).replace("AFTER", "")
    result = run_kernel(body, threads=128, shared=64, schedule=schedule, checks=("race",))
    assert ("race" in {f.kind for f in result.findings}) == (not barrier)
    assert barrier or any("frees tensor-memory" in f.message or "dealloc" in f.message for f in result.findings)


def test_an_access_of_freed_tensor_memory_says_who_freed_it_where() -> None:
    late = "bar.sync 0; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r5]; tcgen05.wait::ld.sync.aligned;"
    body = FREE.replace("BARRIER", "bar.sync 0;").replace("AFTER", late)
    (result,) = (f for f in run_kernel(body, threads=128, shared=64).findings if f.kind == "out-of-bounds")
    assert "columns 0 to 32 were freed by warp 0 of CTA 0 at PTX line" in result.message


PAIR = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5; setp.ne.u32 %p1, %r3, 0; @%p1 bra A;
tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], 32; A: bar.sync 0; ld.shared.u32 %r4, [%r1];
shl.b32 %r5, %r3, 21; add.u32 %r5, %r5, %r4; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r2};
tcgen05.wait::st.sync.aligned; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r5]; tcgen05.wait::ld.sync.aligned;
bar.sync 0; @%p1 bra E; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 32; E:"""
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"


@pytest.mark.parametrize("schedule", ["eager", "late", "warps"])
@pytest.mark.parametrize(("barrier", "races"), [("bar.sync 0;", False), ("", True)])
def test_a_cta_of_a_pair_frees_tensor_memory_after_its_own_last_use(barrier, races, schedule) -> None:
    """A dealloc of cta_group::2 ends with the later CTA's warp (PTX ISA 9.7.16.5)."""
    body = MEET + PAIR.replace("bar.sync 0; @%p1 bra E", f"{barrier} @%p1 bra E")
    result = run_kernel(body, threads=128, grid=(2,), cluster=(2,), shared=64, schedule=schedule, checks=("race",))
    assert {f.kind for f in result.findings} == ({"race"} if races else set())


@pytest.mark.parametrize(
    ("before", "after", "ok"),
    [(f"{MEET} bar.sync 0;", MEET, True), (MEET, "", True), (f"{MEET} bar.sync 0;", "", False)],
)
def test_a_cta_pair_frees_tensor_memory_after_both_have_allocated(before, after, ok) -> None:
    """An alloc right behind a cluster barrier is in time on GPUs so far."""
    body = f"""mov.u32 %r1, dyn; {before} tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], 32;
    ld.shared.u32 %r4, [%r1]; {after} tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 32;"""
    assert run_kernel(body, grid=(2,), cluster=(2,), shared=64, checks=("race",)).ok == ok


@pytest.mark.parametrize("before", ["", MEET, MEET.replace("arrive", "arrive.relaxed")])
def test_a_cta_pair_allocates_after_both_have_started(before) -> None:
    """The issuing warp makes sure that the peer CTA runs (PTX ISA 9.7.16.7.1)."""
    body = f"""mov.u32 %r1, dyn; {before} tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], 32;
    ld.shared.u32 %r4, [%r1]; {MEET} tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 32;"""
    result = run_kernel(body, grid=(2,), cluster=(2,), shared=64, checks=("race",))
    assert {f.kind for f in result.findings} == (set() if before else {"race"})


def test_a_copy_that_the_peer_issues_shows_that_it_has_allocated() -> None:
    """CTA 1 arrives at CTA 0's barrier from a warp unaware of its alloc."""
    body = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5; setp.ne.u32 %p1, %r3, 0;
    mov.u32 %r7, %cluster_ctarank; setp.ne.u32 %p2, %r7, 0; setp.ne.u32 %p3, %r2, 0; add.u32 %r8, %r1, 8;
    @%p3 bra A; mbarrier.init.shared.b64 [%r8], 32; fence.mbarrier_init.release.cluster; A: MEET bar.sync 0;
    @%p1 bra B; tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], 32; ld.shared.u32 %r4, [%r1];
    @%p2 bra D; W: mbarrier.try_wait.parity.shared.b64 %p4, [%r8], 0; @!%p4 bra W;
    D: tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 32; bra E;
    B: @!%p2 bra E; mapa.shared::cluster.u32 %r9, %r8, 0; mbarrier.arrive.shared::cluster.b64 _, [%r9]; E: MEET"""
    (finding,) = run_kernel(
        body.replace("MEET", MEET), threads=64, grid=(2,), cluster=(2,), shared=64, checks=("race",)
    ).findings
    assert finding.message.startswith("warp 0 of CTA 1 frees tensor memory of both CTAs")  # it heard nothing of CTA 0


@pytest.mark.parametrize("early", [True, False])
def test_a_pair_keeps_its_tensor_memory_until_both_have_freed_it(early) -> None:
    """CTA 1 frees first; CTA 0 stores, loads and frees after that, or frees first."""
    body = f"""mov.u32 %r1, dyn; mov.u32 %r7, %cluster_ctarank; setp.ne.u32 %p1, %r7, 0; {MEET}
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], 32; ld.shared.u32 %r4, [%r1]; {MEET}
    @!%p1 bra A; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 32; A: {MEET} @%p1 bra E; FREE
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], {{%r1}}; tcgen05.wait::st.sync.aligned; LAST E:"""
    free = "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 32;"
    body = body.replace("FREE", free * early).replace("LAST", free * (not early))
    result = run_kernel(body, grid=(2,), cluster=(2,), shared=64)
    assert {f.kind for f in result.findings} == ({"out-of-bounds"} if early else set())


@pytest.mark.parametrize("times", [0, 2])
def test_a_cta_of_a_pair_frees_its_tensor_memory_once(times) -> None:
    body = f"""mov.u32 %r1, dyn; mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p1, %r7, 0; {MEET}
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], 32; ld.shared.u32 %r4, [%r1]; {MEET} @%p1 bra A;
    {"tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 32;" * times} bra E;
    A: tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 32; E:"""
    (finding,) = run_kernel(body, grid=(2,), cluster=(2,), shared=64).findings
    assert finding.kind == "leak" and (times or finding.message.startswith("CTA (1, 0, 0) ends"))


# Two pairs of warps, each meeting at a named barrier: at one of their own, or all at the same.
PAIRS = """mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 6; setp.eq.u32 %p1, %r2, 0; @%p1 bra A;
bar.sync OTHER, 64; bra E; A: bar.sync 1, 64; E:"""


@pytest.mark.parametrize("other", [1, 2])
@pytest.mark.parametrize("schedule", ["eager", "random"])
def test_a_named_barrier_has_one_purpose_at_a_time(other, schedule) -> None:
    result = run_kernel(PAIRS.replace("OTHER", str(other)), threads=128, schedule=schedule, checks=("race",))
    assert [f.kind for f in result.findings] == (["barrier"] if other == 1 else [])
    assert other == 2 or "use of the same barrier at PTX line" in result.findings[0].message


def test_a_barrier_number_in_a_register_is_that_of_each_warp() -> None:
    body = "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 6; add.u32 %r2, %r2, 1; bar.sync %r2, 64; bar.sync %r2, 64;"
    for schedule in ("eager", "random", "warps"):
        assert not run_kernel(body, threads=256, schedule=schedule, checks=("race",)).findings


def test_lanes_of_a_warp_that_name_different_barriers_are_reported() -> None:
    body = "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; bar.sync %r2, 64;"
    assert "different barriers" in run_kernel(body, threads=64).findings[0].message


@pytest.mark.parametrize("barrier", ["bar.sync 0;", "", "barrier.cluster.arrive.aligned;"])
def test_an_mbarrier_is_used_after_its_initialisation_by_what_orders_the_warps(barrier) -> None:
    body = f"""mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra A;
    mbarrier.init.shared.b64 [%r1], 64; A: {barrier} mbarrier.arrive.shared.b64 _, [%r1];"""
    result = run_kernel(body, threads=64, shared=64, schedule="eager", checks=("race",))
    named = [
        f.kind == "barrier" and "nothing orders that after its initialisation by warp 0" in f.message
        for f in result.findings
    ]
    ordered = barrier == "bar.sync 0;"
    assert any(named) != ordered and result.ok == ordered
    unwaited = any("it arrived at PTX line" in f.message and "not waited for" in f.message for f in result.findings)
    assert unwaited == ("cluster" in barrier)


@pytest.mark.parametrize("other", [0, 8])
def test_warps_that_make_an_mbarrier_each_in_one_step_are_each_the_maker_of_their_own(other) -> None:
    """Warp 1 uses its own, or with `other` warp 0 does."""
    body = f"""mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; and.b32 %r3, %r2, 31; setp.ne.u32 %p1, %r3, 0; @%p1 bra A;
    shr.u32 %r3, %r2, 2; add.u32 %r1, %r1, %r3; mbarrier.init.shared.b64 [%r1], 1;
    xor.b32 %r1, %r1, {other}; mbarrier.arrive.shared.b64 _, [%r1]; A: nop;"""
    result = run_kernel(body, threads=64, shared=64, schedule="eager", checks=("race",))
    reported = [f.message for f in result.findings if "nothing orders that after its initialisation" in f.message]
    assert bool(reported) == bool(other)
