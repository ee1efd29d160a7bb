"""What the race check counts as one access, and registers used before their wait."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import run_kernel

import ptxsim

HALVES = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; and.b32 %r3, %r2, 31; mad.lo.u32 %r4, %r3, 4, %r1;
shr.u32 %r5, %r2, 5;
mad.lo.u32 %r4, %r5, STEP, %r4; cvt.u16.u32 %h1, %r2; st.shared.b16 [%r4], %h1; ld.shared.b16 %h2, [%r4];"""


@pytest.mark.parametrize("step,races", [(2, False), (0, True)])
def test_halves_of_a_word_belong_to_two_warps(step, races) -> None:
    result = run_kernel(HALVES.replace("STEP", str(step)), np.zeros(2), threads=64, shared=256, checks=("race",))
    assert ("race" in {f.kind for f in result.findings}) == races


ATOMICS = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @!%p1 st.shared.u32 [%r1], 0; bar.sync 0;
red.shared.add.u32 [%r1], 1; BARRIER ld.shared.u32 %r3, [%r1]; ld.param.u64 %d1, [p0]; mad.wide.u32 %d1, %r2, 4, %d1;
st.global.u32 [%d1], %r3;"""


@pytest.mark.parametrize("barrier", ["bar.sync 0;", ""])
def test_atomics_do_not_race_with_each_other_but_with_loads(barrier) -> None:
    out = np.zeros(64, np.uint32)
    result = run_kernel(ATOMICS.replace("BARRIER", barrier), out, threads=64, shared=64, checks=("race",))
    assert [f.kind for f in result.findings] == ([] if barrier else ["race"])
    assert not barrier or (out == 64).all()


UNWRITTEN = """mov.u32 %r1, dyn; ld.shared.u32 %r2, [%r1]; ld.param.u64 %d1, [p0]; mov.u32 %r3, 1; USE
A: st.global.u32 [%d1], %r3;"""
USES = {  # of an unwritten word: what the finding says
    "add.u32 %r4, %r2, 1;": "no store or branch",
    "mov.u32 %r3, %r2;": "stores of",
    "setp.eq.u32 %p1, %r2, -1; @%p1 bra A; add.u32 %r4, %r4, 1; add.u32 %r4, %r4, 1;": "branches of",
    "setp.eq.u32 %p1, %r2, -1; @%p1 bra A; mov.u32 %r3, 2;": "stores and branches of",
}


@pytest.mark.parametrize("use", USES)
def test_an_unwritten_read_says_whether_a_store_or_branch_depends_on_it(use) -> None:
    out, body = np.zeros(1, np.uint32), UNWRITTEN.replace("USE", use)
    (finding,) = run_kernel(body, out, shared=64, checks=("uninitialised",)).findings
    assert f"; {USES[use]}" in finding.message
    kept = out.copy()
    run_kernel(body, out, shared=64)
    np.testing.assert_array_equal(out, kept)  # the run with other values leaves nothing behind


def test_a_finding_is_waived_with_a_reason() -> None:
    body, out, checks = UNWRITTEN.replace("USE", ""), np.zeros(1, np.uint32), ("uninitialised",)
    waived = run_kernel(body, out, shared=64, checks=checks, waive={"^uninitialised: .* offset 0": "padding"})
    assert waived.ok and [(f.kind, reason) for f, reason in waived.waived] == [("uninitialised", "padding")]
    assert not run_kernel(body, out, shared=64, checks=checks, waive={"^race": "of equal values"}).ok
    for bad in ({"race": " "}, {"(": "no expression"}):
        with pytest.raises(ValueError, match="waive: "):
            run_kernel(body, out, shared=64, waive=bad)


LOAD = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5; setp.ne.u32 %p1, %r3, 0; @%p1 bra A;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; A: bar.sync 0; ld.shared.u32 %r4, [%r1];
shl.b32 %r5, %r3, 21; add.u32 %r5, %r5, %r4; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r2};
tcgen05.wait::st.sync.aligned; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r6}, [%r5]; WAIT mov.b32 %r7, %r6;
add.u32 %r8, %r7, 1; ld.param.u64 %d1, [p0]; mad.wide.u32 %d1, %r2, 4, %d1; st.global.u32 [%d1], %r8; bar.sync 0;
@%p1 bra E; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32; E:"""


