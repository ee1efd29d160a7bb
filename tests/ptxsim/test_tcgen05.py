"""Tensor cores by hand-written PTX: every kind and format, against products in float64."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from snippets import kernel_text, run_kernel

import ptxsim
from ptxsim.core.work import Origin
from ptxsim.isa.descriptor import instruction
from ptxsim.isa.numeric import TABLES, bf16_to_f32, f32_to_bf16
from ptxsim.isa.tensor_product import Form, TensorProduct
from ptxsim.memory.tensor_memory import TensorMemory, shape_index

FORMATS = {
    "f16": ("f16", 0, 16),
    "bf16": ("f16", 1, 16),
    "tf32": ("tf32", 2, 32),
    "e4m3": ("f8f6f4", 0, 8),
    "e5m2": ("f8f6f4", 1, 8),
    "e2m3": ("f8f6f4", 3, 8),
    "e3m2": ("f8f6f4", 4, 8),
    "e2m1": ("f8f6f4", 5, 8),
    "u8": ("i8", 0, 8),
    "s8": ("i8", 1, 8),
}


def random_matrix(fmt: str, rows: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(bytes (rows, k * bits / 8), values in float64) of a format."""
    rng = np.random.default_rng(seed)
    if fmt == "f16":
        x = rng.standard_normal((rows, k)).astype(np.float16)
        return x.view(np.uint8), x.astype(float)
    if fmt == "bf16":
        x = f32_to_bf16(rng.standard_normal((rows, k)).astype(np.float32))
        return x.view(np.uint8).reshape(rows, -1), bf16_to_f32(x).astype(float)
    if fmt == "tf32":
        x = (rng.integers(-2048, 2048, (rows, k)) / 64).astype(np.float32)
        return x.view(np.uint8), x.astype(float)
    codes = rng.integers(0, 256, (rows, k)).astype(np.uint8)
    if fmt in ("u8", "s8"):
        return codes, codes.view(np.int8 if fmt == "s8" else np.uint8).astype(float)
    table = TABLES[fmt].astype(float)
    codes = (codes.astype(int) % len(table)).astype(np.uint8)
    codes[~np.isfinite(table[codes])] = 1
    return codes, table[codes]


