"""Global memory.

Clusters, launches and indices that have nothing to do with each other, or should not.
"""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pytest
from snippets import kernel_text, run_kernel, tensor_map

import ptxsim

OWN = "ld.param.u64 %d1, [p0]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;"


@pytest.mark.parametrize("stride,races", [(128, False), (64, True)])
@pytest.mark.parametrize("kind", ["st.global.b8", "st.global.b32", "st.global.v4.b32"])
def test_two_ctas_that_store_to_the_same_bytes_are_a_race(kind, stride, races) -> None:
    size = {"st.global.b8": 1, "st.global.b32": 4, "st.global.v4.b32": 16}[kind]
    value = "{%r1, %r1, %r1, %r1}" if "v4" in kind else "%h1" if "b8" in kind else "%r1"
    body = f"""{OWN} mad.lo.u32 %r3, %r1, {stride * size // 4}, 0; mad.lo.u32 %r3, %r2, {size}, %r3;
    cvt.u16.u32 %h1, %r1; cvt.u64.u32 %d2, %r3; add.u64 %d1, %d1, %d2; {kind} [%d1], {value};"""
    result = run_kernel(body, np.zeros(1024, np.uint32), grid=(2,), checks=("global",))
    assert [f.kind for f in result.findings] == (["race"] if races else [])
    assert not races or "another cluster's write at PTX line" in result.findings[0].message


@pytest.mark.parametrize("first,second", [("ld.global.u32 %r4, [%d1];", "st.global.u32 [%d1], 1;")])
@pytest.mark.parametrize("other", [0, 1])
def test_a_cta_that_writes_what_another_reads_is_a_race(first, second, other) -> None:
    body = f"{OWN} setp.ne.u32 %p1, %r1, {other}; @%p1 bra B; {first} bra E; B: {second} E:"
    result = run_kernel(body, np.zeros(4, np.uint32), grid=(2,), checks=("global",))
    assert [f.kind for f in result.findings] == ["race"]


LAST = f"""{OWN} setp.ne.u32 %p1, %r2, 0; @%p1 bra E; mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d1, %d2;
st.global.u32 [%d2+16], %r1; COUNT setp.ne.u32 %p2, %r3, 1; @%p2 bra E; ld.global.u32 %r4, [%d1+16];
ld.global.u32 %r5, [%d1+20]; add.u32 %r4, %r4, %r5; st.global.u32 [%d1+4], %r4; E:"""


@pytest.mark.parametrize("ordered", [True, False])
def test_the_last_cta_may_read_what_the_others_wrote_before_they_counted(ordered) -> None:
    count = "atom.global.acq_rel.gpu.add.u32 %r3, [%d1], 1;" if ordered else "mov.u32 %r3, %r1;"
    out = np.zeros(8, np.uint32)
    result = run_kernel(LAST.replace("COUNT", count), out, grid=(2,), checks=("global",))
    assert [f.kind for f in result.findings] == ([] if ordered else ["race"]) and out[1] == 1


@pytest.mark.parametrize(
    ("fence", "order", "races"),
    [
        ("", "release", False),
        ("fence.acq_rel.gpu;", "relaxed", False),
        ("membar.gl;", "relaxed", False),
        ("fence.acq_rel.cta;", "relaxed", True),
        ("", "relaxed", True),
    ],
)
def test_a_relaxed_count_tells_the_last_cta_of_nothing_that_no_fence_came_behind(fence, order, races) -> None:
    count = f"{fence} atom.global.{order}.gpu.add.u32 %r3, [%d1], 1;"
    result = run_kernel(LAST.replace("COUNT", count), np.zeros(8, np.uint32), grid=(2,), checks=("global",))
    assert [f.kind for f in result.findings] == (["race"] if races else [])


