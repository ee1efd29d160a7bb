"""Cluster launch control.

Clusters that take other clusters' work, on kernels written here (PTX ISA 9.7.13.18).
"""

from __future__ import annotations

import numpy as np
import pytest
from snippets import run_kernel

from ptxsim.isa.cluster_launch import MAX_GRANTS

# One thread a CTA. It marks its own index in p0, then asks for others' until it is refused, and marks those; p1 holds
# who marked it. The mbarrier lies at byte 16 of shared memory, the answer at byte 0.
BODY = """ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, dyn; add.u32 %r2, %r1, 16; mov.u32 %r3, %ctaid.x;
mov.u32 %r4, %r3; mov.u32 %r6, 0; mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; START
MARK: cvt.u64.u32 %d3, %r4; shl.b64 %d3, %d3, 2; add.u64 %d4, %d1, %d3; atom.global.add.u32 %r5, [%d4], 1;
add.u64 %d4, %d2, %d3; st.global.u32 [%d4], %r3;
fence.proxy.async.shared::cta; mbarrier.arrive.expect_tx.shared.b64 %d5, [%r2], 16; ASK
L: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], %r6; @!%p1 bra L; xor.b32 %r6, %r6, 1;
ld.shared.b128 %q0, [%r1]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q0;
@!%p2 bra OUT; clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r4, %q0; REST bra MARK; OUT: END
"""
ALONE = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];"
ALL = ALONE.replace(".b128 [", ".multicast::cluster::all.b128 [")


def run(grid: int, schedule: str = "random", seed: int = 0, cluster: int = 1, **parts: str):
    """Marks, markers and findings of a launch; `parts` replace the words in capitals of BODY."""
    marks, who = np.zeros(grid, np.uint32), np.zeros(grid, np.uint32)
    text = BODY
    for word, replacement in {"START": "", "ASK": ALONE, "REST": "", "END": "", **parts}.items():
        text = text.replace(word, replacement)
    result = run_kernel(
        text,
        marks,
        who,
        threads=1,
        grid=(grid,),
        cluster=(cluster,),
        shared=64,
        schedule=schedule,
        seed=seed,
        checks=("race", "uninitialised"),
    )
    return marks, who, result.findings


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("grid", [1, 3, 4, 5, 23])
def test_every_index_is_worked_on_once_by_as_few_clusters_as_may_share_them(grid, schedule) -> None:
    marks, who, findings = run(grid, schedule)
    assert not findings, findings
    assert (marks == 1).all()
    assert len(set(who)) == -(-grid // (MAX_GRANTS + 1))


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
def test_all_ctas_of_a_cluster_get_the_answer_by_multicast(schedule) -> None:
    # The first CTA of a pair asks. Both get the index of the first CTA of the pair that they stand in for.
    arrived = "barrier.cluster.arrive; barrier.cluster.wait;"
    ask = f"mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p5, %r7, 0; {arrived} @%p5 {ALL}"
    marks, who, findings = run(20, schedule, cluster=2, START=arrived, ASK=ask, REST="add.u32 %r4, %r4, %r7;")
    assert not findings, findings
    assert (marks == 1).all() and len(set(who)) < 20
    assert (who % 2 == np.arange(20) % 2).all()


def test_asking_again_after_a_refusal_is_found() -> None:
    again = f"mbarrier.arrive.expect_tx.shared.b64 %d5, [%r2], 16; {ALONE} M: mbarrier.try_wait.parity.shared.b64 %p1, "
    again += "[%r2], %r6; @!%p1 bra M;"
    assert any("requests again" in finding.message for finding in run(1, END=again)[2])


@pytest.mark.parametrize(("place", "kind"), [("[%r1+8]", "misaligned"), ("[%r1+64]", "out-of-bounds")])
def test_an_answer_needs_sixteen_aligned_bytes(place, kind) -> None:
    findings = run(1, "eager", ASK=ALONE.replace("[%r1]", place))[2]
    assert findings[0].kind == kind


def test_an_answer_without_an_mbarrier_is_found() -> None:
    findings = run(1, "eager", ASK=ALONE.replace("[%r2]", "[%r1+32]"))[2]
    assert findings[0].kind == "barrier" and "no mbarrier at shared address" in findings[0].message


def test_reading_the_answer_without_waiting_is_a_race() -> None:
    findings = run(5, "random", seed=1, ASK=f"{ALONE} ld.shared.b128 %q1, [%r1];")[2]
    assert any(finding.kind == "race" for finding in findings)
