"""Lanes that repeat one lane's work, and products whose registers no fence orders."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import run_kernel

import ptxsim

COPY = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra A;
mbarrier.init.shared.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], BYTES;
A: bar.sync 0; ld.param.u64 %d1, [p0]; GUARD
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+128], [%d1], 128, [%r1];
W: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra W;"""


@pytest.mark.parametrize("guard", ["@%p1 bra W;", ""])
def test_a_copy_that_32_lanes_ask_for_is_reported(guard) -> None:
    body = COPY.replace("GUARD", guard).replace("BYTES", "128" if guard else "4096")
    result = run_kernel(body, np.zeros(32, np.uint32), shared=512, checks=("repeated", "race"))
    assert ("repeated" in {f.kind for f in result.findings}) == (not guard)
    assert guard or "32 lanes of warp 0" in next(f.message for f in result.findings if f.kind == "repeated")


SHUFFLE = """mov.u32 %r1, %tid.x; mov.u32 %r3, 0; setp.ge.u32 %p1, %r1, 16; @%p1 bra E;
shfl.sync.bfly.b32 %r2, %r1, DISTANCE, 31, MASK; E: ld.param.u64 %d1, [p0]; st.global.u32 [%d1], %r2;"""


@pytest.mark.parametrize("distance,mask,wrong", [(8, "0xffff", False), (16, "0xffff", True), (8, "0xff", True)])
def test_a_lane_may_only_listen_to_lanes_of_the_member_mask(distance, mask, wrong) -> None:
    body = SHUFFLE.replace("DISTANCE", str(distance)).replace("MASK", mask)
    result = run_kernel(body, np.zeros(32, np.uint32), checks=("inactive",))
    assert [f.kind for f in result.findings] == (["inactive"] if wrong else [])


def test_a_lane_may_not_listen_to_one_that_has_exited() -> None:
    body = """mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 16; @!%p1 bra A; exit;
    A: shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1;"""
    (result,) = run_kernel(body, checks=("inactive",)).findings
    assert result.kind == "inactive" and "has exited" in result.message


SLOTS = ", ".join(f"%a{n}" for n in range(4))
PRODUCT = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{SLOTS}}}, %d1, %d2, %p1, 1, 1, 0, 0;"
WGMMA = f"""mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r2, 32, %r1; mov.u32 %r4, 0;
L: st.shared.v4.u32 [%r3], {{%r4, %r4, %r4, %r4}}; st.shared.v4.u32 [%r3+16], {{%r4, %r4, %r4, %r4}};
fence.proxy.async.shared::cta; bar.sync 0; shr.u32 %r5, %r1, 4; cvt.u64.u32 %d1, %r5; or.b64 %d1, %d1, 0x40000100000;
mov.b64 %d2, %d1; setp.ne.u32 %p1, %r4, 1; mov.b32 %a0, 0; mov.b32 %a1, 0; mov.b32 %a2, 0; mov.b32 %a3, 0;
FIRST {PRODUCT} {PRODUCT} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
add.f32 %a0, %a0, %a1; SECOND {PRODUCT} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"""
FENCE = "wgmma.fence.sync.aligned;"


@pytest.mark.parametrize(
    "first,second,words",
    [(FENCE, FENCE, None), ("", "", "before the first product"), (FENCE, "", "%a0 was written at PTX line")],
)
def test_a_product_whose_registers_were_written_needs_a_fence(first, second, words) -> None:
    body = WGMMA.replace("FIRST", first).replace("SECOND", second)
    registers = ".reg .f32 %a<4>;"
    result = run_kernel(body, threads=128, shared=8192, registers=registers, checks=ptxsim.DEFAULT_CHECKS)
    outcome = [f.message for f in result.findings if f.kind == "unfenced"]
    assert (words in outcome[0]) if words else not outcome


def test_a_lane_that_shuffles_without_being_in_the_member_mask_is_found_also_where_all_lanes_run() -> None:
    body = "mov.u32 %r1, %tid.x; shfl.sync.bfly.b32 %r2, %r1, 1, 31, 65535;"
    (result,) = run_kernel(body, checks=("inactive",)).findings
    assert "lane 16 shuffles, and the member mask 0xffff leaves it out" in result.message
    assert run_kernel(body.replace("65535", "-1"), checks=("inactive",)).ok