@pytest.mark.parametrize("again", [True, False])
def test_what_a_cta_writes_after_it_has_told_of_itself_needs_to_be_told_of_again(again) -> None:
    """Both take a number first, which orders nothing of what they store later."""
    second = "red.global.release.gpu.add.u32 [%d1+8], 1;" if again else ""
    body = f"""{OWN} setp.ne.u32 %p1, %r2, 0; @%p1 bra E; mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d1, %d2;
    st.global.u32 [%d2+24], %r1; atom.global.acq_rel.gpu.add.u32 %r3, [%d1], 1; setp.ne.u32 %p2, %r3, 1; @%p2 bra F;
    ld.global.acquire.gpu.u32 %r4, [%d1+8]; ld.global.u32 %r5, [%d1+16]; bra.uni E;
    F: st.global.u32 [%d2+16], %r1; {second} E:"""
    result = run_kernel(body, np.zeros(16, np.uint32), grid=(2,), checks=("global",)).findings
    assert [f.kind for f in result] == ([] if again else ["race"])


# Warp 0 and warp 1 of a CTA store at words that `stride` keeps apart, or to one word.
WARPS = f"""{OWN} shr.u32 %r3, %r2, 5; mad.lo.u32 %r4, %r3, STRIDE, 0; and.b32 %r5, %r2, 31; shl.b32 %r5, %r5, 2;
add.u32 %r4, %r4, %r5; cvt.u64.u32 %d2, %r4; add.u64 %d2, %d1, %d2; setp.ne.u32 %p1, %r3, 0; @%p1 bra B;
FIRST bra.uni M; B: BEFORE SECOND M: """


@pytest.mark.parametrize(
    "stride,before,second,races",
    [
        (128, "", "st.global.u32 [%d2], 2;", False),
        (0, "", "st.global.u32 [%d2], 2;", True),
        (0, "", "st.global.u32 [%d2], 1;", False),  # the same value, as where several warps do the same work
        (124, "", "st.global.u32 [%d2], 2;", True),  # a row too long by one
        (0, "", "ld.global.u32 %r6, [%d2];", True),
        (0, "bar.sync 0;", "st.global.u32 [%d2], 2;", False),
        (0, "bar.sync 0;", "ld.global.u32 %r6, [%d2];", False),
    ],
)
def test_two_warps_that_use_the_same_bytes_unordered_are_a_race(stride, before, second, races) -> None:
    first = "st.global.u32 [%d2], 1;" + (" bar.sync 0;" if before else "")
    body = WARPS.replace("STRIDE", str(stride)).replace("FIRST", first).replace("BEFORE", before)
    body = body.replace("SECOND", second)
    for schedule in ("eager",) if "ld" in second else ("eager", "warps"):  # a read that comes first is not remembered
        result = run_kernel(body, np.zeros(1024, np.uint32), threads=64, schedule=schedule, checks=("global",)).findings
        assert [f.kind for f in result] == (["race"] if races else [])
        assert not races or "and nothing orders that after the write by warp" in result[0].message


FLAG = f"""{OWN} setp.ge.u32 %p1, %r2, 32; @%p1 bra B; st.global.u32 [%d1+16], 5; bar.warp.sync -1;
setp.ne.u32 %p2, %r2, 0; @%p2 bra E; SET bra.uni E; B: W: GET setp.eq.u32 %p3, %r4, 0; @%p3 bra W;
ld.global.u32 %r5, [%d1+16]; E:"""


@pytest.mark.parametrize("ordered", [True, False])
def test_a_flag_in_global_memory_orders_warps_where_it_is_released_and_acquired(ordered) -> None:
    """Without, the plain flag is a race itself."""
    put, get = ("st.release.gpu", "ld.acquire.gpu") if ordered else ("st", "ld")
    body = FLAG.replace("SET", f"{put}.global.u32 [%d1], 1;").replace("GET", f"{get}.global.u32 %r4, [%d1];")
    result = run_kernel(body, np.zeros(8, np.uint32), threads=64, checks=("global",))
    assert bool(result.findings) is not ordered


