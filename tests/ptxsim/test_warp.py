"""Control flow, warp-wide instructions, memory spaces and barriers."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import kernel_text, run_kernel

import ptxsim

OUT = "ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mad.wide.u32 %d2, %r1, 4, %d1;"


def out(body: str, threads: int = 32, **kw) -> np.ndarray:
    """Run `body` with %r1 the thread index; %r9 of each thread comes back."""
    result = np.zeros(threads * int(np.prod(kw.get("grid", (1,)))), np.uint32)
    got = run_kernel(f"{OUT}\n{body}\nst.global.b32 [%d2], %r9;", result, threads=threads, **kw)
    assert not got.findings, [str(x) for x in got.findings]
    return result


def test_nested_divergence_reconverges() -> None:
    body = """and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; mov.u32 %r9, 100;
    @%p1 bra EVEN; setp.lt.u32 %p2, %r1, 9; @%p2 bra SMALL; mov.u32 %r9, 3; bra.uni JOIN;
    SMALL: mov.u32 %r9, 2; bra.uni JOIN;
    EVEN: mov.u32 %r9, 1;
    JOIN: vote.sync.ballot.b32 %r10, 1, 0xffffffff; popc.b32 %r11, %r10; shl.b32 %r11, %r11, 8;
    add.u32 %r9, %r9, %r11;"""
    got = out(body)
    want = np.array([1 if t % 2 == 0 else 2 if t < 9 else 3 for t in range(32)]) + (32 << 8)
    np.testing.assert_array_equal(got, want)


def test_loop_with_a_trip_count_per_lane() -> None:
    body = """mov.u32 %r9, 0; mov.u32 %r3, 0; L: add.u32 %r9, %r9, %r3; add.u32 %r3, %r3, 1;
    setp.le.u32 %p1, %r3, %r1; @%p1 bra L;"""
    np.testing.assert_array_equal(out(body), [sum(range(t + 1)) for t in range(32)])


def test_a_branch_along_warps_splits_and_a_barrier_joins() -> None:
    body = """shr.u32 %r2, %r1, 5; mov.u32 %r3, dyn; mad.lo.u32 %r4, %r2, 4, %r3; setp.ne.u32 %p1, %r2, 2;
    @%p1 bra SKIP;
    mov.u32 %r5, 7; st.shared.b32 [%r3], %r5; SKIP: bar.sync 0; ld.shared.b32 %r9, [%r3];"""
    np.testing.assert_array_equal(out(body, 128, shared=1024), np.full(128, 7))


def test_guards_on_ordinary_instructions() -> None:
    np.testing.assert_array_equal(
        out("mov.u32 %r9, 5; setp.lt.u32 %p1, %r1, 3; @%p1 mov.u32 %r9, 6; @!%p1 add.u32 %r9, %r9, 1;"), [6] * 32
    )
    np.testing.assert_array_equal(
        out("mov.u32 %r9, 5; setp.lt.u32 %p1, %r1, 3; @%p1 mov.u32 %r9, 9;"), [9] * 3 + [5] * 29
    )


def test_early_exit_leaves_the_rest_running() -> None:
    result = np.zeros(64, np.uint32)
    got = run_kernel(
        f"{OUT} setp.gt.u32 %p1, %r1, 40; @%p1 ret; bar.sync 0; mov.u32 %r9, 1; st.global.b32 [%d2], %r9;",
        result,
        threads=64,
    )
    assert not got.findings
    np.testing.assert_array_equal(result, (np.arange(64) <= 40))


@pytest.mark.parametrize(
    "mode,b,c,want",
    [
        ("up", 1, 0, lambda t: max(t - 1, 0)),
        ("down", 2, 31, lambda t: t + 2 if t + 2 < 32 else t),
        ("bfly", 5, 31, lambda t: t ^ 5),
        ("idx", 3, 31, lambda t: 3),
        ("idx", 9, 0x181F, lambda t: (t & 24) | 1),
    ],
)
def test_shuffles(mode, b, c, want) -> None:
    np.testing.assert_array_equal(
        out(f"shfl.sync.{mode}.b32 %r9|%p1, %r1, {b}, {c}, -1;"), [want(t) for t in range(32)]
    )


def test_votes_elect_match_and_redux() -> None:
    np.testing.assert_array_equal(out("setp.lt.u32 %p1, %r1, 5; vote.sync.ballot.b32 %r9, %p1, -1;"), [31] * 32)
    np.testing.assert_array_equal(
        out("setp.lt.u32 %p1, %r1, 5; vote.sync.all.pred %p2, %p1, -1; selp.b32 %r9, 1, 0, %p2;"), [0] * 32
    )
    np.testing.assert_array_equal(
        out("setp.lt.u32 %p1, %r1, 5; vote.sync.any.pred %p2, %p1, -1; selp.b32 %r9, 1, 0, %p2;"), [1] * 32
    )
    assert out("elect.sync _|%p1, -1; selp.b32 %r9, 1, 0, %p1;", 64).reshape(2, 32).sum(1).tolist() == [1, 1]
    np.testing.assert_array_equal(out("redux.sync.add.u32 %r9, %r1, -1;"), [496] * 32)
    np.testing.assert_array_equal(
        out("shr.u32 %r2, %r1, 4; match.any.sync.b32 %r9, %r2, -1;"), [0xFFFF] * 16 + [0xFFFF0000] * 16
    )


def test_movmatrix_transposes_each_warps_matrix() -> None:
    # %r9 holds elements 2t and 2t + 1 of the CTA, as 16-bit halves
    body = "shl.b32 %r3, %r1, 1; add.u32 %r4, %r3, 1; shl.b32 %r4, %r4, 16; or.b32 %r9, %r3, %r4;"
    moved = out(f"{body} movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r9;", 64)
    for warp in range(2):
        for t in range(32):
            low, high = (64 * warp + 8 * (t % 4 * 2 + n) + t // 4 for n in range(2))
            assert moved[32 * warp + t] == low | high << 16
    columns = out("mov.u32 %r9, 5; movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r9;").view(np.uint16)
    assert columns.tolist() == ([5] * 8 + [0] * 8) * 4  # the same word in every lane


def test_named_barriers_count_threads() -> None:
    body = """mov.u32 %r3, dyn; setp.ge.u32 %p1, %r1, 32; @%p1 bra CONSUME; mov.u32 %r4, 77;
    st.shared.b32 [%r3+16], %r4; bar.arrive 3, 64;
    mov.u32 %r9, 0; bra.uni END; CONSUME: bar.sync 3, 64; ld.shared.b32 %r9, [%r3+16]; END:"""
    for seed in range(4):
        np.testing.assert_array_equal(out(body, 64, shared=64, seed=seed), [0] * 32 + [77] * 32)


def test_vector_accesses_of_all_widths() -> None:
    source = np.arange(256, dtype=np.uint8)
    result = np.zeros(256, np.uint8)
    body = """ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mad.wide.u32 %d3, %r1, 16, %d1;
    mad.wide.u32 %d4, %r1, 16, %d2;
    ld.global.v4.b32 {%r2,%r3,%r4,%r5}, [%d3]; st.global.v2.b32 [%d4], {%r2,%r3}; st.global.b16 [%d4+8], %h1;
    cvt.u16.u32 %h1, %r4; cvt.u16.u32 %h2, %r5; st.global.b16 [%d4+8], %h1; shr.u32 %r4, %r4, 16;
    st.global.b8 [%d4+10], %r4;
    shr.u32 %r4, %r4, 8; st.global.u8 [%d4+11], %r4; st.global.b32 [%d4+12], %r5;"""
    assert not run_kernel(body, source, result, threads=16).findings
    np.testing.assert_array_equal(result, source)


def test_sign_extension_on_loads() -> None:
    source = np.array([-1, 5, -128, 127] * 8, np.int8)
    result = np.zeros(32, np.int32)
    body = """ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; cvt.u64.u32 %d3, %r1;
    add.u64 %d1, %d1, %d3;
    mad.wide.u32 %d2, %r1, 4, %d2; ld.global.s8 %r2, [%d1]; st.global.b32 [%d2], %r2;"""
    run_kernel(body, source, result)
    np.testing.assert_array_equal(result, source)


def test_local_memory_is_private_and_generic() -> None:
    body = """.local .align 8 .b8 stack[64]; mov.u64 %d3, stack; cvta.local.u64 %d4, %d3;
    st.local.b32 [%d3+4], %r1; ld.b32 %r9, [%d4+4];"""
    np.testing.assert_array_equal(out(body), np.arange(32))


def test_atomics() -> None:
    counter = np.zeros(4, np.uint32)
    body = """ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; red.global.add.u32 [%d1], 1;
    atom.global.max.u32 %r2, [%d1+4], %r1;
    atom.global.cas.b32 %r3, [%d1+8], 0, %r1; atom.global.inc.u32 %r4, [%d1+12], 4;"""
    run_kernel(body, counter, threads=64)
    assert counter.tolist() == [64, 63, 1, 64 % 5]


def test_distributed_shared_memory_and_cluster_barrier() -> None:
    body = """mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, dyn; add.u32 %r4, %r2, 50; st.shared.b32 [%r3], %r4;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; xor.b32 %r5, %r2, 1;
    mapa.shared::cluster.u32 %r6, %r3, %r5;
    ld.shared::cluster.b32 %r9, [%r6]; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mov.u32 %r7, %ctaid.x; mul.lo.u32 %r7, %r7, 128;
    cvt.u64.u32 %d5, %r7; add.u64 %d2, %d2, %d5;"""
    for seed in range(3):
        np.testing.assert_array_equal(out(body, shared=64, grid=(2,), cluster=(2,), seed=seed), [51] * 32 + [50] * 32)


def test_a_thread_that_arrived_at_the_cluster_barrier_and_exited_is_not_counted_for_another() -> None:
    # Warp 0 arrives and exits, warp 1 waits for warp 2, which comes late. PTX ISA, «all the non-exited threads».
    body = """shr.u32 %r2, %r1, 5; mov.u32 %r3, dyn; mov.u32 %r4, 0; mov.u32 %r9, 5;
    setp.eq.u32 %p1, %r2, 0; @%p1 barrier.cluster.arrive; @%p1 ret;
    setp.eq.u32 %p2, %r2, 1; @%p2 bra MEET;
    L: add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 500; @%p3 bra L;
    mov.u32 %r5, 7; st.shared.b32 [%r3], %r5;
    MEET: barrier.cluster.arrive; barrier.cluster.wait; ld.shared.b32 %r9, [%r3];"""
    for schedule in ("eager", "warps", "late"):
        np.testing.assert_array_equal(out(body, 96, shared=64, schedule=schedule)[32:], [7] * 64)


def test_scoped_registers_and_labels_of_inline_assembly() -> None:
    split = "{ .reg .pred P1; setp.lt.u32 P1, %r1, 16; @P1 bra DONE; add.u32 %r9, %r9, 1; DONE: }\n"
    np.testing.assert_array_equal(out("mov.u32 %r9, 0;" + split * 3), [0] * 16 + [3] * 16)


def test_special_registers() -> None:
    got = out(
        "mov.u32 %r9, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r9, %r3, %r1; mad.wide.u32 %d2, %r4, 4, %d1;",
        64,
        grid=(3,),
    )
    np.testing.assert_array_equal(got, np.repeat([0, 1, 2], 64))


@pytest.mark.parametrize(
    "text,name",
    [
        ("frobnicate.b32 %r1, %r2;", "frobnicate.b32"),
        ("add.weird.s32 %r1, %r2, %r3;", "add.weird.s32"),
        ("ld.global.odd.b32 %r1, [%d1];", "ld.global.odd.b32"),
        ("cvt.rn.f17.f32 %r1, %r2;", "cvt.rn.f17.f32"),
        ("tcgen05.mma.cta_group::1.kind::f99 [%r1], %d1, %d1, %r1, %p1;", "kind::f99"),
    ],
)
def test_an_unknown_opcode_names_itself_its_line_and_its_kernel(text, name) -> None:
    module = ptxsim.Module.from_text(kernel_text(f"\n\n{text}", 0))
    with pytest.raises(ptxsim.PtxError, match=name) as error:
        ptxsim.run(ptxsim.launch(module, "k", (1,), (32,), ()))
    line = next(n for n, x in enumerate(kernel_text(f"\n\n{text}", 0).split("\n"), 1) if name in x)
    assert f":{line}:" in str(error.value) and "kernel k" in str(error.value)


def test_findings_name_the_tensor_and_the_line() -> None:
    result = np.zeros(32, np.uint32)
    got = run_kernel(
        f"{OUT} setp.eq.u32 %p1, %r1, 31; mov.u32 %r9, 1;\n@%p1 st.global.b32 [%d2+4], %r9;\nst.global.b32 [%d2], %r9;",
        result,
    )
    (finding,) = got.findings
    assert finding.kind == "out-of-bounds" and "0 bytes past the end of argument 0 (128 bytes)" in finding.message
    assert finding.warp == 0 and finding.lanes == (31,) and "[%d2+4]" in finding.instruction
    np.testing.assert_array_equal(result, np.ones(32))


def test_misaligned_access_is_found() -> None:
    got = run_kernel(f"{OUT} mov.u32 %r9, 1; st.global.b32 [%d2+2], %r9;", np.zeros(64, np.uint32))
    assert [f.kind for f in got.findings] == ["misaligned"]


def test_shared_out_of_bounds_is_found() -> None:
    got = run_kernel(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, dyn; mad.lo.u32 %r2, %r1, 4, %r2; st.shared.b32 [%r2], %r1;", shared=64
    )
    (finding,) = got.findings
    assert finding.kind == "out-of-bounds" and "offset 64 of 64" in finding.message


def test_a_barrier_nobody_completes_is_a_deadlock_that_says_so() -> None:
    got = run_kernel("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra END; bar.sync 2, 64; END:", threads=64)
    (finding,) = got.findings
    assert finding.kind == "deadlock" and "barrier 2 of CTA 0 (32 of 64 threads arrived)" in finding.message


@pytest.mark.parametrize("schedule", ["eager", "warps", "late"])
def test_a_second_arrival_at_the_cluster_barrier_before_a_wait_is_reported(schedule) -> None:
    arrive, wait = "barrier.cluster.arrive;", "barrier.cluster.wait;"
    for body, reported in ((arrive + wait + arrive + wait, []), (arrive + arrive + wait + wait, ["barrier"])):
        findings = run_kernel(body, threads=64, grid=(2,), cluster=(2,), schedule=schedule).findings
        assert [x.kind for x in findings] == reported
