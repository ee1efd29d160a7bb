"""Opcodes that NVIDIA's grouped, mixed-input and block-scaled examples brought in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from snippets import run_kernel, tensor_map

import ptxsim
from ptxsim.host.arguments import _in_pairs

LANE = "mov.u32 %r1, %tid.x; ld.param.u64 %d1, [p0]; mad.wide.u32 %d2, %r1, 4, %d1;"


def _bytes(words: np.ndarray, signed: bool) -> np.ndarray:
    return words.view(np.int8 if signed else np.uint8).reshape(-1, 4).astype(np.int64)


@pytest.mark.parametrize("a_type", ["s32", "u32"])
@pytest.mark.parametrize("b_type", ["s32", "u32"])
def test_dp4a_and_dp2a_are_sums_of_products_that_wrap(a_type, b_type, rng) -> None:
    a, b, c = (rng.integers(0, 2**32, 32, dtype=np.uint32) for _ in range(3))
    got = [np.zeros(32, np.uint32) for _ in range(3)]
    loads = "".join(
        f"ld.param.u64 %d{n + 5}, [p{n}]; mad.wide.u32 %d{n + 5}, %r1, 4, %d{n + 5};"
        + (f"ld.global.b32 %r{n + 5}, [%d{n + 5}];" if n < 3 else "")
        for n in range(6)
    )
    body = f"mov.u32 %r1, %tid.x; {loads}" + "".join(
        f"{op}.{a_type}.{b_type} %r20, %r5, %r6, %r7; st.global.b32 [%d{8 + n}], %r20;"
        for n, op in enumerate(("dp4a", "dp2a.lo", "dp2a.hi"))
    )
    assert not run_kernel(body, a, b, c, *got).findings
    bytes_of_b = _bytes(b, b_type == "s32")
    halves = a.view(np.int16 if a_type == "s32" else np.uint16).reshape(-1, 2).astype(np.int64)
    sums = [
        (_bytes(a, a_type == "s32") * bytes_of_b).sum(1),
        (halves * bytes_of_b[:, :2]).sum(1),
        (halves * bytes_of_b[:, 2:]).sum(1),
    ]
    for result, total in zip(got, sums, strict=True):
        np.testing.assert_array_equal(result, (total + c.astype(np.int64)).astype(np.uint32))


@pytest.mark.parametrize("count", [1, 2])
def test_ldmatrix_of_bytes_gives_each_lane_four_rows_of_two_columns(count) -> None:
    """Rows lie 32 bytes apart; each byte of the matrices is its own number."""
    source, got = np.arange(32 * 32, dtype=np.uint32).astype(np.uint8), np.zeros((32, 2 * count), np.uint32)
    registers = ", ".join(f"%r{20 + n}" for n in range(2 * count))
    stores = "".join(f"st.global.b32 [%d3+{4 * n}], %r{20 + n};" for n in range(2 * count))
    body = f"""{LANE} ld.param.u64 %d4, [p1]; mov.u32 %r2, dyn; mad.lo.u32 %r3, %r1, 32, %r2;
    mad.wide.u32 %d5, %r1, 32, %d1; ld.global.v4.b32 {{%r4,%r5,%r6,%r7}}, [%d5];
    st.shared.v4.b32 [%r3], {{%r4,%r5,%r6,%r7}}; bar.warp.sync -1;
    ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8 {{{registers}}}, [%r3];
    mad.wide.u32 %d3, %r1, {8 * count}, %d4; {stores}"""
    assert not run_kernel(body, source, got, shared=1024, checks=("race", "uninitialised")).findings
    rows = source.reshape(32, 32)
    for lane in range(32):
        for j in range(2 * count):
            first, column = 16 * (j // 2) + lane % 4 * 4, lane // 4 + 8 * (j % 2)
            want = rows[first : first + 4, column].copy().view(np.uint32)[0]
            assert got[lane, j] == want, (lane, j)


PACKED = {"b6x16_p32": 6, "b4x16_p64": 4}


def _packed_rows(elements: np.ndarray, bits: int) -> np.ndarray:
    """Pack rows of 16 elements from the lowest bit, padded with ones to 16 bytes."""
    rows = np.full((len(elements), 16), 0xFF, np.uint8)
    for row, values in zip(rows, elements, strict=True):
        number = sum(int(value) << bits * n for n, value in enumerate(values))
        row[: 2 * bits] = np.frombuffer(number.to_bytes(2 * bits, "little"), np.uint8)
    return rows


@pytest.mark.parametrize("source", PACKED)
@pytest.mark.parametrize(("shape", "count"), [("m8n16", 1), ("m8n16", 2), ("m8n16", 4), ("m16n16", 1), ("m16n16", 2)])
def test_ldmatrix_unpacks_rows_of_fewer_bits_into_bytes(shape, count, source, rng) -> None:
    # Rows lie 16 bytes apart, in an order that lanes do not share. Two warps load from places of their own.
    elements = rng.integers(0, 1 << PACKED[source], (64, 16), dtype=np.uint8)
    rows, words = _packed_rows(elements, PACKED[source]), count * (2 if shape == "m16n16" else 1)
    got = np.zeros((64, words), np.uint32)
    registers = ",".join(f"%r{8 + j}" for j in range(words))
    stores = "".join(f"st.global.b32 [%d3+{4 * j}], %r{8 + j};" for j in range(words))
    trans = ".trans" if shape == "m16n16" else ""
    body = f"""{LANE} ld.param.u64 %d4, [p1]; mov.u32 %r2, dyn; mad.lo.u32 %r3, %r1, 16, %r2;
    mad.wide.u32 %d5, %r1, 16, %d1; ld.global.v4.b32 {{%r4,%r5,%r6,%r7}}, [%d5];
    st.shared.v4.b32 [%r3], {{%r4,%r5,%r6,%r7}}; bar.warp.sync -1; xor.b32 %r3, %r3, 48;
    ldmatrix.sync.aligned.{shape}.x{count}{trans}.shared.b8x16.{source} {{{registers}}}, [%r3];
    mad.wide.u32 %d3, %r1, {4 * words}, %d4; {stores}"""
    assert not run_kernel(body, rows, got, threads=64, shared=1024, checks=("race", "uninitialised")).findings
    named = elements[np.arange(64) ^ 3].reshape(2, 32, 16)  # by warp and lane: the row whose address it gives
    for warp, lane, j in np.ndindex(2, 32, words):
        if shape == "m8n16":
            want = named[warp, 8 * j + lane // 4, lane % 4 * 4 :][:4]
        else:
            want = named[warp, 16 * (j // 2) + lane % 4 * 4 :][:4, lane // 4 + 8 * (j % 2)]
        assert got[32 * warp + lane, j] == want.copy().view(np.uint32)[0], (warp, lane, j)


@pytest.mark.parametrize(
    "form", ["m8n16.x1.shared.b8", "m16n16.x1.shared.b8x16.b4x16_p64", "m16n16.x4.trans.shared.b8x16.b4x16_p64"]
)
def test_ldmatrix_in_a_form_that_ptx_does_not_have_is_refused(form) -> None:
    body = f"mov.u32 %r2, dyn; ldmatrix.sync.aligned.{form} {{%r3}}, [%r2];"
    with pytest.raises(ptxsim.PtxError, match="ldmatrix"):
        run_kernel(body, np.zeros(1, np.uint32), shared=1024)


def test_dropped_arrivals_are_not_expected_again() -> None:
    # Two threads make the first phase, one of which drops out. The other makes the second alone.
    done = np.zeros(1, np.uint32)
    body = """mov.u32 %r1, %tid.x; mov.u32 %r2, dyn; ld.param.u64 %d1, [p0]; setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared.b64 [%r2], 2; bar.sync 0; @%p1 bra STAYS;
    mbarrier.arrive_drop.shared.b64 %d3, [%r2]; bra END;
    STAYS: mbarrier.arrive.shared.b64 %d3, [%r2];
    L: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra L; mbarrier.arrive.shared.b64 %d3, [%r2];
    M: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 1; @!%p2 bra M; mov.u32 %r3, 7; st.global.b32 [%d1], %r3;
    END:"""
    assert not run_kernel(body, done, threads=2, shared=64).findings
    assert done[0] == 7
    kept = run_kernel(body.replace("arrive_drop", "arrive"), done, threads=2, shared=64)
    assert [finding.kind for finding in kept.findings] == ["deadlock"]


def test_an_arrival_that_must_not_complete_a_phase_is_found_when_it_does() -> None:
    body = """mov.u32 %r2, dyn; mbarrier.init.shared.b64 [%r2], 2;
    mbarrier.arrive.noComplete.shared.b64 %d3, [%r2], COUNT;"""
    assert not run_kernel(body.replace("COUNT", "1"), threads=1, shared=64).findings
    (finding,) = run_kernel(body.replace("COUNT", "2"), threads=1, shared=64).findings
    assert finding.kind == "barrier" and ".noComplete completes the phase" in finding.message


def test_scales_are_made_of_pairs_of_bf16() -> None:
    """1 and 3 toward zero and up; an infinity saturates, a NaN is 255."""
    values = np.array([1.0, 3.0, np.inf, np.nan] * 8, np.float32)
    pairs = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint32).copy()
    got = np.zeros((2, 16), np.uint16)
    body = f"""{LANE} ld.param.u64 %d3, [p1]; ld.global.b32 %r2, [%d2]; mad.wide.u32 %d4, %r1, 2, %d3;
    cvt.rz.satfinite.ue8m0x2.bf16x2 %h1, %r2; st.global.b16 [%d4], %h1;
    cvt.rp.satfinite.ue8m0x2.bf16x2 %h1, %r2; st.global.b16 [%d4+32], %h1;"""
    assert not run_kernel(body, pairs, got, threads=16).findings
    np.testing.assert_array_equal(got[0].view(np.uint8)[:4], [127, 128, 254, 255])
    np.testing.assert_array_equal(got[1].view(np.uint8)[:4], [127, 129, 254, 255])


def test_fixed_point_pairs_are_scaled_to_bf16() -> None:
    """Scale -128, 127, -1 and 64 by 1/64, times 64 and 2; then relu."""
    codes, got = np.array([-128, 127, -1, 64] * 8, np.int8), np.zeros((3, 32), np.uint16)
    body = """mov.u32 %r1, %tid.x; ld.param.u64 %d1, [p0]; ld.param.u64 %d3, [p1]; mad.wide.u32 %d2, %r1, 2, %d1;
    ld.global.b16 %h1, [%d2]; mad.wide.u32 %d4, %r1, 4, %d3; mov.b16 %h2, 0x8085;
    cvt.rn.satfinite.scaled::n2::ue8m0.bf16x2.s2f6x2 %r2, %h1, %h2; st.global.b32 [%d4], %r2;
    cvt.rn.relu.bf16x2.s2f6x2 %r2, %h1; st.global.b32 [%d4+64], %r2; mov.b16 %h2, 0xffff;
    cvt.rn.satfinite.scaled::n2::ue8m0.bf16x2.s2f6x2 %r2, %h1, %h2; st.global.b32 [%d4+128], %r2;"""
    assert not run_kernel(body, codes.view(np.uint16), got, threads=16).findings
    values = (got.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(values[0, :4], [-128, 127 / 32, -1, 2])
    np.testing.assert_array_equal(values[1, :4], [0, 127 / 64, 0, 1])
    assert np.isnan(values[2]).all()


REPLACES = """tensormap.replace.tile.global_address.SPACE.b1024.b64 [ADDRESS], %d6;
tensormap.replace.tile.global_dim.SPACE.b1024.b32 [ADDRESS], 0, 32;
tensormap.replace.tile.global_dim.SPACE.b1024.b32 [ADDRESS], 1, %r11;
tensormap.replace.tile.global_stride.SPACE.b1024.b64 [ADDRESS], 0, %d7;"""
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%d4], 128;"
RELEASE = "fence.proxy.tensormap::generic.release.gpu;"
IN_SHARED = f"""ld.global.b64 %d8, [%d5]; mov.u64 %d20, 0;
mad.lo.u32 %r12, %r1, 8, %r2; mad.wide.u32 %d9, %r1, 8, %d5; setp.ge.u32 %p4, %r1, 16; @%p4 bra COPIED;
ld.global.b64 %d10, [%d9]; st.shared.b64 [%r12], %d10; COPIED: bar.warp.sync -1; @!%p1 bra REPLACED;
{REPLACES.replace("SPACE", "shared::cta").replace("ADDRESS", "%r2")} REPLACED: bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d4], [%r2], 128;"""
IN_GLOBAL = f"@!%p1 bra DONE; {REPLACES.replace('SPACE', 'global').replace('ADDRESS', '%d4')} DONE: bar.warp.sync -1;"


def _load_through_a_changed_map(change: str, fences: str):
    """Load a 4x32 box of y through x's descriptor; return data and findings.

    p0 is the output, p1 the descriptor that is used, p2 the one that was made, p3 y; rows of y are 128 bytes apart.
    """
    x, y = np.zeros((8, 32), np.float16), np.arange(8 * 64, dtype=np.float16).reshape(8, 64)
    out, made = np.zeros((4, 32), np.float16), tensor_map(x, (32, 4))
    raw = np.zeros(384, np.uint8)
    start = -raw.ctypes.data % 128
    used = raw[start : start + 128]
    used[:] = made
    body = f"""mov.u32 %r1, %tid.x; mov.u32 %r2, dyn; setp.eq.u32 %p1, %r1, 0; mov.u32 %r11, 3; mov.u64 %d7, 128;
    ld.param.u64 %d1, [p0]; ld.param.u64 %d4, [p1]; ld.param.u64 %d5, [p2]; ld.param.u64 %d6, [p3];
    add.u32 %r3, %r2, 1024; add.u32 %r4, %r2, 512; @%p1 mbarrier.init.shared.b64 [%r4], 1;
    @%p1 fence.mbarrier_init.release.cluster; {change} {fences} bar.warp.sync -1; @!%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared.b64 %d3, [%r4], 256;
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r3], [%d4, {{0, 0}}], [%r4];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; @!%p2 bra WAIT;
    mad.lo.u32 %r5, %r1, 8, %r3; ld.shared.b64 %d11, [%r5]; mad.wide.u32 %d12, %r1, 8, %d1; st.global.b64 [%d12], %d11;
    """
    result = run_kernel(body, out, used, made, y, shared=2048, checks=("race", "uninitialised"))
    return out, y, result.findings


@pytest.mark.parametrize(("change", "fences"), [(IN_SHARED, ACQUIRE), (IN_GLOBAL, RELEASE + ACQUIRE)])
def test_a_box_is_loaded_through_the_changed_descriptor(change, fences) -> None:
    out, y, findings = _load_through_a_changed_map(change, fences)
    assert not findings, [str(finding) for finding in findings]
    np.testing.assert_array_equal(out[:3], y[:3, :32])
    assert (out[3] == 0).all()  # past the new size


@pytest.mark.parametrize(
    ("change", "fences", "missing"),
    [(IN_SHARED, "", "acquire"), (IN_GLOBAL, ACQUIRE, "release"), (IN_GLOBAL, RELEASE, "acquire")],
)
def test_a_changed_descriptor_used_without_its_fences_is_a_race(change, fences, missing) -> None:
    findings = _load_through_a_changed_map(change, fences)[2]
    assert findings[0].kind == "race" and f"tensormap::generic.{missing}" in findings[0].message


def test_a_warp_copies_what_one_lane_changed_only_after_a_barrier_of_the_warp() -> None:
    change = IN_SHARED.replace("REPLACED: bar.warp.sync -1;", "REPLACED:")
    (finding,) = _load_through_a_changed_map(change, ACQUIRE)[2]
    assert finding.kind == "race" and "a descriptor that lane 0 changed" in finding.message


def test_a_field_of_a_descriptor_that_is_not_simulated_says_so() -> None:
    body = "mov.u32 %r2, dyn; tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r2], 0, 1;"
    with pytest.raises(ptxsim.PtxError, match="element_stride"):
        run_kernel(body, shared=1024)


def test_four_bit_elements_are_counted_in_pairs() -> None:
    assert _in_pairs("a", (6, 64), (64, 1)) == ((6, 32), (32, 1))
    assert _in_pairs("a", (64, 6, 2), (1, 64, 384)) == ((32, 6, 2), (1, 32, 192))
    with pytest.raises(ptxsim.CaptureError, match=r"a: shape \(6, 63\).*do not come in pairs"):
        _in_pairs("a", (6, 63), (63, 1))


class To(NamedTuple):
    target: np.ndarray
    more: int


@pytest.mark.slow
def test_a_four_bit_tensor_is_an_argument_in_either_spelling_and_so_are_tuples(tmp_path) -> None:
    pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
    torch = pytest.importorskip("torch")
    script = Path(__file__).with_name("four_bit_kernel.py")
    subprocess.run([sys.executable, script, tmp_path], check=True, capture_output=True, timeout=120)
    module = ptxsim.Module.from_file(tmp_path / "kernel.ptx")
    raw = torch.arange(64, dtype=torch.uint8).reshape(2, 32)
    spellings = (
        ptxsim.Tensor(raw, "float4_e2m1fn", (2, 64)),
        ptxsim.Tensor(raw, "float4_e2m1fn_x2", (2, 32)),
        raw.view(torch.float4_e2m1fn_x2),
    )
    for pairs in spellings:
        to = To(np.zeros(32, np.int8), 3)
        (launch,) = ptxsim.capture(tmp_path / "kernel.o", "copy_bytes", (pairs, to, (5, 7)), module)
        assert ptxsim.run(launch).ok and "to.target" in {x.name for x in launch.memory.allocations}
        np.testing.assert_array_equal(to.target, raw.numpy().ravel()[:32] + 10)
    with pytest.raises(ptxsim.CaptureError, match="expected to be 32"):
        wider = ptxsim.Tensor(raw, "float4_e2m1fn", (2, 128))
        ptxsim.capture(tmp_path / "kernel.o", "copy_bytes", (wider, to, (5, 7)), module)