def test_what_a_cluster_has_written_is_forgotten_for_the_next_one() -> None:
    # The second CTA of two stores with its other warp to words that the first had filled, after an atomic.
    body = f"""{OWN} atom.global.acq_rel.gpu.add.u32 %r3, [%d1], 1; bar.sync 0; shr.u32 %r3, %r2, 5;
    setp.ne.u32 %p1, %r3, %r1; @%p1 bra E; st.global.u32 [%d1+16], %r1; E:"""
    assert run_kernel(body, np.zeros(8, np.uint32), grid=(2,), threads=64, checks=("global",)).ok


def two_launches(second: str, early: bool) -> ptxsim.Result:
    """A launch that writes a word, and one that may begin early."""
    out = np.zeros(8, np.uint32)
    made = []
    for body in ("ld.param.u64 %d1, [p0]; st.global.u32 [%d1], 7;", second):
        made.append(ptxsim.launch(ptxsim.Module.from_text(kernel_text(body, 1)), "k", (1,), (32,), (out,)))
    made[1] = dataclasses.replace(made[1], memory=made[0].memory, attributes={"attribute_6": (int(early), 0, 0)})
    return ptxsim.run(made)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("wait", ["griddepcontrol.wait;", ""])
@pytest.mark.parametrize("access", ["ld.global.u32 %r1, [%d1];", "st.global.u32 [%d1], 1;"])
def test_a_launch_that_may_begin_early_waits_for_the_one_before(access, wait, early) -> None:
    result = two_launches(f"ld.param.u64 %d1, [p0]; {wait} {access}", early)
    assert [f.kind for f in result.findings] == (["race"] if early and not wait else [])
    assert not result.findings or "no griddepcontrol.wait" in result.findings[0].message


def test_what_the_launch_before_did_not_touch_may_be_read_early() -> None:
    assert two_launches("ld.param.u64 %d1, [p0]; ld.global.u32 %r1, [%d1+16];", True).ok


BOX = """mov.u32 %r1, dyn; ld.param.u64 %d1, [p0]; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra E;
mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 256; mov.u32 %r3, X; mov.u32 %r4, Y; mov.u32 %r5, Z;
cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+128], [%d1, {%r3, %r4, %r5}], [%r1];
W: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra W; E:"""


@pytest.mark.parametrize(
    "corner,check,outcome",
    [((0, 0, 1), "outside", 0), ((0, 0, 2), "outside", 1), ((0, 8, 0), "outside", 0), ((0, 8, 0), "outside-any", 1)],
)
def test_a_box_outside_its_tensor_is_found_where_it_is_an_index_that_is_wrong(corner, check, outcome) -> None:
    source = np.zeros((2, 8, 16), np.uint32)
    body = BOX
    for letter, value in zip("XYZ", corner, strict=True):
        body = body.replace(f" {letter};", f" {value};")
    result = run_kernel(body, tensor_map(source, (16, 4, 1)), source, shared=1024, checks=(check,))
    assert [f.kind for f in result.findings] == ["outside"] * outcome


def test_a_register_that_nothing_wrote_is_found_where_it_is_read() -> None:
    body = "mov.u32 %r1, %tid.x; add.u32 %r2, %r1, %r3; ld.param.u64 %d1, [p0]; st.global.u32 [%d1], %r2;"
    (result,) = run_kernel(body, np.zeros(8, np.uint32), checks=("unwritten",)).findings
    assert result.kind == "unwritten" and "%r3" in result.message and "add.u32" in result.instruction


SOME = """mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; @%p1 bra A; mov.u32 %r2, 5; A: add.u32 %r3, %r2, 1;"""


@pytest.mark.parametrize("check,outcome", [("unwritten", 0), ("unwritten-lanes", 1)])
def test_a_register_that_some_lanes_have_not_written_is_found_on_request(check, outcome) -> None:
    result = run_kernel(SOME, checks=(check,))
    assert [f.lanes for f in result.findings] == [tuple(range(8))] * outcome


