"""Clusters that wait for each other: order of execution, scopes, fences after relaxed polls."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from snippets import kernel_text, run_kernel

import ptxsim
from ptxsim.core.machine import Machine

OWN = "ld.param.u64 %d1, [p0]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;"

# CTA 0 stores a value and releases a flag; CTA 1 reads the flag, then the value.
HANDOVER = f"""{OWN} setp.ne.u32 %p1, %r2, 0; @%p1 bra E; setp.ne.u32 %p2, %r1, FROM; @%p2 bra R;
st.global.u32 [%d1+16], 7; SET bra.uni E;
R: GET ld.global.u32 %r5, [%d1+16]; st.global.u32 [%d1+32], %r5; E:"""
SET = "st.release.gpu.global.u32 [%d1], 1;"
POLL = "W: ld.acquire.gpu.global.u32 %r4, [%d1]; setp.eq.u32 %p3, %r4, 0; @%p3 bra W;"


def handover(set_: str, get: str, schedule: str, sender: int = 0, **options) -> tuple[list, int]:
    body = HANDOVER.replace("SET", set_).replace("GET", get).replace("FROM", str(sender))
    out = np.zeros(16, np.uint32)
    findings = run_kernel(body, out, grid=(2,), schedule=schedule, checks=("global",), **options).findings
    return findings, int(out[8])


@pytest.mark.parametrize("schedule", ["eager", "late", "tma_late", "random", "warps"])
@pytest.mark.parametrize("sender", [0, 1])
def test_a_cluster_that_polls_lets_the_others_run(schedule, sender) -> None:
    for seed in (0, 1):
        findings, value = handover(SET, POLL, schedule, sender, seed=seed)
        assert not findings and value == 7


@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_a_flag_that_no_cluster_sets_is_a_deadlock(schedule) -> None:
    (finding,), _ = handover("", POLL, schedule)
    assert finding.kind == "deadlock" and "no thread will write it" in finding.message
    assert "clusters" not in finding.message


@pytest.mark.parametrize("grid", [3, 12])
@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_clusters_that_pass_a_turn_on_run_in_any_order(schedule, grid, monkeypatch) -> None:
    """A semaphore of split-K: each CTA waits for the one before it."""
    monkeypatch.setattr(Machine, "RESIDENT", 8)  # fewer than the larger grid
    body = f"""{OWN} setp.ne.u32 %p1, %r2, 0; @%p1 bra E;
    W: ld.acquire.gpu.global.u32 %r4, [%d1]; setp.ne.u32 %p3, %r4, %r1; @%p3 bra W;
    ld.global.u32 %r5, [%d1+16]; add.u32 %r5, %r5, %r1; st.global.u32 [%d1+16], %r5; add.u32 %r4, %r4, 1;
    st.release.gpu.global.u32 [%d1], %r4; E:"""
    out = np.zeros(16, np.uint32)
    findings = run_kernel(body, out, grid=(grid,), schedule=schedule, checks=("global",)).findings
    assert not findings and out[4] == grid * (grid - 1) // 2


def test_a_flag_read_once_and_not_waited_for_is_a_race() -> None:
    once = POLL.replace("@%p3 bra W;", "")
    assert not handover(SET, once, "eager")[0]
    findings, _ = handover(SET, once, "tma_late")
    assert [f.kind for f in findings] == ["race"]


@pytest.mark.parametrize(
    ("fence", "races"),
    [("", True), ("fence.acq_rel.gpu;", False), ("membar.gl;", False), ("fence.acq_rel.cta;", True)],
)
@pytest.mark.parametrize("read", ["relaxed.gpu", "volatile"])
def test_a_relaxed_poll_needs_a_fence_before_what_it_waited_for_is_read(read, fence, races) -> None:
    get = POLL.replace("acquire.gpu", read) + fence
    for schedule in ("eager", "late"):
        findings, _ = handover(SET, get, schedule)
        assert [f.kind for f in findings] == (["race"] if races else [])


@pytest.mark.parametrize("narrow", ["cta", "cluster"])
@pytest.mark.parametrize("where", ["release", "acquire", "both", "atomic"])
def test_a_scope_that_does_not_reach_the_other_cluster_orders_nothing(where, narrow) -> None:
    set_ = "atom.global.acq_rel.gpu.add.u32 %r6, [%d1], 1;" if where == "atomic" else SET
    set_ = set_.replace(".gpu", f".{narrow}") if where != "acquire" else set_
    get = POLL.replace(".gpu", f".{narrow}") if where in ("acquire", "both") else POLL
    findings, _ = handover(set_, get, "eager")
    assert findings and {f.kind for f in findings} == {"race"}


def test_a_fence_of_the_cta_releases_nothing_to_another_cluster() -> None:
    red = "red.relaxed.gpu.global.add.u32 [%d1], 1;"
    assert not handover("fence.acq_rel.gpu;" + red, POLL, "eager")[0]
    assert handover("fence.acq_rel.cta;" + red, POLL, "eager")[0]


@pytest.mark.parametrize(("scope", "races"), [("cta", True), ("cluster", False), ("gpu", False)])
def test_the_scope_of_a_cta_does_not_reach_its_cluster(scope, races) -> None:
    set_, get = (text.replace(".gpu", f".{scope}") for text in (SET, POLL))
    findings, _ = handover(set_, get, "eager", cluster=(2,))
    assert bool(findings) is races and {f.kind for f in findings} <= {"race"}


# The second CTA of a cluster writes a MiB past the buffer; thread 0 keeps the cluster's size.
OF_PAIRS = """ld.param.u64 %d1, [p0]; mov.u32 %r1, %cluster_nctarank; mov.u32 %r2, %cluster_ctarank;
mul.wide.u32 %d2, %r2, 1048576; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r1;"""


@pytest.mark.parametrize("preferred", [(1, 1, 1), (2, 1, 1), (3, 1, 1)])
@pytest.mark.parametrize("schedule", ["random", "late"])
def test_preferred_clusters_run_after_the_others_or_are_noted(preferred, schedule) -> None:
    out = np.zeros(4, np.uint32)
    launch = ptxsim.launch(ptxsim.Module.from_text(kernel_text(OF_PAIRS, 1)), "k", (4,), (32,), [out])
    launch = dataclasses.replace(launch, attributes={"attribute_11": preferred})
    result = ptxsim.run(launch, schedule, checks=("small-grid",))
    notes = [note for note in result.coverage[0].notes() if f"prefers clusters of {preferred}" in note]
    twice = schedule == "random" and preferred == (2, 1, 1)  # four CTAs are no multiple of three
    assert out[0] == 1 and bool(notes) is (preferred[0] > 1 and not twice)
    assert [f.kind for f in result.findings] == ["out-of-bounds"] * twice
    assert all("in the preferred clusters of (2, 1, 1), not (1, 1, 1)" in f.message for f in result.findings)