@pytest.mark.parametrize("wait", ["tcgen05.wait::ld.sync.aligned;", ""])
@pytest.mark.parametrize("asked", [True, False])
def test_a_register_used_before_its_tensor_memory_load_is_waited_for(wait, asked) -> None:
    out, checks = np.zeros(128, np.uint32), ptxsim.DEFAULT_CHECKS + ("unwaited-ld",) * asked
    result = run_kernel(LOAD.replace("WAIT", wait), out, threads=128, shared=64, checks=checks)
    assert [f.kind for f in result.findings] == (["unwaited"] if asked and not wait else [])
    assert not result.findings or "tcgen05.wait::ld" in result.findings[0].message
    np.testing.assert_array_equal(out, np.arange(1, 129))


@pytest.mark.parametrize(
    ("value", "schedule", "races"), [("7", "random", 0), ("%r2", "random", 1), ("%r2", "warps", 1)]
)
def test_warps_that_write_the_same_value_by_one_instruction_do_not_race(value, schedule, races) -> None:
    # Compilers let several warps do the same work. Only another value makes it a race. %r2 is the warp's number.
    body = f"""mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31; mov.u32 %r4, dyn;
    mad.lo.u32 %r5, %r3, 4, %r4; mov.u32 %r6, {value}; st.shared.b32 [%r5], %r6; bar.sync 0;
    ld.shared.b32 %r7, [%r5];"""
    result = run_kernel(body, threads=96, shared=128, schedule=schedule, checks=("race",)).findings
    assert [finding.kind for finding in result] == ["race"] * races


def test_a_value_written_by_two_instructions_is_a_race_whatever_it_is() -> None:
    body = """mov.u32 %r1, %tid.x; mov.u32 %r4, dyn; mov.u32 %r6, 7; setp.lt.u32 %p1, %r1, 32;
    @%p1 st.shared.b32 [%r4], %r6; @!%p1 st.shared.b32 [%r4], %r6;"""
    result = run_kernel(body, threads=64, shared=128, checks=("race",)).findings
    assert [finding.kind for finding in result] == ["race"]


PHASES = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5; setp.ne.u32 %p1, %r2, 0; @%p1 bra A;
mbarrier.init.shared.b64 [%r1], COUNT; A: bar.sync 0; setp.ne.u32 %p2, %r3, 0; @%p2 bra B;
mbarrier.arrive.shared.b64 _, [%r1]; B: bar.sync 0; mbarrier.arrive.shared.b64 %d1, [%r1]; ld.param.u64 %d2, [p0];
mad.wide.u32 %d2, %r2, 8, %d2; st.global.u64 [%d2], %d1; bar.sync 0;"""


@pytest.mark.parametrize(("count", "outcome"), [(128, 0), (32, 1)])
def test_warps_that_arrive_by_one_instruction_may_end_one_phase_and_begin_the_next(count, outcome) -> None:
    """PTX ISA 9.7.13.15.13, mbarrier.arrive: each thread's arrival counts by itself."""
    out = np.zeros(128, np.uint64)
    result = run_kernel(PHASES.replace("COUNT", str(count)), out, threads=128, shared=64, checks=())
    assert [f.kind for f in result.findings] == ["barrier"] * outcome
    if not outcome:  # warp 0 arrived early, so warps 0 to 2 complete phase 0
        assert [len(set(x.tolist())) for x in out.reshape(4, 32)] == [1] * 4 and (out[96:] > out[0]).all()