FIRST_WRITES = "ld.param.u64 %d1, [p0]; mov.u32 %r2, %tid.x; mad.wide.u32 %d2, %r2, 4, %d1; st.global.u32 [%d2], %r2;"
THEN_READS = (
    "ld.param.u64 %d1, [p0]; mov.u32 %r2, %tid.x; WAIT mad.wide.u32 %d2, %r2, 4, %d1; ld.global.u32 %r3, [%d2];"
)


def separately(first: str, second: str, *arrays: np.ndarray, checks=("global",)) -> ptxsim.Result:
    """Two launches from captures of their own, the second with programmatic dependent launch."""
    made = []
    for body, array in zip((first, second), arrays, strict=True):
        made.append(ptxsim.launch(ptxsim.Module.from_text(kernel_text(body, 1)), "k", (1,), (32,), [array]))
    made[1] = dataclasses.replace(made[1], attributes={"attribute_6": (1, 0, 0)})
    return ptxsim.run(made, checks=checks)


@pytest.mark.parametrize("wait", ["griddepcontrol.wait;", ""])
@pytest.mark.parametrize(("start", "end"), [(0, 64), (8, 64), (0, 40)])
@pytest.mark.parametrize("reads", [True, False])
def test_captures_that_are_joined_are_one_stream(wait, start, end, reads) -> None:
    """The second capture has allocations of its own, at the first one's addresses."""
    x, then = np.zeros(64, np.uint32), THEN_READS.replace("WAIT", wait)
    result = separately(
        FIRST_WRITES,
        then if reads else then.replace("ld.global.u32 %r3, [%d2]", "st.global.u32 [%d2], 1"),
        x,
        x[start:end],
    )
    assert [f.kind for f in result.findings] == ([] if wait else ["race"])
    assert not any("griddepcontrol" in note for note in result.coverage[1].notes())


def test_parts_of_an_array_that_do_not_overlap_are_no_race() -> None:
    x = np.zeros(64, np.uint32)
    assert not separately(FIRST_WRITES, THEN_READS.replace("WAIT", ""), x[:32], x[32:]).findings


def test_an_early_launch_with_nothing_before_it_says_that_its_wait_was_not_tested() -> None:
    x, y = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    result = separately(FIRST_WRITES, THEN_READS.replace("WAIT", ""), x, y)
    assert not result.findings
    (note,) = (note for note in result.coverage[1].notes() if "griddepcontrol.wait was not tested" in note)
    assert "the launch before uses none of its memory" in note
    alone = ptxsim.launch(ptxsim.Module.from_text(kernel_text(FIRST_WRITES, 1)), "k", (1,), (32,), [x])
    alone = dataclasses.replace(alone, attributes={"attribute_6": (1, 0, 0)})
    (note,) = ptxsim.run(alone).coverage[0].notes()
    assert "no launch came before it" in note


@pytest.mark.parametrize("load", ["ld.global.cv.u32", "ld.global.ca.u32", "ld.cg.global.u32"])
@pytest.mark.parametrize("store", ["st.global.wt.u32", "st.global.wb.u32"])
def test_cache_operators_move_the_same_values(load, store) -> None:
    x, y = np.array([7], np.uint32), np.zeros(1, np.uint32)
    body = f"ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; {load} %r1, [%d1]; {store} [%d2], %r1;"
    assert run_kernel(body, x, y, threads=1).ok and y[0] == 7


def test_atomics_of_many_words_take_little_memory() -> None:
    """Split-K adds to every word of a tile; a clock for each word would take 16 KiB."""
    y = np.zeros(4096, np.uint32)
    tracemalloc.start()
    try:
        result = run_kernel(
            "ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.u64 %d1, %d1, %d3;"
            "mov.u32 %r2, 0; mov.u32 %r3, 1; L: red.relaxed.gpu.global.add.u32 [%d1], %r3; add.u64 %d1, %d1, 512;"
            "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 32; @%p1 bra L;",
            y,
            threads=128,
            grid=(2,),
            checks=("race", "global"),
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.ok and (y == 2).all() and peak < 30 << 20
