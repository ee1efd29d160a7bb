"""Warpgroup products by hand-written PTX, and the matrix loads and stores next to them."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import run_kernel
from test_tcgen05 import core_matrices, random_matrix

K_BYTES = 32
BODY = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; add.u32 %r4, %r1, 4096; setp.ne.u32 %p1, %r2, 0; @%p1 bra A;
mbarrier.init.shared.b64 [%r4], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 2560;
ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; add.u32 %r5, %r1, 2048;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 2048, [%r4];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d2], 512, [%r4];
A: bar.sync 0; L: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 0; @!%p3 bra L;
shr.u32 %r6, %r1, 4; cvt.u64.u32 %d10, %r6; or.b64 %d10, %d10, DESC; add.u64 %d11, %d10, 128;
mov.b32 %r20, 0f40000000; mov.b32 %r21, %r20; mov.b32 %r22, %r20; mov.b32 %r23, %r20;
mov.b32 %r24, %r20; mov.b32 %r25, %r20; mov.b32 %r26, %r20; mov.b32 %r27, %r20; setp.eq.u32 %p5, 0, 0;
setp.eq.u32 %p6, 0, SCALE;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n16kKSTEP.DT.TYPE.TYPE {%r20,%r21,%r22,%r23,%r24,%r25,%r26,%r27}, %d10, %d11, %p6FLAGS;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
setp.ge.u32 %p7, %r2, 32; @%p7 bra S; mad.lo.u32 %r7, %r2, 64, %r1; mov.u32 %r8, 0;
st.shared.v4.b32 [%r7], {%r8,%r8,%r8,%r8}; st.shared.v4.b32 [%r7+16], {%r8,%r8,%r8,%r8};
st.shared.v4.b32 [%r7+32], {%r8,%r8,%r8,%r8}; st.shared.v4.b32 [%r7+48], {%r8,%r8,%r8,%r8};
S: ld.param.u64 %d3, [p2]; mul.wide.u32 %d4, %r2, 32; add.u64 %d3, %d3, %d4;
st.global.v4.b32 [%d3], {%r20,%r21,%r22,%r23}; st.global.v4.b32 [%d3+16], {%r24,%r25,%r26,%r27};"""


def ran(fmt: str, dtype: str, scale: int, args: tuple[np.ndarray, ...], schedule: str, seed: int = 0, first: str = ""):
    """Run a 64 by 16 product, after the code `first`; warp 0 then overwrites A."""
    k = {"f16": 16, "bf16": 16, "tf32": 8}.get(fmt, 32)
    desc = 128 // 16 << 16 | 8 * K_BYTES // 16 << 32
    flags = {"f16": ", 1, 1, 0, 0", "bf16": ", 1, 1, 0, 0"}.get(fmt, "" if fmt in ("s8", "u8") else ", 1, 1")
    body = BODY.replace("wgmma.fence", first + "wgmma.fence")
    names = {"DESC": desc, "KSTEP": k, "DT": dtype, "TYPE": fmt, "FLAGS": flags, "SCALE": scale}
    for name, value in names.items():
        body = body.replace(name, str(value))
    checks = ("race", "uninitialised")
    return run_kernel(body, *args, threads=128, shared=8192, schedule=schedule, seed=seed, checks=checks)


