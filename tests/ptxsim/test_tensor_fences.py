"""The optional check of tcgen05.fence against the PTX ISA's patterns (9.7.16.6.4)."""

from __future__ import annotations

import re

import numpy as np
import pytest
from snippets import run_kernel

# Warp 0 is given tensor memory and writes it, warp 4, which reaches the same lanes, reads it, and warp 0 gives it back.
BODY = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5; setp.ne.u32 %p1, %r3, 0; setp.ne.u32 %p2, %r3, 4;
@%p1 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; A: bar.sync 0; AFTER1
ld.shared.u32 %r5, [%r1]; @%p1 bra B; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r2};
tcgen05.wait::st.sync.aligned; BEFORE2 B: bar.sync 0; @%p2 bra C; AFTER2
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r5]; tcgen05.wait::ld.sync.aligned; ld.param.u64 %d1, [p0];
mad.wide.u32 %d1, %r2, 4, %d1; st.global.u32 [%d1+-512], %r6; BEFORE3 C: bar.sync 0;
@%p1 bra E; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 32; E:"""
MADE = "setp.ne.u32 %p3, %r2, 0; @%p3 bra M; mbarrier.init.shared::cta.b64 [%r1+8], 32; M: @%p1 bra A;"
ARRIVED = """mbarrier.arrive.shared::cta.b64 _, [%r1+8]; B: @%p2 bra C;
W: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r1+8], 0; @!%p4 bra W;"""
BY_MBARRIER = BODY.replace("@%p1 bra A;", MADE).replace("B: bar.sync 0; @%p2 bra C;", ARRIVED)
FENCES = {"AFTER": "tcgen05.fence::after_thread_sync;", "BEFORE": "tcgen05.fence::before_thread_sync;"}
CHECKS = ("race", "tensor-fence")


def outcome(without: str, checks: tuple[str, ...] = CHECKS, body: str = BODY) -> list[str]:
    out = np.zeros(32, np.uint32)
    fenced = re.sub(r"(AFTER|BEFORE)\d", lambda m: "" if m[0] == without else FENCES[m[1]], body)
    result = run_kernel(fenced, out, threads=160, shared=64, checks=checks)
    assert (out == np.arange(32)).all()
    return [str(finding) for finding in result.findings]


@pytest.mark.parametrize("body", [BODY, BY_MBARRIER])
def test_fences_on_both_sides_of_every_synchronisation_leave_nothing_to_find(body) -> None:
    assert outcome("", body=body) == []


@pytest.mark.parametrize("body", [BODY, BY_MBARRIER])
@pytest.mark.parametrize(
    ("fence", "words"),
    [
        (
            "BEFORE2",
            "the write by tcgen05.st of warp 0 of CTA 0 at PTX line .*::before_thread_sync between that, waited for,",
        ),
        ("AFTER2", "warp 4 of CTA 0 executes no tcgen05.fence::after_thread_sync"),
        ("BEFORE3", "after the read by tcgen05.ld of warp 4 .*no tcgen05.fence::before_thread_sync"),
    ],
)
def test_a_fence_that_is_left_out_is_found_at_the_access_behind_it(fence, words, body) -> None:
    first, *more = outcome(fence, body=body)
    assert first.startswith("tensor fence: ") and re.search(words, first) and not more


@pytest.mark.parametrize("fence", ["", FENCES["AFTER"]])
def test_what_another_warp_has_been_given_is_not_touched_without_a_fence(fence) -> None:
    body = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5;
    setp.ne.u32 %p1, %r3, 0; setp.ne.u32 %p2, %r3, 4;
    @%p1 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; A: bar.sync 0; FENCE
    ld.shared.u32 %r5, [%r1]; @%p2 bra C; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r2};
    tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; C: bar.sync 0;
    @%p1 bra E; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 32; E:"""
    findings = run_kernel(body.replace("FENCE", fence), threads=160, shared=64, checks=CHECKS).findings
    named = ["that warp 0 of CTA 0 allocated at PTX line" in str(finding) for finding in findings]
    assert named == [] if fence else named == [True]


def test_nobody_is_told_who_has_not_asked() -> None:
    assert outcome("AFTER2", ("race",)) == []
