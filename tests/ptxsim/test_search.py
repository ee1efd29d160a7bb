"""The search for a schedule under which something is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import kernel_text, run_kernel
from test_deadlock import PIPELINE, RELEASE

import ptxsim
from ptxsim.core.adversarial import delays

OUT = """ld.shared.u32 %r6, [%r5+128]; fence.proxy.async.shared::cta; mad.wide.u32 %d3, %r2, 4, %d2;
st.global.u32 [%d3], %r6;"""

# Warp 1 asks for a copy, all threads meet, and warp 0 takes what should have come, without a wait.
UNWAITED = """ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, dyn; mov.u32 %r2, %tid.x;
mbarrier.init.shared.b64 [%r1], 1; setp.ne.u32 %p1, %r2, 32; @%p1 bra M;
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 128;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+128], [%d1], 128, [%r1];
M: bar.sync 0; nanosleep.u32 20; setp.ge.u32 %p2, %r2, 32; @%p2 bra E; mad.lo.u32 %r5, %r2, 4, %r1;
ld.shared.u32 %r6, [%r5+128]; mad.wide.u32 %d3, %r2, 4, %d2; st.global.u32 [%d3], %r6; E:"""


def launched(body: str, *arrays: np.ndarray) -> ptxsim.Launch:
    module = ptxsim.Module.from_text(kernel_text(body, len(arrays), 512))
    return ptxsim.launch(module, "k", (1,), (64,), arrays, dynamic_shared=512)


@pytest.fixture
def pipeline():
    """The producer and consumer of test_deadlock.py, whose consumer writes what it took; (launch, output, body)."""

    def make():
        x, y = np.arange(64, dtype=np.uint32), np.zeros(32, np.uint32)
        body = PIPELINE.replace("FIRST", "1").replace("BYTES", "128").replace("RELEASE", RELEASE)
        body = "ld.param.u64 %d2, [p1];" + body.replace("TURNS", "3")
        body = body.replace("ld.shared.u32 %r6, [%r5+128];", OUT)
        return launched(body, x, y), x, y

    return make


def test_a_right_kernel_is_right_under_every_aim(pipeline) -> None:
    launch, x, y = pipeline()
    verdicts = []
    result = ptxsim.run(launch, "search", runs=20, judge=lambda: verdicts.append(y.copy()))
    assert result.ok and len(result.tried) == len(verdicts) == 20
    assert all((result == x[:32]).all() for result in verdicts)
    kinds = {name.split(":")[1] for name, _ in result.tried if name.startswith("hold:")}
    assert kinds == {"warps", "copy", "arrival", "wait", "barrier"}


def test_what_no_check_sees_is_wrong_once_the_copy_is_held_back(pipeline) -> None:
    x, y = np.arange(64, dtype=np.uint32), np.zeros(32, np.uint32)
    launch = launched(UNWAITED, x, y)
    wrong = lambda: None if (y == x[:32]).all() else "the output is not the input"  # noqa: E731
    assert ptxsim.run(launch, "eager", checks=()).ok and wrong() is None
    y[:] = 0
    result = ptxsim.run(launch, "search", checks=(), judge=wrong)
    assert [f.kind for f in result.findings] == ["wrong"] and result.tried[-1] == (result.schedule, result.seed)
    y[:] = 0
    ptxsim.run(launch, result.schedule, result.seed, checks=())
    assert wrong() is not None  # the name of the schedule repeats it


def test_every_run_of_a_search_begins_with_the_same_memory() -> None:
    counter = np.zeros(1, np.uint32)
    body = "ld.param.u64 %d1, [p0]; ld.global.u32 %r1, [%d1]; add.u32 %r1, %r1, 1; st.global.u32 [%d1], %r1;"
    result = ptxsim.run(launched(body, counter), "search", checks=(), runs=5)
    assert len(result.tried) == 5 and counter[0] == 1


def test_a_budget_of_seconds_ends_a_search(pipeline) -> None:
    launch, _, _ = pipeline()
    result = ptxsim.run(launch, "search", seconds=0.05)
    assert result.ok and 0.05 <= result.seconds < 5


def test_threads_that_poll_are_let_go_on_when_they_wait_for_what_is_held() -> None:
    """The loop that polls shared memory is no progress by itself."""
    body = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; st.shared.u32 [%r1], 0; bar.sync 0;
    setp.ge.u32 %p1, %r2, 32; @%p1 bra B;
    P: ld.volatile.shared.u32 %r3, [%r1]; setp.eq.u32 %p2, %r3, 0; @%p2 bra P; bra E;
    B: st.volatile.shared.u32 [%r1], 1; E:"""
    assert run_kernel(body, threads=64, shared=64, schedule="hold:warps:1-1").ok


def test_an_aim_that_is_none_is_refused_in_one_line() -> None:
    for name in ("hold:copies:a.py:7", "hold:warps:a", "hold:"):
        with pytest.raises(ValueError, match=f"schedule '{name}'"):
            run_kernel("nop;", schedule=name)


@pytest.mark.parametrize("name", ["hold:copy:99999", "hold:product:1", "hold:copy:a.py:7", "hold:warps:2-3"])
def test_an_aim_that_matches_nothing_is_refused_in_one_line(pipeline, name: str) -> None:
    launch, _, _ = pipeline()
    with pytest.raises(ValueError, match=f"schedule '{name}': nothing in these launches"):
        ptxsim.run(launch, name)
    with pytest.raises(ValueError, match=f"schedule '{name}': nothing in these launches"):
        ptxsim.run([], name)


def test_an_aim_may_match_one_of_several_launches(pipeline) -> None:
    launch, x, y = pipeline()
    empty = launched("nop;", x, y)
    (copy,) = {name for name in delays(ptxsim.run(launch).coverage) if name.startswith("hold:copy:")}
    y[:] = 0
    assert ptxsim.run([empty, launch], copy).ok and (y == x[:32]).all()


def test_aims_are_at_what_ran_and_take_the_kinds_by_turns(pipeline) -> None:
    launch, _, _ = pipeline()
    names = delays(ptxsim.run(launch).coverage)
    kinds = [name.split(":")[1] for name in names]
    assert kinds[:5] == ["warps", "copy", "arrival", "wait", "barrier"] and len(set(names)) == len(names)
