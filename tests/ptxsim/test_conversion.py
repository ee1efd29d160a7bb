"""cvt between all formats, against torch's own conversions and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from test_arithmetic import N, floats, through

from ptxsim.isa import numeric

torch = pytest.importorskip("torch", reason="the reference is torch's own conversion")


@pytest.mark.parametrize("mode,want", [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)])
@pytest.mark.parametrize("to,info", [("s32", np.int32), ("u32", np.uint32), ("u16", np.uint16)])
def test_float_to_integer_clamps(mode, want, to, info) -> None:
    x = floats(1)
    x[10:20] = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3e9, -3e9, 70000, -1, 4294967040.0], np.float32)
    limits = np.iinfo(info)
    with np.errstate(all="ignore"):
        y = np.clip(
            np.nan_to_num(want(x.astype(np.float64)), nan=0.0, posinf=limits.max, neginf=limits.min),
            limits.min,
            limits.max,
        )
    got = through(f"cvt.{mode}.{to}.f32 {{d}}, {{0}};", info, x)
    np.testing.assert_array_equal(got, y.astype(np.int64).astype(info))


@pytest.mark.parametrize("source,kind", [("s32", np.int32), ("u32", np.uint32), ("s64", np.int64)])
def test_integer_to_float(source, kind) -> None:
    x = np.random.default_rng(1).integers(0, 256, N * np.dtype(kind).itemsize, dtype=np.uint8).view(kind)
    np.testing.assert_array_equal(through(f"cvt.rn.f32.{source} {{d}}, {{0}};", np.float32, x), x.astype(np.float32))


def test_halves_pack_high_first() -> None:
    hi, lo = floats(1), floats(2)
    with np.errstate(all="ignore"):
        got = through("cvt.rn.f16x2.f32 {d}, {0}, {1};", np.uint32, hi, lo).view(np.float16).reshape(N, 2)
        np.testing.assert_array_equal(got[:, 0], lo.astype(np.float16))
        np.testing.assert_array_equal(got[:, 1], hi.astype(np.float16))
    got = through("cvt.rn.bf16x2.f32 {d}, {0}, {1};", np.uint32, hi, lo).view(np.int16)
    got = torch.from_numpy(got.copy()).view(torch.bfloat16).reshape(N, 2)
    want = torch.stack([torch.from_numpy(lo), torch.from_numpy(hi)], 1).bfloat16()
    assert torch.equal(got.nan_to_num(7), want.nan_to_num(7))


def test_bf16_rounding_of_every_kind() -> None:
    bits = np.arange(0, 1 << 32, 977, dtype=np.uint64).astype(np.uint32)
    got = torch.from_numpy(numeric.f32_to_bf16(bits.view(np.float32)).view(np.int16).copy()).view(torch.bfloat16)
    want = torch.from_numpy(bits.view(np.float32).copy()).bfloat16()
    assert torch.equal(got.nan_to_num(7), want.nan_to_num(7))


@pytest.mark.parametrize("fmt,dtype", [("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)])
def test_fp8_tables_and_rounding(fmt, dtype) -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(dtype)
    assert torch.equal(torch.from_numpy(numeric.TABLES[fmt]).nan_to_num(7, 8, 9), codes.float().nan_to_num(7, 8, 9))
    x = np.concatenate([np.linspace(-500, 500, 4001), np.linspace(-0.1, 0.1, 2001), [np.nan, np.inf, -np.inf]]).astype(
        np.float32
    )
    got = numeric.f32_to_small(x, fmt)
    top = float(torch.finfo(dtype).max)
    want = torch.from_numpy(np.clip(x, -top, top)).to(dtype).view(torch.uint8).numpy()
    nan = np.isnan(x)
    np.testing.assert_array_equal(got[~nan], want[~nan])
    assert np.isnan(numeric.TABLES[fmt][got[nan]]).all()


def test_fp8_packs_high_first() -> None:
    hi, lo = floats(1)[8:].repeat(2)[:N], floats(2)[8:].repeat(2)[:N]
    hi, lo = np.resize(hi, N).astype(np.float32), np.resize(lo, N).astype(np.float32)
    got = through("cvt.rn.satfinite.e4m3x2.f32 {d}, {0}, {1};", np.uint16, hi, lo)
    np.testing.assert_array_equal(got & 255, numeric.f32_to_small(lo, "e4m3"))
    np.testing.assert_array_equal(got >> 8, numeric.f32_to_small(hi, "e4m3"))
    back = through("cvt.rn.f16x2.e4m3x2 {d}, {0};", np.uint32, got).view(np.float16).reshape(N, 2)
    np.testing.assert_array_equal(back[:, 1], numeric.TABLES["e4m3"][got >> 8].astype(np.float16))


@pytest.mark.parametrize("fmt", ["e2m1", "e3m2", "e2m3"])
def test_small_formats_round_to_nearest_even(fmt: str) -> None:
    table = numeric.TABLES[fmt]
    x = np.linspace(-table.max() * 1.2, table.max() * 1.2, 5001).astype(np.float32)
    got = table[numeric.f32_to_small(x, fmt)]
    best = np.abs(table[None, :] - np.clip(x, -table.max(), table.max())[:, None]).min(1)
    np.testing.assert_array_equal(np.abs(got - np.clip(x, -table.max(), table.max())), best)
    half = table[: len(table) // 2]
    ties = ((half[:-1] + half[1:]) / 2).astype(np.float32)
    assert (numeric.f32_to_small(ties, fmt) % 2 == 0).all()


def test_scale_codes() -> None:
    x = np.array([1.0, 1.5, 2.0, 3.0, 2.0**-127, 0.0, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(numeric.f32_to_ue8m0(x, "rp"), [127, 128, 128, 129, 0, 0, 254, 255])
    np.testing.assert_array_equal(numeric.f32_to_ue8m0(x, "rz"), [127, 127, 128, 128, 0, 0, 254, 255])


def test_tf32() -> None:
    x = np.array([1.0, 1 + 2.0**-11, 1 + 2.0**-12, 1 + 3 * 2.0**-11], np.float32)
    np.testing.assert_array_equal(
        numeric.f32_to_tf32(x, "rna"), np.array([1, 1 + 2.0**-10, 1, 1 + 2 * 2.0**-10], np.float32)
    )
    np.testing.assert_array_equal(numeric.f32_to_tf32(x, "rn"), np.array([1, 1, 1, 1 + 2 * 2.0**-10], np.float32))
