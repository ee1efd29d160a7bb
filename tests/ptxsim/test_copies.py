"""TMA and other asynchronous copies against brute force, with hand-packed descriptors."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import run_kernel, tensor_map

from ptxsim.memory.tensor_map import decode, replace_field


def box_of(x: np.ndarray, box: tuple[int, ...], at: tuple[int, ...]) -> np.ndarray:
    """The box, zeros outside, by plain indexing."""
    out = np.zeros(box[::-1], x.dtype)
    for index in np.ndindex(*out.shape):
        where = tuple(a + i for a, i in zip(at[::-1], index, strict=False))
        if all(0 <= w < n for w, n in zip(where, x.shape, strict=False)):
            out[index] = x[where]
    return out


def swizzled(linear: np.ndarray, bits: int) -> np.ndarray:
    """Bytes as they lie in shared memory from a 1024-byte boundary.

    Address bits 4.. exclusive-or bits 7.., byte by byte.
    """
    out = np.zeros(-(-linear.size // 1024) * 1024, np.uint8)
    for address, byte in enumerate(linear):
        out[address ^ ((address >> 7 & ((1 << bits) - 1)) << 4)] = byte
    return out[: linear.size]


LOAD = """ld.param.u64 %d1, [p0]; ld.param.u64 %d3, [p2]; mov.u32 %r1, dyn; mov.u32 %r2, %tid.x;
add.u32 %r3, %r1, BYTES; setp.ne.u32 %p1, %r2, 0;
@%p1 bra WAIT; mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 %d9, [%r3], BYTES;
cp.async.bulk.tensor.DIMd.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%d1, {COORDS}], [%r3];
WAIT: bar.sync 0; L: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra L; mov.u32 %r4, %r2;
C: add.u32 %r5, %r1, %r4; ld.shared.u8 %r6, [%r5]; cvt.u64.u32 %d4, %r4; add.u64 %d5, %d3, %d4;
st.global.u8 [%d5], %r6; add.u32 %r4, %r4, 32;
setp.lt.u32 %p3, %r4, BYTES; @%p3 bra C;"""


@pytest.mark.parametrize(
    "dtype,shape,box,at,swizzle",
    [
        (np.float16, (40, 96), (64, 8), (0, 0), 3),
        (np.float16, (40, 96), (64, 16), (48, 30), 3),
        (np.float16, (40, 96), (32, 16), (16, 3), 2),
        (np.uint8, (64, 64), (32, 24), (0, 8), 1),
        (np.float32, (64, 32), (16, 8), (-8, -4), 0),
        (np.uint16, (5, 24, 64), (64, 4, 2), (0, 22, 4), 3),
        (np.uint32, (3, 4, 8, 16), (16, 2, 2, 2), (0, 7, 1, 2), 0),
        (np.uint16, (2, 3, 4, 4, 32), (32, 2, 1, 2, 1), (0, 3, 0, 2, 1), 2),
        (np.uint8, (256,), (128,), (192,), 0),
        (np.float16, (40, 96), (64, 8), (200, 0), 3),
    ],
)
@pytest.mark.parametrize("schedule", ["eager", "late"])
def test_tma_load(dtype, shape, box, at, swizzle, schedule, rng) -> None:
    x = rng.integers(0, 200, shape).astype(dtype)
    n = int(np.prod(box)) * x.itemsize
    out = np.full(n, 255, np.uint8)
    body = LOAD.replace("BYTES", str(n)).replace("DIM", str(x.ndim)).replace("COORDS", ", ".join(map(str, at)))
    result = run_kernel(
        body, tensor_map(x, box, swizzle), x, out, shared=n + 1024, schedule=schedule, checks=("uninitialised", "race")
    )
    assert not result.findings, [str(f) for f in result.findings]
    np.testing.assert_array_equal(out, swizzled(box_of(x, box, at).reshape(-1).view(np.uint8), swizzle))
    assert result.counts[0].tma_bytes == n


@pytest.mark.parametrize(("code", "bits"), [(12, 4), (13, 6)])
def test_padding_of_elements_takes_shared_memory_but_counts_as_no_transaction(code, bits, rng) -> None:
    # 16 elements in the first 8 or 12 of 16 bytes. The mbarrier that NVIDIA's kernels wait at expects those alone.
    x, row = rng.integers(0, 256, (16, 128), dtype=np.uint8), 16 * bits
    descriptor = tensor_map(x, (128, 8), 3, code=code)  # the first 128 elements, 64 or 96 bytes, of each row
    out = np.full(1024, 255, np.uint8)
    body = LOAD.replace("DIM", "2").replace("COORDS", "0, 4").replace("[%r3], BYTES;", f"[%r3], {8 * row};")
    result = run_kernel(body.replace("BYTES", "1024"), descriptor, x, out, shared=2048, checks=("uninitialised",))
    assert not result.findings, [str(f) for f in result.findings]
    padded = np.zeros((8, 8, 16), np.uint8)
    padded[..., : 2 * bits] = x[4:12, :row].reshape(8, 8, 2 * bits)
    np.testing.assert_array_equal(out, swizzled(padded.reshape(-1), 3))
    both = decode(descriptor.tobytes())
    assert (both.box_bytes, both.transaction_bytes) == (1024, 8 * row)


@pytest.mark.parametrize("missing", [0, 3, 7, 8, 100])
def test_a_map_that_counts_addresses_round_the_end_bounds_rows_anywhere(missing, rng) -> None:
    # Of a box of 8 rows that are to end before row 41, the last `missing` are out of bounds.
    # `row` and `last` have one stride; the fourth coordinate takes back the 2^30 rows by which a box's end is bounded.
    x, around = rng.integers(1, 200, (100, 64)).astype(np.float16), 1 << 30
    descriptor = tensor_map(np.lib.stride_tricks.as_strided(x, (2, 100, 2, 64), (0, 128, 128, 2)), (64, 8, 1, 1))
    words = descriptor.view(np.uint64)
    for dimension in (1, 3):
        replace_field(words, "global_dim", dimension, around + 1)
    replace_field(words, "global_stride", 2, 2**64 // around - 128)
    out, keys = np.full((8, 64), 7, np.float16), 8 - missing
    at = f"0, {around - 7 + missing}, {32 + keys}, {around}"
    body = LOAD.replace("BYTES", "1024").replace("DIM", "4").replace("COORDS", at)
    result = run_kernel(body, descriptor, x, out, shared=2048, checks=("uninitialised", "race"))
    assert not result.findings, [str(f) for f in result.findings]
    expected = np.zeros((8, 64), np.float16)
    expected[: max(keys, 0)] = x[33 : 33 + max(keys, 0)]
    np.testing.assert_array_equal(out, expected)


def test_six_bit_elements_in_a_form_that_the_driver_refuses_are_refused() -> None:
    x = np.zeros((16, 128), np.uint8)
    for box, swizzle in (((64, 8), 3), ((128, 8), 2)):
        with pytest.raises(ValueError, match="6-bit elements"):
            decode(tensor_map(x, box, swizzle, code=13).tobytes())


def test_descriptor_fields() -> None:
    x = np.zeros((7, 5, 64), np.float16)
    tm = decode(tensor_map(x, (64, 5, 1), 3).tobytes())
    assert (tm.address, tm.sizes, tm.strides, tm.box, tm.bits, tm.swizzle) == (
        x.ctypes.data,
        (64, 5, 7),
        (0, 128, 640),
        (64, 5, 1),
        16,
        3,
    )


STORE = """ld.param.u64 %d1, [p0]; mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r2, 4, %r1;
mov.b32 %f1, 0f3F800000; st.shared.b32 [%r3], %f1; fence.proxy.async.shared::cta; bar.sync 0;
setp.ne.u32 %p1, %r2, 0; @%p1 bra END;
OP.global.shared::ctaADD.tile.bulk_group [%d1, {X, Y}], [%r1]; cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0; END:"""


@pytest.mark.parametrize("op,add", [("cp.async.bulk.tensor.2d", ""), ("cp.reduce.async.bulk.tensor.2d", ".add")])
@pytest.mark.parametrize("x,y", [(0, 0), (12, 6)])
@pytest.mark.parametrize("schedule", ["late", "random"])
def test_tma_store_and_reduce(op, add, x, y, schedule) -> None:
    target = np.full((8, 16), 5, np.float32)
    body = STORE.replace("OP", op).replace("ADD", add).replace("X", str(x)).replace("Y", str(y))
    result = run_kernel(
        body,
        tensor_map(target, (8, 4)),
        target,
        shared=1024,
        schedule=schedule,
        checks=("race", "uninitialised"),
        registers=".reg .f32 %f<4>;",
    )
    assert not result.findings, [str(f) for f in result.findings]
    want = np.full((8, 16), 5, np.float32)
    want[y : y + 4, x : x + 8] = 6 if add else 1
    np.testing.assert_array_equal(target, want)


BY_ALL = """ld.param.u64 %d1, [p0]; mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r2, 4, %r1;
st.shared.u32 [%r3], %r2; fence.proxy.async.shared::cta; bar.warp.sync -1; setp.ge.u32 %p1, %r2, WAITERS;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1, {0, 0}], [%r1]; cp.async.bulk.commit_group;
@%p1 bra END; cp.async.bulk.wait_group.read 0; END: bar.warp.sync -1; st.shared.u32 [%r3], 7;"""


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("waiters", [32, 31, 1])
def test_a_box_that_all_lanes_store_is_read_until_all_of_them_have_waited(waiters, schedule) -> None:
    target = np.zeros((4, 8), np.uint32)
    body = BY_ALL.replace("WAITERS", str(waiters))
    result = run_kernel(
        body, tensor_map(target, (8, 4)), target, shared=1024, schedule=schedule, checks=("race", "exit")
    )
    assert {f.kind for f in result.findings} == (set() if waiters == 32 else {"race", "exit"})
    assert sum(f.count for f in result.findings if f.kind == "exit") == 32 - waiters
    if waiters == 32:
        np.testing.assert_array_equal(target.ravel(), np.arange(32))
    counts = result.counts[0]
    assert (counts.tma_instructions, counts.tma_bytes, counts.global_write_bytes) == (32, 4096, 4096)


@pytest.mark.parametrize("x,fine", [(4, True), (6, False), (13, False)])
def test_a_box_must_begin_at_a_multiple_of_16_bytes(x, fine) -> None:
    """An H200 stops with «illegal instruction» where this is not so (docs/decisions/ptxsim_h200_behaviour.md)."""
    target = np.full((8, 16), 5, np.float32)
    body = STORE.replace("OP", "cp.async.bulk.tensor.2d").replace("ADD", "").replace("X", str(x)).replace("Y", "0")
    result = run_kernel(body, tensor_map(target, (8, 4)), target, shared=1024, registers=".reg .f32 %f<4>;")
    assert [f.kind for f in result.findings] == ([] if fine else ["misaligned"])


def test_a_store_without_its_proxy_fence_is_a_race() -> None:
    target = np.full((8, 16), 5, np.float32)
    body = (
        STORE.replace("OP", "cp.async.bulk.tensor.2d")
        .replace("ADD", "")
        .replace("X", "0")
        .replace("Y", "0")
        .replace("fence.proxy.async.shared::cta;", "")
    )
    result = run_kernel(
        body, tensor_map(target, (8, 4)), target, shared=1024, checks=("race",), registers=".reg .f32 %f<4>;"
    )
    assert [f.kind for f in result.findings] == ["race"] and "no fence.proxy.async" in result.findings[0].message


def test_bulk_copies_there_and_back(rng) -> None:
    x, y = rng.integers(0, 255, 512).astype(np.uint8), np.zeros(512, np.uint8)
    body = """ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, dyn; add.u32 %r3, %r1, 1024;
    mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0;
    @%p1 bra END; mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 512, [%r3];
    L: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra L;
    cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r1], 512; cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0; END:"""
    for schedule in ("eager", "late"):
        result = run_kernel(body, x, y, shared=2048, schedule=schedule, checks=("race", "uninitialised"))
        assert not result.findings, [str(f) for f in result.findings]
        np.testing.assert_array_equal(x, y)


# CTA 0 copies 16 bytes to CTA TO, whose mbarrier counts them, and then writes the source again.
REUSED = """mov.u32 %r1, dyn; add.u32 %r3, %r1, 64; add.u32 %r4, %r1, 72; mov.u32 %r2, %tid.x;
mov.u32 %r7, %cluster_ctarank; setp.ne.u32 %p1, %r2, 0; @%p1 bra SYNC; mbarrier.init.shared.b64 [%r3], 1;
mbarrier.init.shared.b64 [%r4], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16; mapa.shared::cluster.u32 %r8, %r4, 0;
SYNC: barrier.cluster.arrive.release; barrier.cluster.wait.acquire; @%p1 bra END;
setp.ne.u32 %p4, %r7, 0; @%p4 bra PEER; st.shared.v4.b32 [%r1], {%r3, %r3, %r3, %r3}; fence.proxy.async.shared::cta;
add.u32 %r5, %r1, 32; mapa.shared::cluster.u32 %r5, %r5, TO; mapa.shared::cluster.u32 %r6, %r3, TO;
cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5], [%r1], 16, [%r6];
WAIT st.shared.b32 [%r1], %r2; bra END; PEER: ANSWER
END: barrier.cluster.arrive; barrier.cluster.wait;"""
LANDED = "L: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra L;"
ANSWERED = LANDED.replace("r3", "r4").replace("L:", "T:").replace("bra L", "bra T")
TELL = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];"


@pytest.mark.parametrize(
    ("to", "answer", "wait", "races"),
    [
        (1, LANDED + TELL, ANSWERED, False),
        (1, LANDED + TELL, "", True),  # reused at once
        (1, LANDED, "", True),  # only the peer knows that the copy has ended
        (1, TELL, ANSWERED, True),  # arrives too early
        (0, "", LANDED, False),
        (0, "", "", True),
    ],
)
def test_the_source_of_a_copy_to_a_cta_is_free_once_its_mbarrier_was_waited_for(to, answer, wait, races) -> None:
    body = REUSED.replace("TO;", f"{to};").replace("WAIT", wait).replace("ANSWER", answer)
    for schedule in ("eager", "late", "random"):
        findings = run_kernel(
            body, shared=128, grid=(2,), cluster=(2,), schedule=schedule, checks=("race", "uninitialised")
        ).findings
        assert [f.kind for f in findings] == ["race"] * races, [str(f) for f in findings]
        assert not races or "a copy signalling the mbarrier" in findings[0].message


MULTICAST = """ld.param.u64 %d1, [p0]; ld.param.u64 %d3, [p2]; mov.u32 %r1, dyn; mov.u32 %r2, %tid.x;
add.u32 %r3, %r1, 1024; mov.u32 %r7, %cluster_ctarank;
setp.ne.u32 %p1, %r2, 0; @%p1 bra SYNC; mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 128;
SYNC: barrier.cluster.arrive.release; barrier.cluster.wait.acquire; setp.ne.u32 %p4, %r7, 0; @%p4 bra WAIT;
@%p1 bra WAIT; mov.b16 %h1, MASK;
cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%d1,
{0}], [%r3], %h1;
WAIT: bar.sync 0; L: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra L; mad.lo.u32 %r4, %r2, 4, %r1;
ld.shared.b32 %r5, [%r4]; mad.lo.u32 %r6, %r7, 32, %r2;
mad.wide.u32 %d4, %r6, 4, %d3; st.global.b32 [%d4], %r5; barrier.cluster.arrive; barrier.cluster.wait;"""


def test_multicast_reaches_every_cta_and_its_barrier() -> None:
    x, out = np.arange(32, dtype=np.uint32), np.zeros((2, 32), np.uint32)
    for seed in range(3):
        result = run_kernel(
            MULTICAST.replace("MASK", "3"),
            tensor_map(x, (32,)),
            x,
            out,
            shared=2048,
            grid=(2,),
            cluster=(2,),
            seed=seed,
            checks=("race", "uninitialised"),
        )
        assert not result.findings, [str(f) for f in result.findings]
        np.testing.assert_array_equal(out, np.stack([x, x]))


def test_a_multicast_load_by_a_map_that_begins_where_no_memory_is() -> None:
    # A finding, though the box itself lies in memory. An H200 ends such a kernel, and takes the map otherwise.
    x, out = np.arange(128, dtype=np.uint32), np.zeros((2, 32), np.uint32)
    descriptor = tensor_map(x, (32,), before=1 << 20)
    at = (1 << 20) // 4
    words = descriptor.view(np.uint64)
    replace_field(words, "global_dim", 0, at + 128)
    options = {"shared": 2048, "grid": (2,), "cluster": (2,)}
    body = MULTICAST.replace("MASK", "3").replace("{0}", f"{{{at}}}")
    first = run_kernel(body, descriptor, x, out, **options).findings[0]
    assert first.kind == "out-of-bounds" and "where no memory is: an H200 touches that" in first.message
    body = LOAD.replace("BYTES", "128").replace("DIM", "1").replace("COORDS", str(at))
    out = np.zeros(32, np.uint32)
    assert not run_kernel(body, descriptor, x, out, shared=2048).findings
    np.testing.assert_array_equal(out, x[:32])


def test_a_multicast_mask_short_of_a_cta_deadlocks() -> None:
    x, out = np.arange(32, dtype=np.uint32), np.zeros((2, 32), np.uint32)
    result = run_kernel(
        MULTICAST.replace("MASK", "1"), tensor_map(x, (32,)), x, out, shared=2048, grid=(2,), cluster=(2,)
    )
    (finding,) = result.findings
    assert (
        finding.kind == "deadlock"
        and "128 transaction bytes outstanding" in finding.message
        and "CTA 1" in finding.message
    )


CP = """ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, dyn;
mad.lo.u32 %r3, %r1, 16, %r2; mad.wide.u32 %d3, %r1, 16, %d1;
cp.async.cg.shared.global [%r3], [%d3], 16, SIZE; cp.async.commit_group; WAIT ld.shared.v4.b32 {%r4,%r5,%r6,%r7}, [%r3];
mad.wide.u32 %d4, %r1, 16, %d2; st.global.v4.b32 [%d4], {%r4,%r5,%r6,%r7};"""


@pytest.mark.parametrize("size", [16, 8, 0])
def test_cp_async_fills_with_zeros(size, rng) -> None:
    x, y = rng.integers(1, 255, (32, 16)).astype(np.uint8), np.zeros((32, 16), np.uint8)
    result = run_kernel(
        CP.replace("SIZE", str(size)).replace("WAIT", "cp.async.wait_group 0;"),
        x,
        y,
        shared=1024,
        checks=("race", "uninitialised"),
    )
    assert not result.findings
    np.testing.assert_array_equal(y, np.where(np.arange(16) < size, x, 0))


# Both warps of a CTA copy to the same words, each from its own half of x.
TWICE = """ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, dyn; and.b32 %r4, %r1, 31;
mad.lo.u32 %r3, %r4, 16, %r2; mad.wide.u32 %d3, %r1, 16, %d1;
cp.async.cg.shared.global [%r3], [%d3], 16; cp.async.commit_group; cp.async.wait_group 0;"""


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("schedule", ["eager", "late", "warps"])
def test_two_warps_may_copy_the_same_values_to_the_same_words_and_no_others(schedule, same, rng) -> None:
    x = rng.integers(1, 255, (64, 16)).astype(np.uint8)
    if same:
        x[32:] = x[:32]
    result = run_kernel(TWICE, x, shared=1024, threads=64, schedule=schedule, checks=("race",)).findings
    assert bool(result) is not same and all(f.kind == "race" for f in result)


def test_cp_async_without_a_wait_is_noticed(rng) -> None:
    x, y = rng.integers(1, 255, (32, 16)).astype(np.uint8), np.zeros((32, 16), np.uint8)
    for schedule in ("eager", "late"):
        result = run_kernel(
            CP.replace("SIZE", "16").replace("WAIT", ""),
            x,
            y,
            shared=1024,
            schedule=schedule,
            checks=("race", "uninitialised"),
        )
        assert {f.kind for f in result.findings} & {"race", "uninitialised"}, schedule
        reported = [f.message for f in result.findings if f.kind == "uninitialised"]
        assert not reported or ("the copy at PTX line" in reported[0] and "has not been waited for" in reported[0])
    assert reported  # under «late»


PHASES = """mov.u32 %r1, %tid.x; mov.u32 %r2, dyn; setp.ne.u32 %p1, %r1, 0; @%p1 bra GO;
mbarrier.init.shared.b64 [%r2], 64; GO: bar.sync 0;
mov.u32 %r3, 0; mov.u32 %r9, 0; R: mbarrier.arrive.shared.b64 %d9, [%r2]; and.b32 %r4, %r3, 1;
L: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r4; @!%p2 bra L; add.u32 %r9, %r9, 1; add.u32 %r3, %r3, 1;
setp.lt.u32 %p3, %r3, 5; @%p3 bra R;
ld.param.u64 %d1, [p0]; mad.wide.u32 %d2, %r1, 4, %d1; st.global.b32 [%d2], %r9;"""


def test_mbarrier_phases_alternate() -> None:
    for schedule in ("eager", "random", "warps"):
        out = np.zeros(64, np.uint32)
        result = run_kernel(PHASES, out, threads=64, shared=64, schedule=schedule)
        assert not result.findings and (out == 5).all()


def test_wait_by_state_token_and_too_many_arrivals() -> None:
    body = """mov.u32 %r2, dyn; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra GO;
    mbarrier.init.shared.b64 [%r2], COUNT; GO: bar.sync 0;
    mbarrier.arrive.shared.b64 %d9, [%r2]; L: mbarrier.test_wait.shared.b64 %p2, [%r2], %d9; @!%p2 bra L;"""
    assert not run_kernel(body.replace("COUNT", "32"), np.zeros(1), shared=64).findings
    result = run_kernel(body.replace("COUNT", "31"), np.zeros(1), shared=64)
    assert [f.kind for f in result.findings][:1] == ["barrier"]


def test_an_mbarrier_that_was_never_initialised() -> None:
    result = run_kernel("mov.u32 %r2, dyn; mbarrier.arrive.shared.b64 %d9, [%r2];", np.zeros(1), shared=64)
    assert [f.kind for f in result.findings] == ["barrier"] and "no mbarrier was initialised" in result.findings[
        0
    ].message


def test_cache_policies_change_no_value() -> None:
    x, y = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    run_kernel(
        "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %d5, 0.5;"
        "createpolicy.fractional.L2::evict_first.b64 %d6;"
        "ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4;"
        "add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;"
        "ld.global.L1::no_allocate.L2::cache_hint.b32 %r2, [%d1], %d5;"
        "st.global.L2::cache_hint.b32 [%d2], %r2, %d6;"
        "red.global.add.L2::cache_hint.u32 [%d2], %r2, %d6;",
        x,
        y,
    )
    np.testing.assert_array_equal(y, 2 * x)