# Every lane stores a word of shared memory; lane 0 copies all of them out.
BULK = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; ld.param.u64 %d1, [p0]; mad.lo.u32 %r3, %r2, 4, %r1;
st.shared.u32 [%r3], %r2; fence.proxy.async.shared::cta; SYNC setp.ne.u32 %p1, %r2, 0; @%p1 bra E;
MINE cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], BYTES; cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0; E:"""


@pytest.mark.parametrize("schedule", ["eager", "late", "random", "warps"])
@pytest.mark.parametrize(
    ("sync", "size", "races"),
    [
        ("", 128, True),
        ("bar.warp.sync -1;", 128, False),
        ("bar.sync 0;", 128, False),
        ("", 16, True),
        ("elect.sync %r9|%p9, -1;", 128, True),  # waits for the other lanes, and orders no memory
    ],
)
def test_a_bulk_store_of_what_other_lanes_wrote_needs_their_synchronisation(schedule, sync, size, races) -> None:
    body = BULK.replace("SYNC", sync).replace("BYTES", str(size)).replace("MINE", "")
    findings = run_kernel(body, np.zeros(32, np.uint32), shared=256, schedule=schedule, checks=("race",)).findings
    assert [f.kind for f in findings] == (["race"] if races else [])
    assert not races or "lane 0 of warp 0 of CTA 0 stores shared offset 4, which lane 1 wrote" in findings[0].message


def test_a_bulk_store_of_what_the_lane_itself_wrote_needs_none() -> None:
    mine = "st.shared.v4.u32 [%r1+128], {%r2, %r2, %r2, %r2}; fence.proxy.async.shared::cta; add.u32 %r1, %r1, 128;"
    body = BULK.replace("SYNC", "").replace("BYTES", "16").replace("MINE", mine)
    assert not run_kernel(body, np.zeros(32, np.uint32), shared=256, checks=("race",)).findings


def test_a_bulk_store_of_each_lane_for_itself_needs_none() -> None:
    body = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; ld.param.u64 %d1, [p0]; mad.lo.u32 %r3, %r2, 16, %r1;
    mad.wide.u32 %d2, %r2, 16, %d1; st.shared.v4.u32 [%r3], {%r2, %r2, %r2, %r2}; fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r3], 16; cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;"""
    assert not run_kernel(body, np.zeros(128, np.uint32), shared=512, checks=("race",)).findings


# Every lane of warp 0 stores a word; lane 0 arrives for all; warp 1 waits and loads them.
ARRIVAL = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; and.b32 %r3, %r2, 31; shr.u32 %r4, %r2, 5; setp.ne.u32 %p1, %r4, 0;
setp.ne.u32 %p2, %r2, 0; mad.lo.u32 %r5, %r3, 4, %r1; @%p2 bra A; mbarrier.init.shared.b64 [%r1], 1; A: bar.sync 0;
@%p1 bra W; ADDRESS st.shared.u32 [%r5+128], %r2; SYNC @%p2 bra E; mbarrier.arrive.shared.b64 _, [%r1]; bra E;
W: mbarrier.try_wait.parity.shared.b64 %p3, [%r1], 0; @!%p3 bra W; ld.shared.u32 %r6, [%r1+128]; LOAD E:"""


@pytest.mark.parametrize("schedule", ["eager", "random", "warps"])
@pytest.mark.parametrize(
    ("sync", "load", "races"),
    [
        ("", "ld.shared.u32 %r6, [%r5+128];", True),
        ("bar.warp.sync -1;", "ld.shared.u32 %r6, [%r5+128];", False),
        ("bar.arrive 1, 64;", "bar.sync 1, 64; ld.shared.u32 %r6, [%r5+128];", False),  # orders its warp's lanes, too
        ("", "", False),  # only what lane 0 wrote
    ],
)
def test_an_arrival_of_one_lane_releases_no_writes_of_other_lanes(schedule, sync, load, races) -> None:
    body = ARRIVAL.replace("SYNC", sync).replace("LOAD", load).replace("ADDRESS", "")
    findings = run_kernel(body, threads=64, shared=512, schedule=schedule, checks=("race",)).findings
    assert [f.kind for f in findings] == (["race"] if races else [])


def test_what_lanes_wrote_is_released_by_an_arrival_after_their_synchronisation() -> None:
    late = "mbarrier.arrive.shared.b64 _, [%r1]; B: bar.warp.sync -1;"
    body = ARRIVAL.replace("init.shared.b64 [%r1], 1", "init.shared.b64 [%r1], 2").replace("ADDRESS", "")
    body = body.replace("SYNC", f"@%p2 bra B; {late}").replace("LOAD", "ld.shared.u32 %r6, [%r5+128];")
    assert run_kernel(body, threads=64, shared=512, checks=("race",)).ok


def test_what_lanes_wrote_is_released_by_their_own_arrivals() -> None:
    """Lane 0 arrives for another purpose, then all lanes arrive, then lane 0."""
    body = ARRIVAL.replace("init.shared.b64 [%r1], 1", "init.shared.b64 [%r1], 32").replace("@%p2 bra E; mba", "mba")
    other = "add.u32 %r7, %r1, 8; @%p2 bra B; mbarrier.arrive.shared.b64 _, [%r7]; B:"
    body = body.replace("; A: bar", "; mbarrier.init.shared.b64 [%r1+8], 2; A: bar").replace("ADDRESS", "")
    body = body.replace("[%r1]; bra E", f"[%r1]; {other.replace('B:', 'C:').replace('bra B', 'bra C')} bra E")
    body = body.replace("SYNC", other).replace("LOAD", "ld.shared.u32 %r6, [%r5+128];")
    assert run_kernel(body, threads=64, shared=512, checks=("race",)).ok