def product(fmt: str, dtype: str, accumulate: bool, schedule: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(accumulator words by PTX's plot of D, exact products) of a 64 by 16 product."""
    k = {"f16": 16, "bf16": 16, "tf32": 8}.get(fmt, 32)
    (a, av), (b, bv) = random_matrix(fmt, 64, k, 1), random_matrix(fmt, 16, k, 2)
    out = np.zeros((128, 8), np.uint32)
    args = (core_matrices(a), core_matrices(b), out)
    result = ran(fmt, dtype, int(not accumulate), args, schedule, seed)
    assert not result.findings, [str(f) for f in result.findings]
    assert result.counts[0].mma_flops == 2 * 64 * 16 * k
    got = np.zeros((64, 16), np.uint32)
    for thread in range(128):
        for r in range(8):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (r // 2 % 2)
            got[row, thread % 4 * 2 + r % 2 + 8 * (r // 4)] = out[thread, r]
    return got, av @ bv.T


@pytest.mark.parametrize("fmt", ["f16", "bf16", "tf32", "e4m3", "e5m2"])
@pytest.mark.parametrize("accumulate", [False, True])
def test_float_products(fmt, accumulate) -> None:
    got, want = product(fmt, "f32", accumulate, "late")
    want = want + 2.0 * accumulate
    bits = 13 if fmt in ("e4m3", "e5m2") else 23  # what Hopper keeps of a sum: see ptxsim/isa/hopper_product.py
    tolerance = 40 * 2.0**-bits
    np.testing.assert_allclose(got.view(np.float32), want, rtol=tolerance, atol=tolerance * np.abs(want).max())


@pytest.mark.parametrize("fmt", ["s8", "u8"])
def test_integer_products_are_exact(fmt) -> None:
    got, want = product(fmt, "s32", False, "eager")
    np.testing.assert_array_equal(got.view(np.int32), want.astype(np.int64))


@pytest.mark.parametrize("seed", range(6))
def test_a_wait_covers_the_whole_warpgroup(seed) -> None:
    # Warp 0 overwrites A after its wait. On hardware no part of the product can still be outstanding then.
    got, want = product("f16", "f32", False, "warps", seed)
    np.testing.assert_allclose(got.view(np.float32), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("schedule", ["eager", "late", "warps"])
@pytest.mark.parametrize(("mask", "kinds"), [(0, set()), (512, {"race"})])  # a warp has 512 bytes of A
def test_a_warp_may_store_its_own_rows_of_a_without_a_barrier_of_the_warpgroup(schedule, mask, kinds) -> None:
    a, b = core_matrices(random_matrix("f16", 64, 16, 1)[0]), core_matrices(random_matrix("f16", 16, 16, 2)[0])
    store = "bar.warp.sync -1; mul.lo.u32 %r7, %r2, 16; xor.b32 %r7, %r7, MASK; add.u32 %r7, %r7, %r1; mov.u32 %r8, 0;"
    store += "st.shared.v4.b32 [%r7], {%r8,%r8,%r8,%r8}; fence.proxy.async.shared::cta; bar.warp.sync -1;"
    out = np.zeros((128, 8), np.uint32)
    findings = ran("f16", "f32", 1, (a, b, out), schedule, first=store.replace("MASK", str(mask))).findings
    assert {x.kind for x in findings if "wgmma" in x.message} == kinds, [str(x) for x in findings]
    assert mask or not out.any()


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix_and_stmatrix_are_inverse(trans, rng) -> None:
    source, target = rng.integers(0, 60000, (32, 8)).astype(np.uint16), np.zeros((32, 8), np.uint16)
    body = f"""mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r2, 16, %r1; ld.param.u64 %d1, [p0];
    ld.param.u64 %d2, [p1];
    mad.wide.u32 %d1, %r2, 16, %d1; mad.wide.u32 %d2, %r2, 16, %d2; ld.global.v4.b32 {{%r4,%r5,%r6,%r7}}, [%d1];
    st.shared.v4.b32 [%r3], {{%r4,%r5,%r6,%r7}}; bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r10,%r11,%r12,%r13}}, [%r3];
    stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3+1024], {{%r10,%r11,%r12,%r13}}; bar.warp.sync -1;
    ld.shared.v4.b32 {{%r4,%r5,%r6,%r7}}, [%r3+1024]; st.global.v4.b32 [%d2], {{%r4,%r5,%r6,%r7}};"""
    result = run_kernel(body, source, target, shared=2048, checks=("uninitialised",))
    assert not result.findings, [str(f) for f in result.findings]
    blocks = source.reshape(4, 8, 8)
    np.testing.assert_array_equal(target.reshape(4, 8, 8), blocks.transpose(0, 2, 1) if trans else blocks)


def test_stmatrix_of_bytes_stores_the_columns_of_16_by_8_matrices(rng) -> None:
    """Each lane holds four elements, of two rows and two columns."""
    matrices, target = rng.integers(0, 256, (4, 16, 8)).astype(np.uint8), np.zeros((4, 8, 16), np.uint8)
    t = np.arange(32)
    parts = [matrices[:, t // 4 + 8 * (n // 2), 2 * (t % 4) + n % 2] for n in range(4)]
    registers = np.stack(parts, -1).reshape(4, 32, 4).transpose(1, 0, 2).copy()
    body = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r2, 16, %r1; ld.param.u64 %d1, [p0];
    ld.param.u64 %d2, [p1];
    mad.wide.u32 %d1, %r2, 16, %d1; mad.wide.u32 %d2, %r2, 16, %d2; ld.global.v4.b32 {%r4,%r5,%r6,%r7}, [%d1];
    stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [%r3], {%r4,%r5,%r6,%r7}; bar.warp.sync -1;
    ld.shared.v4.b32 {%r4,%r5,%r6,%r7}, [%r3]; st.global.v4.b32 [%d2], {%r4,%r5,%r6,%r7};"""
    assert not run_kernel(body, registers, target, shared=512, checks=("uninitialised",)).findings
    np.testing.assert_array_equal(target, matrices.transpose(0, 2, 1))
