"""Every ordinary opcode against numpy or exact Python arithmetic, lane by lane."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from snippets import run_kernel

from ptxsim.isa import hopper_product
from ptxsim.isa.hopper_product import approximate_sums, multiply

N = 64
EDGES32 = np.array(
    [0, 1, 2, 3, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFF, 0x10000, 0x12345678], np.uint32
)


def words(seed: int, dtype) -> np.ndarray:
    rng = np.random.default_rng(seed)
    size = np.dtype(dtype).itemsize
    raw = rng.integers(0, 256, N * size, dtype=np.uint8).view(f"u{size}")
    if size == 4:
        raw[: len(EDGES32)] = np.roll(EDGES32, seed)
    return raw.view(dtype)


def floats(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(N) * 2.0 ** rng.integers(-20, 20, N)).astype(np.float32)
    x[:8] = np.roll(np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40], np.float32), seed)
    return x


def through(op: str, out, *sources: np.ndarray) -> np.ndarray:
    """Run `op` over the sources; operands are written {0}, {1}, ... and the result {d}."""
    letter = {1: "r", 2: "h", 4: "r", 8: "d"}
    lines = ["mov.u32 %r60, %tid.x;"]
    names = {}
    for n, s in enumerate(sources):
        size = s.dtype.itemsize
        reg = f"%{letter[size]}{n + 1}"
        lines += [
            f"ld.param.u64 %d5{n}, [p{n}];",
            f"mad.wide.u32 %d5{n}, %r60, {size}, %d5{n};",
            f"ld.global.{'b' if size > 1 else 'u'}{8 * size} {reg}, [%d5{n}];",
        ]
        names[str(n)] = reg
    size = np.dtype(out).itemsize
    dst = f"%{letter[size]}20"
    text = op.replace("{d}", dst)
    for n, reg in names.items():
        text = text.replace(f"{{{n}}}", reg)
    k = len(sources)
    lines += [
        text,
        f"ld.param.u64 %d59, [p{k}];",
        f"mad.wide.u32 %d59, %r60, {size}, %d59;",
        f"st.global.{'b' if size > 1 else 'u'}{8 * size} [%d59], {dst};",
    ]
    result = np.zeros(N, out)
    got = run_kernel("\n".join(lines), *sources, result, threads=N)
    assert not got.findings
    return result


def shl(a, n):
    return (a.astype(object) << np.minimum(n, 64).astype(object)).astype(object) & 0xFFFFFFFF


INTEGER = [
    ("add.s32 {d}, {0}, {1};", np.int32, (np.int32, np.int32), lambda a, b: a + b),
    ("sub.s32 {d}, {0}, {1};", np.int32, (np.int32, np.int32), lambda a, b: a - b),
    ("add.s64 {d}, {0}, {1};", np.int64, (np.int64, np.int64), lambda a, b: a + b),
    ("add.s16 {d}, {0}, {1};", np.int16, (np.int16, np.int16), lambda a, b: a + b),
    ("mul.lo.s32 {d}, {0}, {1};", np.int32, (np.int32, np.int32), lambda a, b: a * b),
    (
        "mul.hi.s32 {d}, {0}, {1};",
        np.int32,
        (np.int32, np.int32),
        lambda a, b: ((a.astype(np.int64) * b) >> 32).astype(np.int32),
    ),
    (
        "mul.hi.u32 {d}, {0}, {1};",
        np.uint32,
        (np.uint32, np.uint32),
        lambda a, b: ((a.astype(np.uint64) * b) >> np.uint64(32)).astype(np.uint32),
    ),
    ("mul.wide.s32 {d}, {0}, {1};", np.int64, (np.int32, np.int32), lambda a, b: a.astype(np.int64) * b),
    ("mul.wide.u32 {d}, {0}, {1};", np.uint64, (np.uint32, np.uint32), lambda a, b: a.astype(np.uint64) * b),
    ("mul.lo.s64 {d}, {0}, {1};", np.int64, (np.int64, np.int64), lambda a, b: a * b),
    (
        "mul.hi.u64 {d}, {0}, {1};",
        np.uint64,
        (np.uint64, np.uint64),
        lambda a, b: np.array([int(x) * int(y) >> 64 for x, y in zip(a, b, strict=False)], np.uint64),
    ),
    (
        "mul.hi.s64 {d}, {0}, {1};",
        np.int64,
        (np.int64, np.int64),
        lambda a, b: np.array([int(x) * int(y) >> 64 for x, y in zip(a, b, strict=False)], np.int64),
    ),
    ("mad.lo.s32 {d}, {0}, {1}, {2};", np.int32, (np.int32,) * 3, lambda a, b, c: a * b + c),
    (
        "mad.hi.s32 {d}, {0}, {1}, {2};",
        np.int32,
        (np.int32,) * 3,
        lambda a, b, c: ((a.astype(np.int64) * b) >> 32).astype(np.int32) + c,
    ),
    (
        "mad.wide.u32 {d}, {0}, {1}, {2};",
        np.uint64,
        (np.uint32, np.uint32, np.uint64),
        lambda a, b, c: a.astype(np.uint64) * b + c,
    ),
    ("min.s32 {d}, {0}, {1};", np.int32, (np.int32, np.int32), np.minimum),
    ("max.u32 {d}, {0}, {1};", np.uint32, (np.uint32, np.uint32), np.maximum),
    ("abs.s32 {d}, {0};", np.int32, (np.int32,), np.abs),
    ("neg.s32 {d}, {0};", np.int32, (np.int32,), np.negative),
    ("and.b32 {d}, {0}, {1};", np.uint32, (np.uint32, np.uint32), np.bitwise_and),
    ("or.b64 {d}, {0}, {1};", np.uint64, (np.uint64, np.uint64), np.bitwise_or),
    ("xor.b16 {d}, {0}, {1};", np.uint16, (np.uint16, np.uint16), np.bitwise_xor),
    ("not.b32 {d}, {0};", np.uint32, (np.uint32,), np.invert),
    (
        "shl.b32 {d}, {0}, {1};",
        np.uint32,
        (np.uint32, np.uint32),
        lambda a, n: np.where(n < 32, a << (n & np.uint32(31)), 0),
    ),
    (
        "shr.u32 {d}, {0}, {1};",
        np.uint32,
        (np.uint32, np.uint32),
        lambda a, n: np.where(n < 32, a >> (n & np.uint32(31)), 0),
    ),
    ("shr.s32 {d}, {0}, {1};", np.int32, (np.int32, np.uint32), lambda a, n: a >> np.minimum(n, 31).astype(np.int32)),
    (
        "shl.b64 {d}, {0}, {1};",
        np.uint64,
        (np.uint64, np.uint32),
        lambda a, n: np.where(n < 64, a << (n & np.uint32(63)).astype(np.uint64), np.uint64(0)),
    ),
    ("shr.s64 {d}, {0}, {1};", np.int64, (np.int64, np.uint32), lambda a, n: a >> np.minimum(n, 63).astype(np.int64)),
    ("shl.b32 {d}, {0}, 40;", np.uint32, (np.uint32,), lambda a: a * np.uint32(0)),
    ("popc.b32 {d}, {0};", np.uint32, (np.uint32,), lambda a: np.array([bin(x).count("1") for x in a], np.uint32)),
    (
        "clz.b32 {d}, {0};",
        np.uint32,
        (np.uint32,),
        lambda a: np.array([32 - int(x).bit_length() for x in a], np.uint32),
    ),
    (
        "brev.b32 {d}, {0};",
        np.uint32,
        (np.uint32,),
        lambda a: np.array([int(f"{x:032b}"[::-1], 2) for x in a], np.uint32),
    ),
    (
        "bfind.u32 {d}, {0};",
        np.uint32,
        (np.uint32,),
        lambda a: np.array([(int(x).bit_length() - 1) & 0xFFFFFFFF for x in a], np.uint32),
    ),
    ("bfe.u32 {d}, {0}, 5, 11;", np.uint32, (np.uint32,), lambda a: a >> np.uint32(5) & np.uint32(2047)),
    ("bfe.s32 {d}, {0}, 5, 11;", np.int32, (np.int32,), lambda a: (a << 16) >> 21),
    (
        "bfi.b32 {d}, {0}, {1}, 8, 12;",
        np.uint32,
        (np.uint32, np.uint32),
        lambda a, b: b & ~np.uint32(0xFFF00) | (a & np.uint32(0xFFF)) << np.uint32(8),
    ),
    ("lop3.b32 {d}, {0}, {1}, {2}, 0xCA;", np.uint32, (np.uint32,) * 3, lambda a, b, c: a & b | ~a & c),
    (
        "shf.l.wrap.b32 {d}, {0}, {1}, 7;",
        np.uint32,
        (np.uint32, np.uint32),
        lambda lo, hi: hi << np.uint32(7) | lo >> np.uint32(25),
    ),
    (
        "shf.r.wrap.b32 {d}, {0}, {1}, 7;",
        np.uint32,
        (np.uint32, np.uint32),
        lambda lo, hi: hi << np.uint32(25) | lo >> np.uint32(7),
    ),
    (
        "prmt.b32 {d}, {0}, {1}, 0x7531;",
        np.uint32,
        (np.uint32, np.uint32),
        lambda a, b: np.stack([a, b], 1).view(np.uint8)[:, 1::2].copy().view(np.uint32).ravel(),
    ),
    ("cvt.s64.s32 {d}, {0};", np.int64, (np.int32,), lambda a: a.astype(np.int64)),
    ("cvt.u64.u32 {d}, {0};", np.uint64, (np.uint32,), lambda a: a.astype(np.uint64)),
    ("cvt.u32.u64 {d}, {0};", np.uint32, (np.uint64,), lambda a: a.astype(np.uint32)),
    ("cvt.s32.s16 {d}, {0};", np.int32, (np.int16,), lambda a: a.astype(np.int32)),
    ("cvt.u16.u32 {d}, {0};", np.uint16, (np.uint32,), lambda a: a.astype(np.uint16)),
    ("cvt.sat.u16.s32 {d}, {0};", np.uint16, (np.int32,), lambda a: np.clip(a, 0, 65535).astype(np.uint16)),
]


@pytest.mark.parametrize("op,out,kinds,want", INTEGER, ids=[x[0].split()[0] + str(n) for n, x in enumerate(INTEGER)])
def test_integer(op, out, kinds, want) -> None:
    sources = [words(n + 1, k) for n, k in enumerate(kinds)]
    with np.errstate(all="ignore"):
        expected = want(*sources)
    np.testing.assert_array_equal(through(op, out, *sources), expected)


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64])
def test_division_truncates(kind) -> None:
    a, b = words(1, kind), words(2, kind)
    b[b == 0] = 3
    name = {"i": "s", "u": "u"}[np.dtype(kind).kind] + str(8 * np.dtype(kind).itemsize)
    bits = 8 * np.dtype(kind).itemsize

    def wrap(x: int) -> int:
        return x & ((1 << bits) - 1)

    q = [wrap(abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1)) for x, y in zip(a, b, strict=False)]
    r = [
        wrap(int(x) - (abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1)) * int(y))
        for x, y in zip(a, b, strict=False)
    ]
    u = f"u{bits // 8}"
    np.testing.assert_array_equal(through(f"div.{name} {{d}}, {{0}}, {{1}};", kind, a, b).view(u), np.array(q, u))
    np.testing.assert_array_equal(through(f"rem.{name} {{d}}, {{0}}, {{1}};", kind, a, b).view(u), np.array(r, u))


def exact_fma(a: float, b: float, c: float) -> np.float32:
    """fma rounded once, through exact rationals."""
    if not all(map(math.isfinite, (a, b, c))):
        return np.float32(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return np.float32(a * b + c)
    near = np.float32(float(exact))
    options = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    options = [x for x in options if np.isfinite(x)]
    if not options or abs(exact) > Fraction(float(np.finfo(np.float32).max)):
        return near
    best = min(abs(Fraction(float(x)) - exact) for x in options)
    ties = [x for x in options if abs(Fraction(float(x)) - exact) == best]
    return next((x for x in ties if not x.view(np.uint32) & 1), ties[0])


def test_fma_rounds_once() -> None:
    rng = np.random.default_rng(5)
    a, b = floats(1), floats(2)
    c = floats(3)
    # midpoint cases: the product plus c lies at, or just next to, half a unit in the last place of a float32
    a[10:40] = rng.integers(1 << 23, 1 << 24, 30).astype(np.float32)
    b[10:40] = np.float32(1 + 2.0**-23)
    c[10:40] = rng.choice([2.0**-30, -(2.0**-30), 0.5, -0.5, 2.0**-60], 30).astype(np.float32)
    a[40:50], b[40:50], c[40:50] = np.float32(2.0**-75), np.float32(1.5 * 2.0**-74), np.float32(2.0**-149)
    with np.errstate(all="ignore"):
        want = np.array([exact_fma(*map(float, x)) for x in zip(a, b, c, strict=False)], np.float32)
    got = through("fma.rn.f32 {d}, {0}, {1}, {2};", np.float32, a, b, c)
    np.testing.assert_array_equal(got, want)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "mul"])
def test_directed_rounding(op: str, mode: str) -> None:
    a, b = floats(1), floats(2)
    a[:8], b[:8] = 1.5, 2.0**-30
    got = through(f"{op}.{mode}.f32 {{d}}, {{0}}, {{1}};", np.float32, a, b)
    for x, y, g in zip(a, b, got, strict=False):
        exact = Fraction(float(x)) + Fraction(float(y)) if op == "add" else Fraction(float(x)) * Fraction(float(y))
        down = Fraction(float(g)) <= exact
        toward = {"rz": exact >= 0, "rm": True, "rp": False}[mode]
        assert Fraction(float(g)) == exact or down == toward
        step = np.nextafter(g, np.float32(np.inf if toward else -np.inf))
        assert Fraction(float(g)) == exact or (Fraction(float(step)) > exact) == toward


FLOAT = [
    ("add.f32 {d}, {0}, {1};", 2, lambda a, b: a + b),
    ("sub.rn.f32 {d}, {0}, {1};", 2, lambda a, b: a - b),
    ("mul.f32 {d}, {0}, {1};", 2, lambda a, b: a * b),
    ("div.rn.f32 {d}, {0}, {1};", 2, lambda a, b: a / b),
    ("sqrt.rn.f32 {d}, {0};", 1, np.sqrt),
    ("abs.f32 {d}, {0};", 1, np.abs),
    ("neg.f32 {d}, {0};", 1, np.negative),
    ("min.f32 {d}, {0}, {1};", 2, np.fmin),
    ("max.NaN.f32 {d}, {0}, {1};", 2, np.maximum),
    ("cvt.rni.f32.f32 {d}, {0};", 1, np.rint),
    ("cvt.rzi.f32.f32 {d}, {0};", 1, np.trunc),
    ("copysign.f32 {d}, {0}, {1};", 2, lambda a, b: np.copysign(b, a)),
]


@pytest.mark.parametrize("op,n,want", FLOAT, ids=[x[0].split()[0] for x in FLOAT])
def test_float(op, n, want) -> None:
    sources = [floats(k + 1) for k in range(n)]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(through(op, np.float32, *sources), want(*sources).astype(np.float32))


@pytest.mark.parametrize(
    "op,reference,bound",
    [
        ("ex2.approx.ftz.f32", np.exp2, 2.0**-21),
        ("lg2.approx.ftz.f32", np.log2, 2.0**-20),
        ("rcp.approx.ftz.f32", lambda x: 1 / x, 2.0**-22),
        ("rsqrt.approx.ftz.f32", lambda x: x**-0.5, 2.0**-22),
        ("sqrt.approx.f32", np.sqrt, 2.0**-22),
        ("tanh.approx.f32", np.tanh, 2.0**-10),
        ("sin.approx.f32", np.sin, 2.0**-20),
    ],
)
def test_approximations_stay_inside_their_bound(op, reference, bound) -> None:
    x = np.linspace(0.01, 3, N).astype(np.float32)
    want = reference(x.astype(np.float64))
    got = through(f"{op} {{d}}, {{0}};", np.float32, x)
    assert np.max(np.abs(got - want) / np.maximum(np.abs(want), 1e-2)) < bound


def test_zero_signs_of_min_and_max() -> None:
    a, b = np.zeros(N, np.float32), np.full(N, -0.0, np.float32)
    assert not np.signbit(through("max.f32 {d}, {0}, {1};", np.float32, b, a)).any()
    assert np.signbit(through("min.f32 {d}, {0}, {1};", np.float32, a, b)).all()


def test_flush_to_zero() -> None:
    x = np.full(N, 1e-40, np.float32)
    assert (through("add.ftz.f32 {d}, {0}, {1};", np.float32, x, x) == 0).all()
    assert (through("add.f32 {d}, {0}, {1};", np.float32, x, x) != 0).all()


@pytest.mark.parametrize("op", ["add", "mul", "fma"])
def test_packed_f32x2(op: str) -> None:
    a, b, c = (np.stack([floats(k), floats(k + 3)], 1) for k in (1, 2, 3))
    ops = (a, b) if op != "fma" else (a, b, c)
    got = (
        through(
            f"{op}.rn.f32x2 {{d}}, {', '.join(f'{{{k}}}' for k in range(len(ops)))};",
            np.uint64,
            *(np.ascontiguousarray(x).view(np.uint64).ravel() for x in ops),
        )
        .view(np.float32)
        .reshape(N, 2)
    )
    with np.errstate(all="ignore"):
        if op == "fma":
            want = np.array(
                [[exact_fma(*map(float, v)) for v in zip(*row, strict=False)] for row in zip(a, b, c, strict=False)],
                np.float32,
            )
        else:
            want = a + b if op == "add" else a * b
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
def test_packed_halves(kind: str) -> None:
    torch = pytest.importorskip("torch", reason="the reference is torch's own arithmetic")
    dtype = torch.float16 if kind == "f16x2" else torch.bfloat16
    a, b = (torch.from_numpy(floats(k)[8:].repeat(2)[: 2 * N]).to(dtype) for k in (1, 2))
    a, b = (torch.cat([x, x])[: 2 * N].contiguous() for x in (a, b))
    for op, want in (("add", a + b), ("mul", a * b), ("sub", a - b)):
        got = through(
            f"{op}.{kind} {{d}}, {{0}}, {{1}};",
            np.uint32,
            *(x.view(torch.int16).numpy().view(np.uint32) for x in (a, b)),
        )
        got = torch.from_numpy(got.view(np.int16)).view(dtype)
        assert torch.equal(got.nan_to_num(7), want.nan_to_num(7)), op


def test_carry_chain() -> None:
    a, b = words(1, np.uint64), words(2, np.uint64)
    text = (
        "mov.b64 {%r30,%r31}, {0}; mov.b64 {%r32,%r33}, {1}; add.cc.u32 %r34, %r30, %r32; addc.u32 %r35, %r31, %r33;"
        "mov.b64 {d}, {%r34,%r35};"
    )
    np.testing.assert_array_equal(through(text, np.uint64, a, b), a + b)


COMPARE = [
    ("eq", lambda a, b: a == b),
    ("ne", lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b)),
    ("lt", lambda a, b: a < b),
    ("ge", lambda a, b: a >= b),
    ("neu", lambda a, b: a != b),
    ("ltu", lambda a, b: ~(a >= b)),
    ("num", lambda a, b: ~np.isnan(a) & ~np.isnan(b)),
    ("nan", lambda a, b: np.isnan(a) | np.isnan(b)),
]


@pytest.mark.parametrize("name,want", COMPARE, ids=[c[0] for c in COMPARE])
def test_float_comparisons(name, want) -> None:
    a, b = floats(1), floats(2)
    b[20:30] = a[20:30]
    got = through(f"setp.{name}.f32 %p1, {{0}}, {{1}}; selp.b32 {{d}}, 1, 0, %p1;", np.uint32, a, b)
    np.testing.assert_array_equal(got, want(a, b).astype(np.uint32))


def test_setp_combines_and_complements() -> None:
    a, b = words(1, np.int32), words(2, np.int32)
    got = through(
        "setp.gt.s32 %p1, {0}, 0; setp.lt.and.s32 %p2|%p3, {0}, {1}, %p1; selp.b32 %r40, 1, 0, %p2;"
        "selp.b32 %r41, 2, 0, %p3; or.b32 {d}, %r40, %r41;",
        np.uint32,
        a,
        b,
    )
    want = ((a < b) & (a > 0)).astype(np.uint32) + 2 * (~(a < b) & (a > 0))
    np.testing.assert_array_equal(got, want)


def test_products_are_summed_roughly_only_where_that_was_asked_for() -> None:
    # And then they are near. What looks at who does what, and not at numbers, needs no more.
    numbers = np.random.default_rng(1)
    a, b = (numbers.standard_normal((rows, 16)).astype(np.float32) for rows in (16, 24))
    c = numbers.standard_normal((16, 24)).astype(np.float32)
    exact = multiply(a, b, c, "bf16", "f32")
    with approximate_sums():
        near = multiply(a, b, c, "bf16", "f32")
        assert multiply(a, b, None, "f16", "f16").dtype == np.float16
    assert not np.array_equal(near, exact) and np.allclose(near, exact, atol=1e-4)
    assert np.array_equal(multiply(a, b, c, "bf16", "f32"), exact)


@pytest.mark.parametrize("warps", [1, 8])
def test_products_of_several_warps_are_those_of_each_warp(warps: int) -> None:
    numbers = np.random.default_rng(2)
    a, b, c = (
        numbers.standard_normal((warps, *x)).astype(np.float16).astype(np.float32) for x in ((16, 16), (8, 16), (16, 8))
    )
    a[0, 3] = np.inf
    together = multiply(a, b, c, "f16", "f32")
    wide = np.concatenate([b[0]] * 16)  # so wide that it is summed in another way
    for n in range(warps):
        np.testing.assert_array_equal(together[n], multiply(a[n], b[n], c[n], "f16", "f32"))
    np.testing.assert_array_equal(
        multiply(a[0], wide, None, "f16", "f32")[:, :8], multiply(a[0], b[0], None, "f16", "f32")
    )


def _noted(ways: list, result: np.ndarray | None) -> np.ndarray | None:
    ways.append(result)
    return result


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_products_by_matmul_equal_those_term_by_term(element: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, ways = np.random.default_rng(3), []
    by_matmul = hopper_product._by_matmul
    for spread in range(4):
        a, b = (
            (draw.standard_normal((64, 16)) * np.exp2(draw.integers(-spread, spread + 1, (64, 16)))).astype(np.float32)
            for _ in range(2)
        )
        a, b = ((x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) for x in (a, b))
        c = draw.standard_normal((64, 64)).astype(np.float32)
        a[0], b[1, :8] = 0, 0
        monkeypatch.setattr(hopper_product, "_by_matmul", lambda *x: _noted(ways, by_matmul(*x)))
        got = multiply(a, b, c, element, "f32")
        monkeypatch.setattr(hopper_product, "_by_matmul", lambda *x: None)
        assert got.tobytes() == multiply(a, b, c, element, "f32").tobytes()
    assert ways[0] is not None