def packed(codes: np.ndarray, fmt: str) -> np.ndarray:
    """Codes as kind f8f6f4 has them in shared memory.

    16 of 4 or 6 bits from the first bit of 16 bytes, then ones.
    """
    bits = {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(fmt)
    if bits is None:
        return codes
    out = np.full((codes.size // 16, 16), 0xFF, np.uint8)
    for row, values in zip(out, codes.reshape(-1, 16), strict=True):
        number = sum(int(value) << bits * n for n, value in enumerate(values))
        row[: 2 * bits] = np.frombuffer(number.to_bytes(2 * bits, "little"), np.uint8)
    return out.reshape(codes.shape)


def core_matrices(raw: np.ndarray) -> np.ndarray:
    """Rows of bytes in the canonical layout without swizzle.

    8 rows by 16 bytes together, chunks of a row 128 bytes apart.
    """
    rows, width = raw.shape
    return np.ascontiguousarray(raw.reshape(rows // 8, 8, width // 16, 16).transpose(0, 2, 1, 3)).reshape(-1)


def smem_descriptor(offset: str, width: int) -> str:
    """PTX that leaves in %d20 the descriptor of core matrices at dyn + offset.

    LBO 128, SBO 8 rows of `width` bytes.
    """
    bits = 128 // 16 << 16 | 8 * width // 16 << 32 | 1 << 46
    return f"add.u32 %r20, %r1, {offset}; shr.u32 %r20, %r20, 4; cvt.u64.u32 %d20, %r20; or.b64 %d20, %d20, {bits};"


MMA = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5; add.u32 %r4, %r1, BAR;
setp.ne.u32 %p1, %r2, 0; setp.ne.u32 %p2, %r3, 0;
@%p2 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4+16], 256; @%p1 bra A;
mbarrier.init.shared.b64 [%r4], 1; mbarrier.init.shared.b64 [%r4+8], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [%r4], BYTES; ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], ABYTES, [%r4]; add.u32 %r5, %r1, ABYTES;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d2], BBYTES, [%r4];
A: bar.sync 0; ld.shared.b32 %r6, [%r4+16]; SETUP bar.sync 0; @%p1 bra W;
L: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], 0; @!%p3 bra L;
ADESC mov.b64 %d21, %d20; BDESC setp.ne.u32 %p4, 0, 0; setp.eq.u32 %p5, 0, 0;
mov.u32 %r7, IDESC; MMAS tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4+8];
W: mbarrier.try_wait.parity.shared.b64 %p3, [%r4+8], 0; @!%p3 bra W; shl.b32 %r8, %r3, 21; add.u32 %r8, %r8, %r6;
ld.param.u64 %d3, [p2]; mul.wide.u32 %d4, %r2, ROW; add.u64 %d3, %d3, %d4;
LOADS bar.sync 0; @%p2 bra Z; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 256; Z:"""


def mma(
    a: np.ndarray,
    b: np.ndarray,
    kind: str,
    idesc: int,
    n: int,
    times: int = 1,
    extra: str = "",
    setup: str = "",
    block: str = "",
    args: tuple = (),
    first: bool = False,
) -> np.ndarray:
    """D as (128 lanes, n columns) of 32-bit words after `times` products."""
    out = np.zeros((128, n), np.uint32)
    regs = [f"%r{30 + j}" for j in range(16)]
    loads = "".join(
        f"tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{', '.join(regs)}}}, [%r8+{c}]; tcgen05.wait::ld.sync.aligned;"
        + "".join(f"st.global.b32 [%d3+{4 * (c + j)}], {r};" for j, r in enumerate(regs))
        for c in range(0, n, 16)
    )
    one = f"tcgen05.mma.cta_group::1.kind::{kind}{block} [%r6], %d21, %d20, %r7, {extra}%p"
    mmas = "".join(f"{one}{4 if t == 0 and not first else 5};" for t in range(times))
    pa, pb = core_matrices(a), core_matrices(b)
    body = MMA
    for name, value in {
        "SETUP": setup,
        "ADESC": smem_descriptor("0", a.shape[1]),
        "BDESC": smem_descriptor(str(pa.size), b.shape[1]),
        "ABYTES": pa.size,
        "BBYTES": pb.size,
        "BYTES": pa.size + pb.size,
        "BAR": pa.size + pb.size + 64 - (pa.size + pb.size) % 64,
        "IDESC": idesc,
        "MMAS": mmas,
        "LOADS": loads,
        "ROW": 4 * n,
    }.items():
        body = body.replace(name, str(value))
    result = run_kernel(
        body,
        pa,
        pb,
        out,
        *args,
        threads=128,
        shared=pa.size + pb.size + 1024,
        checks=("uninitialised", "race") if a.shape[0] == 128 else ("race",),
    )  # M = 64 fills half of the lanes read back
    assert not result.findings, [str(f) for f in result.findings]
    return out


def encode(kind: str, a: int, b: int, d: int, m: int, n: int) -> int:
    return d << 4 | a << 7 | b << 10 | n // 8 << 17 | m // 16 << 24


@pytest.mark.parametrize(
    "fa,fb",
    [("f16", "f16"), ("bf16", "bf16"), ("tf32", "tf32"), ("e4m3", "e5m2"), ("e2m3", "e3m2"), ("e2m1", "e4m3")],
)
@pytest.mark.parametrize("m,n", [(128, 48), (64, 16)])
def test_float_kinds(fa, fb, m, n) -> None:
    kind, ca, bits = FORMATS[fa]
    k = 256 // bits
    (a, av), (b, bv) = random_matrix(fa, m, k, 1), random_matrix(fb, n, k, 2)
    a, b = packed(a, fa), packed(b, fb)
    got = mma(a, b, kind, encode(kind, ca, FORMATS[fb][1], 1, m, n), n, times=2).view(np.float32)
    want = 2 * av @ bv.T
    rows = np.arange(m) if m == 128 else np.arange(m) % 16 + np.arange(m) // 16 * 32
    np.testing.assert_allclose(got[rows], want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def test_rubins_products_of_64_bytes_a_row() -> None:
    """Bit 29 of the descriptor, as CuTe DSL sets it for sm_107a: K = 64."""
    (a, av), (b, bv) = random_matrix("e4m3", 128, 64, 1), random_matrix("e4m3", 32, 64, 2)
    got = mma(a, b, "f8f6f4", encode("f8f6f4", 0, 0, 1, 128, 32) | 1 << 29, 32).view(np.float32)
    want = av @ bv.T
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("columns", [576, 512])
def test_rubins_exclusive_alloc_takes_all_columns(columns: int) -> None:
    body = (
        f"mov.u32 %r1, dyn; tcgen05.alloc.exclusive.cta_group::1.sync.aligned.shared::cta.b32 [%r1], {columns};"
        "ld.shared.b32 %r2, [%r1]; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2+575], {%r1};"
        "tcgen05.wait::st.sync.aligned; tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
        "tcgen05.dealloc.exclusive.cta_group::1.sync.aligned.b32 %r2, 576;"
    )
    module = ptxsim.Module.from_text(kernel_text(body, 0).replace("sm_100a", "sm_107a"))
    result = ptxsim.run(ptxsim.launch(module, "k", (1,), (32,), (), dynamic_shared=64))
    wrong = [] if columns == 576 else [f"tcgen05.alloc.exclusive of {columns} columns: 576 are needed"]
    assert [x.message for x in result.findings] == wrong
    with pytest.raises(ptxsim.PtxError, match=r"unknown opcode tcgen05\.alloc\.exclusive"):
        run_kernel(body, shared=64)


@pytest.mark.parametrize("fa,fb", [("u8", "u8"), ("s8", "u8"), ("s8", "s8")])
def test_integer_kind_is_exact(fa, fb) -> None:
    (a, av), (b, bv) = random_matrix(fa, 128, 32, 3), random_matrix(fb, 32, 32, 4)
    got = mma(a, b, "i8", encode("i8", FORMATS[fa][1], FORMATS[fb][1], 2, 128, 32), 32, times=3).view(np.int32)
    np.testing.assert_array_equal(got, (3 * av @ bv.T).astype(np.int64))


def test_integer_saturation() -> None:
    # With the descriptor's bit 3 a sum past the range of int32 stays at its end; without it, it wraps.
    a, b = np.full((128, 32), 127, np.uint8), np.full((32, 32), 127, np.uint8)
    times = 5
    setup = (
        "shl.b32 %r70, %r3, 21; add.u32 %r70, %r70, %r6; mov.u32 %r71, 2147483000;"
        + "".join(f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%r70+{c}], {{%r71}};" for c in range(32))
        + "tcgen05.wait::st.sync.aligned;"
    )
    idesc = encode("i8", 1, 1, 2, 128, 32)
    for bit, want in ((1 << 3, 2**31 - 1), (0, (2147483000 + times * 32 * 127 * 127 + 2**31) % 2**32 - 2**31)):
        got = mma(a, b, "i8", idesc | bit, 32, times=times, setup=setup, first=True).view(np.int32)
        assert (got == want).all()


def test_half_precision_accumulator() -> None:
    (a, av), (b, bv) = random_matrix("f16", 128, 16, 5), random_matrix("f16", 32, 16, 6)
    got = mma(a, b, "f16", encode("f16", 0, 0, 0, 128, 32), 32)
    assert (got >> 16 == 0).all()
    np.testing.assert_allclose(got.astype(np.uint16).view(np.float16).astype(float), av @ bv.T, rtol=1e-3, atol=2e-3)


def test_negated_operands() -> None:
    (a, av), (b, bv) = random_matrix("f16", 128, 16, 5), random_matrix("f16", 32, 16, 6)
    got = mma(a, b, "f16", encode("f16", 0, 0, 1, 128, 32) | 1 << 13, 32).view(np.float32)
    np.testing.assert_allclose(got, -av @ bv.T, rtol=1e-5, atol=1e-5)


SCALES = """mul.wide.u32 %d7, %r2, 8; ld.param.u64 %d5, [p3]; add.u64 %d5, %d5, %d7;
ld.global.v2.b32 {%r60,%r61}, [%d5]; shl.b32 %r62, %r3, 21;
add.u32 %r62, %r62, %r6; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r62+128], {%r60};
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r62+129], {%r61};
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r62+130], {%r60}; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r62+131], {%r61};
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r62+136], {%r61}; tcgen05.wait::st.sync.aligned;"""


@pytest.mark.parametrize("ident", [0, 2])
def test_block_scaled_mxf8(ident) -> None:
    # One ue8m0 scale per row and 32 values. Row r's in lane r % 32 of column r // 32, in the byte the descriptor names.
    (a, av), (b, bv) = random_matrix("e4m3", 128, 32, 7), random_matrix("e5m2", 32, 32, 8)
    rng = np.random.default_rng(9)
    words = rng.integers(120, 134, (32, 8)).astype(np.uint8)
    table = np.tile(words, (4, 1)).view(np.uint32)
    idesc = encode("mxf8f6f4", 0, 1, 0, 128, 32) | 1 << 23 | ident << 29 | ident << 4
    got = mma(
        a,
        b,
        "mxf8f6f4",
        idesc,
        32,
        extra="[%r63], [%r64], ",
        block=".block_scale.scale_vec::1X",
        args=(table,),
        setup=SCALES + "add.u32 %r63, %r6, 128; add.u32 %r64, %r6, 136;",
    ).view(np.float32)
    scale = 2.0 ** (words.astype(float) - 127)
    sa = np.stack([scale[r % 32, ident + 4 * (r // 32 % 2)] for r in range(128)])
    sb = np.stack([scale[r, 4 + ident] for r in range(32)])
    want = (av * sa[:, None]) @ (bv * sb[:, None]).T
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def test_operand_a_in_tensor_memory() -> None:
    (a, av), (b, bv) = random_matrix("f16", 128, 16, 5), random_matrix("f16", 32, 16, 6)
    words = np.ascontiguousarray(a).view(np.uint32)
    regs = [f"%r{60 + j}" for j in range(8)]
    setup = (
        "mul.wide.u32 %d7, %r2, 32; ld.param.u64 %d5, [p3]; add.u64 %d5, %d5, %d7;"
        + "".join(f"ld.global.b32 {r}, [%d5+{4 * j}];" for j, r in enumerate(regs))
        + "shl.b32 %r70, %r3, 21; add.u32 %r70, %r70, %r6; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r70+200], {"
        + ", ".join(regs)
        + "}; tcgen05.wait::st.sync.aligned; add.u32 %r71, %r6, 200;"
    )
    import test_tcgen05 as me

    text, me.MMA = me.MMA, me.MMA.replace("MMAS", "tcgen05.mma.cta_group::1.kind::f16 [%r6], [%r71], %d20, %r7, %p4;")
    try:
        got = mma(a, b, "f16", encode("f16", 0, 0, 1, 128, 32), 32, setup=setup, args=(words,)).view(np.float32)
    finally:
        me.MMA = text
    np.testing.assert_allclose(got, av @ bv.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "shape,count,columns", [("32x32b", 4, 4), ("16x64b", 2, 4), ("16x128b", 2, 8), ("16x256b", 2, 16)]
)
def test_load_shapes_cover_their_cells_once(shape, count, columns) -> None:
    rows, cols = shape_index(shape, count)
    seen = {(int(r), int(c)) for r, c in zip(rows.ravel(), cols.ravel(), strict=False)}
    assert len(seen) == rows.size and seen == {
        (r, c) for r in range(32 if shape == "32x32b" else 16) for c in range(columns)
    }


def test_store_and_load_shapes_agree() -> None:
    """What 16x256b writes, 32x32b reads back where PTX's plot of the shape has it."""
    out = np.zeros((32, 8), np.uint32)
    regs = ", ".join(f"%r{30 + j}" for j in range(8))
    body = f"""mov.u32 %r1, dyn; mov.u32 %r2, %tid.x;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; ld.shared.b32 %r6, [%r1];
    mul.lo.u32 %r30, %r2, 4; add.u32 %r31, %r30, 1; add.u32 %r32, %r30, 2; add.u32 %r33, %r30, 3;
    tcgen05.st.sync.aligned.16x256b.x1.b32 [%r6], {{%r30,%r31,%r32,%r33}}; add.u32 %r7, %r6, 1048576;
    tcgen05.st.sync.aligned.16x256b.x1.b32 [%r7], {{%r30,%r31,%r32,%r33}}; tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{regs}}}, [%r6]; ld.param.u64 %d1, [p0]; mad.wide.u32 %d1, %r2, 32, %d1;
    {"".join(f"st.global.b32 [%d1+{4 * j}], %r{30 + j};" for j in range(8))}
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;"""
    result = run_kernel(body, out, shared=64, checks=("uninitialised", "race"))
    assert not result.findings, [str(f) for f in result.findings]
    want = np.zeros((16, 8), np.uint32)
    for t in range(32):
        for r in range(4):
            want[t // 4 + 8 * (r // 2), t % 4 * 2 + r % 2] = 4 * t + r
    np.testing.assert_array_equal(out, np.concatenate([want, want]))


def test_a_pair_of_64_rows_reads_the_second_half_of_b_s_scale_factors_from_the_upper_lanes() -> None:
    """PTX ISA, data path layout B: upper columns lie in lanes 64 on."""
    tm = TensorMemory(0, checked=True)
    codes = np.arange(256, dtype=np.uint32).reshape(2, 4, 32) % 127  # half of N, column, lane
    for lanes, half in (((0, 32), 0), ((64, 96), 1)):
        for lane in lanes:
            tm.write(slice(lane, lane + 32), slice(8, 12), codes[half].T)
    tm.owned[8:12] = True
    descriptor = instruction("mxf4nvf4", 0x08401480)  # of NVIDIA's example, which sets the reserved bit 12
    form = Form(0, "mxf4nvf4", 2, False, 1, 0)
    task = TensorProduct(Origin(None, 0, 0, None), form, descriptor, 0, 0, 0, False, 8, 8, None)
    assert (task.halved, descriptor.b, descriptor.n) == (True, "e2m1", 256)
    factors = task._scale_factors(SimpleNamespace(tensor_memory=tm), 8, 256, 0, halved=True)
    np.testing.assert_array_equal(factors[:, 0], TABLES["ue4m3"][codes.ravel()])


QUARTERS = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5; setp.ne.u32 %p1, %r3, 0; @%p1 bra A;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; A: bar.sync 0; ld.shared.u32 %r4, [%r1];
and.b32 %r6, %r3, 3; shl.b32 %r6, %r6, 21; add.u32 %r6, %r4, %r6; add.u32 %r5, %r4, NAMED; setp.gt.u32 %p2, %r3, 3;
@!%p2 bra B; tcgen05.st.sync.aligned.SHAPE.x1.b32 [%r5], {REGISTERS}; tcgen05.wait::st.sync.aligned; B: bar.sync 0;
@%p2 bra C; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r7}, [%r6]; tcgen05.wait::ld.sync.aligned; ld.param.u64 %d1, [p0];
mad.wide.u32 %d1, %r2, 4, %d1; st.global.u32 [%d1], %r7; C: bar.sync 0; @%p1 bra E;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32; E:"""


@pytest.mark.parametrize("asked", [False, True])
def test_a_warp_reaches_its_own_quarter_of_tensor_memory_whatever_the_address_names(asked) -> None:
    """PTX ISA, access restrictions of tcgen05.ld: warp w has lanes from 32 w on.

    FlashInfer's 16-warp MLA decode and DeepGEMM's epilogues leave the quarter out of the address on B200.
    """
    body = QUARTERS.replace("SHAPE", "32x32b").replace("REGISTERS", "%r2").replace("NAMED", "0")
    out, checks = np.zeros(128, np.uint32), ptxsim.DEFAULT_CHECKS + ("tensor-lanes",) * asked
    result = run_kernel(body, out, threads=256, shared=64, checks=checks)
    assert [f.kind for f in result.findings] == ["tensor-lanes"] * asked
    np.testing.assert_array_equal(out, np.arange(128, 256))


@pytest.mark.parametrize(
    ("shape", "lane", "reported"), [("16x64b", 16, 0), ("16x64b", 17, 1), ("32x32b", 16, 1), ("16x64b", 128, 1)]
)
def test_an_access_stays_within_its_quarter(shape, lane, reported) -> None:
    body = QUARTERS.replace("SHAPE", shape).replace("REGISTERS", "%r2").replace("NAMED", str(lane << 16))
    result = run_kernel(body, np.zeros(128, np.uint32), threads=256, shared=64)
    assert [f.kind for f in result.findings] == ["tensor-lanes"] * reported


REDUCED = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; shr.u32 %r3, %r2, 5; setp.ne.u32 %p1, %r3, 0; @%p1 bra A;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; A: bar.sync 0; ld.shared.u32 %r4, [%r1];
shl.b32 %r5, %r3, 21; add.u32 %r5, %r5, %r4; ld.param.u64 %d1, [p0]; mad.wide.u32 %d2, %r2, 16, %d1;
ld.global.v4.b32 {%r10,%r11,%r12,%r13}, [%d2]; tcgen05.st.sync.aligned.32x32b.x4.b32 [%r5], {%r10,%r11,%r12,%r13};
tcgen05.wait::st.sync.aligned; tcgen05.ld.red.sync.aligned.32x32b.x4.OP {%r20,%r21,%r22,%r23}, %r24, [%r5];
tcgen05.wait::ld.sync.aligned; ld.param.u64 %d3, [p1]; mad.wide.u32 %d3, %r2, 4, %d3; st.global.b32 [%d3], %r24;
bar.sync 0; @%p1 bra E; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32; E:"""


@pytest.mark.parametrize("op", ["max.f32", "min.abs.f32", "max.NaN.f32", "max.u32", "min.s32"])
def test_loads_that_reduce(op, rng) -> None:
    x, out = rng.standard_normal((128, 4)).astype(np.float32), np.zeros(128, np.uint32)
    x[5, 2] = np.nan
    result = run_kernel(REDUCED.replace("OP", op), x, out, threads=128, shared=64, checks=("race", "uninitialised"))
    assert not result.findings, [str(f) for f in result.findings]
    name, *_, kind = op.split(".")
    v = x.view({"f32": np.float32, "u32": np.uint32, "s32": np.int32}[kind])
    v = np.abs(v) if "abs" in op else v
    reduce = {"max": np.nanmax, "min": np.nanmin}[name] if "NaN" not in op else np.max
    np.testing.assert_array_equal(out.view(v.dtype), reduce(v, axis=1))
