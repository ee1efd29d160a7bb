"""Generated PTX.

A program per ordinary opcode, its inputs, and how far the GPU's result may be from ptxsim's.

Each program applies its text to element t of every input in thread t of one CTA and stores `{d}`. Inputs begin with
every pair of the type's awkward values (NaN, infinities, subnormals, both zeros, the ends of the integer ranges).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

N = 512  # threads; the first 256 elements are the pairs of awkward values
HEAD = ".version 8.4\n.target sm_90a\n.address_size 64\n"
_INF, _NAN = np.inf, np.nan
_F32 = [0, -0.0, 1, -1, _INF, -_INF, _NAN, 1e-40, -1e-40, 3.4e38, 0.5, 1.5, 2.5, 65504, 448, -2.9e-39]
_F16 = [
    0,
    0x8000,
    0x3C00,
    0xBC00,
    0x7C00,
    0xFC00,
    0x7E00,
    1,
    0x8001,
    0x7BFF,
    0x3800,
    0x3E00,
    0x4100,
    0x3FF,
    0x400,
    0x5F00,
]
_BF16 = [
    0,
    0x8000,
    0x3F80,
    0xBF80,
    0x7F80,
    0xFF80,
    0x7FC0,
    1,
    0x8001,
    0x7F7F,
    0x3F00,
    0x3FC0,
    0x4020,
    0x7F,
    0x80,
    0x43E0,
]
_WHOLE = [
    0,
    1,
    2,
    5,
    31,
    32,
    33,
    63,
    64,
    255,
    0x7FFF,
    0x8000,
    0x7FFFFFFF,
    0x80000000,
    0x7FFF_FFFF_FFFF_FFFF,
    2**64 - 1,
]
# kind of an operand → (bits, numpy type, awkward values)
KINDS = {
    "b16": (16, np.uint16, _WHOLE),
    "b32": (32, np.uint32, [*_WHOLE[:12], 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF8000]),
    "b64": (64, np.uint64, _WHOLE),
    "f16": (16, np.uint16, _F16),
    "bf16": (16, np.uint16, _BF16),
    "f16x2": (32, np.uint32, [x | y << 16 for x, y in zip(_F16, _F16[3:] + _F16[:3], strict=True)]),
    "bf16x2": (32, np.uint32, [x | y << 16 for x, y in zip(_BF16, _BF16[3:] + _BF16[:3], strict=True)]),
    "f32": (32, np.float32, _F32),
    "f64": (64, np.float64, [*_F32[:7], 5e-324, -1e-310, 1.7e308, 1e-40, 1.5, 2.5, 3.5e38, 65520, -(2.0**63)]),
    "small": (32, np.uint32, list(range(16))),  # counts and amounts: the random half stays below 64
}


@dataclass(frozen=True)
class Program:
    """Fill `text` with {d}, sources {0}, {1}, … and the addresses {p0}, {p1}, ….

    `out` and `kinds` name types of KINDS. Floats may differ by `ulps` units in the last place, or by `absolute`.
    """

    text: str
    out: str
    kinds: tuple[str, ...]
    ulps: float = 0
    absolute: float = 0.0

    @property
    def name(self) -> str:
        return self.text.split("//")[-1].strip() if "//" in self.text else self.text

    def ptx(self) -> str:
        """A module whose kernel `k` takes a pointer per input and one for the result."""
        letter = {16: "h", 32: "r", 64: "d"}
        body, k, text = ["mov.u32 %r60, %tid.x;"], len(self.kinds), self.text.split("//")[0]
        for n, kind in enumerate((*self.kinds, self.out)):
            bits = KINDS[kind][0]
            register = f"%{letter[bits]}{n + 1 if n < k else 20}"
            body += [f"ld.param.u64 %d4{n}, [p{n}];", f"mad.wide.u32 %d5{n}, %r60, {bits // 8}, %d4{n};"]
            text = text.replace(f"{{p{n}}}", f"%d5{n}").replace(f"{{b{n}}}", f"%d4{n}")
            if n < k:
                body.append(f"ld.global.b{bits} {register}, [%d5{n}];")
                text = text.replace(f"{{{n}}}", register)
            else:
                body += [text.replace("{d}", register), f"st.global.b{bits} [%d5{n}], {register};"]
        params = ", ".join(f".param .u64 p{n}" for n in range(k + 1))
        return (
            f"{HEAD}.visible .entry k({params}, .param .align 16 .b8 block[32])\n{{ .reg .pred %p<9>; .reg .b16"
            " %h<40>;\n.reg .b32 %r<70>; .reg .b64 %d<70>; .reg .b128 %q<4>; .shared .align 128 .b8"
            " sm[16384];\n.local .align 16 .b8 loc[64];\n" + "\n".join(body) + "\nret;\n}\n"
        )

    def sources(self) -> list[np.ndarray]:
        out = [inputs(kind, n) for n, kind in enumerate(self.kinds)]
        if self.text.startswith(("div.s", "div.u", "rem")):
            out[1][out[1] == 0] = 3  # PTX leaves an integer division by zero open
        return out

    def poison(self) -> np.ndarray:
        """What the result's buffer holds before the run."""
        bits, dtype, _ = KINDS[self.out]
        return np.full(N * bits // 8, 0xA5, np.uint8).view(dtype)


BLOCK = bytes(range(7, 39))  # the kernel's last parameter


def inputs(kind: str, position: int) -> np.ndarray:
    """N values of a kind for an operand.

    The awkward ones, all pairs of the first two operands, then random ones.
    """
    _, dtype, odd = KINDS[kind]
    rng = np.random.default_rng(position + 1)
    if kind == "small":
        x = rng.integers(0, 64, N).astype(dtype)
    elif kind in ("f32", "f64"):
        x = (rng.standard_normal(N) * 2.0 ** rng.integers(-12, 12, N)).astype(dtype)
    else:
        x = rng.integers(0, 256, N * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype).copy()
    t = np.arange(256)
    which = (t % 16, t // 16, (t + t // 16 * 3) % 16)[position % 3]
    x[:256] = np.array([v if kind in ("f32", "f64") else v & (1 << KINDS[kind][0]) - 1 for v in odd], dtype)[which]
    return x


def _each(form: str, names: str, out: str, *kinds: str, ulps: float = 0) -> list[Program]:
    return [Program(form.replace("OP", name), out, kinds, ulps) for name in names.split()]


_ONE, _TWO, _THREE = "OP {d}, {0};", "OP {d}, {0}, {1};", "OP {d}, {0}, {1}, {2};"


def _types(pattern: str, types: str) -> str:
    return " ".join(pattern.replace("T", t) for t in types.split())


def _integers() -> list[Program]:
    out = []
    for bits in (16, 32, 64):
        b, signs = f"b{bits}", f"s{bits} u{bits}"
        for pattern in ("add.T", "sub.T", "mul.lo.T", "mul.hi.T", "min.T", "max.T", "div.T", "rem.T"):
            out += _each(_TWO, _types(pattern, signs), b, b, b)
        out += _each(_THREE, _types("mad.lo.T", signs), b, b, b, b)
        out += _each(_TWO, f"and.b{bits} or.b{bits} xor.b{bits}", b, b, b)
        out += _each(_ONE, f"not.b{bits} neg.s{bits} abs.s{bits} cnot.b{bits}", b, b)
        for amount in ("b32", "small"):
            out += _each(_TWO, f"shl.b{bits} shr.u{bits} shr.s{bits}", b, b, amount)
        out += [
            Program(f"setp.{c}.{t}{bits} %p1, {{0}}, {{1}}; selp.b32 {{d}}, 1, 0, %p1;", "b32", (b, b))
            for t, cs in (("b", "eq ne"), ("s", "eq ne lt le gt ge"), ("u", "eq ne lo ls hi hs lt le gt ge"))
            for c in cs.split()
        ]
        out.append(Program(f"setp.ne.b32 %p1, {{2}}, 1; selp.b{bits} {{d}}, {{0}}, {{1}}, %p1;", b, (b, b, "b32")))
    out += _each(_TWO, "mul.wide.s16 mul.wide.u16", "b32", "b16", "b16")
    out += _each(_TWO, "mul.wide.s32 mul.wide.u32", "b64", "b32", "b32")
    out += _each(_THREE, "mad.wide.s32 mad.wide.u32", "b64", "b32", "b32", "b64")
    out += _each(_THREE, "mad.wide.s16 mad.wide.u16", "b32", "b16", "b16", "b32")
    out += _each(
        _TWO,
        "add.sat.s32 sub.sat.s32 mul24.lo.u32 mul24.lo.s32 mul24.hi.u32 min.relu.s32 max.relu.s32",
        "b32",
        "b32",
        "b32",
    )
    out += _each(_THREE, "mad.hi.s32 mad.hi.u32 sad.s32 sad.u32 mad24.lo.s32", "b32", "b32", "b32", "b32")
    for bits in (32, 64):
        b = f"b{bits}"
        out += _each(_ONE, f"popc.b{bits} clz.b{bits} bfind.u{bits} bfind.s{bits} bfind.shiftamt.u{bits}", "b32", b)
        out += _each(_ONE, f"brev.b{bits}", b, b)
        for amount in ("b32", "small"):
            out += _each(_THREE, f"bfe.u{bits} bfe.s{bits}", b, b, amount, amount)
            out.append(Program(f"bfi.b{bits} {{d}}, {{0}}, {{1}}, {{2}}, 9;", b, (b, b, amount)))
        carry = (
            f"add.cc.u{bits} {{d}}, {{0}}, {{1}}; addc.cc.u{bits} {{d}}, {{1}}, {{2}}; addc.u{bits} {{d}}, {{d}},"
            " {0};"
        )
        out += [Program(carry, b, (b, b, b)), Program(carry.replace("add", "sub"), b, (b, b, b))]
    for shift in ("l.wrap", "l.clamp", "r.wrap", "r.clamp"):
        out += [
            Program(f"shf.{shift}.b32 {{d}}, {{0}}, {{1}}, {{2}};", "b32", ("b32", "b32", n)) for n in ("b32", "small")
        ]
    out += _each(_THREE, _types("prmt.b32T", ".f4e .b4e .rc8 .ecl .ecr .rc16") + " prmt.b32", "b32", *["b32"] * 3)
    out += _each("lop3.b32 {d}, {0}, {1}, {2}, OP;", "0x96 0xCA 0xE8 0x1B 0x01 0xFE", "b32", *["b32"] * 3)
    signs = [(a, b) for a in ("s32", "u32") for b in ("s32", "u32")]
    dots = [f"{op}.{a}.{b}" for op in ("dp4a", "dp2a.lo", "dp2a.hi") for a, b in signs]
    out += _each(_THREE, " ".join(dots), "b32", "b32", "b32", "b32")
    return out


def _floats() -> list[Program]:
    f, out = "f32", []
    rounding = ("rn", "rz", "rm", "rp")
    for op in ("add", "sub", "mul"):
        forms = [f"{op}.f32", f"{op}.f64", f"{op}.rn.f64"]
        forms += [f"{op}.{r}{z}{s}.f32" for r in rounding for z in ("", ".ftz") for s in ("", ".sat")]
        for name in forms:
            out += _each(_TWO, name, name[-3:], name[-3:], name[-3:])
    forms = [f"fma.{r}{z}{s}.f32" for r in rounding for z in ("", ".ftz") for s in ("", ".sat")] + ["fma.rn.f64"]
    for name in forms:
        out += _each(_THREE, name, name[-3:], *[name[-3:]] * 3)
    out += _each(
        _TWO,
        "div.rn.f32 div.rn.ftz.f32 min.f32 max.f32 min.NaN.f32 max.NaN.f32 min.ftz.f32 max.ftz.NaN.f32 copysign.f32",
        f,
        f,
        f,
    )
    out += _each(
        _ONE, "abs.f32 neg.f32 abs.ftz.f32 neg.ftz.f32 sqrt.rn.f32 sqrt.rn.ftz.f32 rcp.rn.f32 rcp.rn.ftz.f32", f, f
    )
    out += _each(_TWO, "div.rn.f64 min.f64 max.f64 copysign.f64", "f64", "f64", "f64")
    out += _each(_ONE, "abs.f64 neg.f64 sqrt.rn.f64 rcp.rn.f64", "f64", "f64")
    for t in ("f16", "bf16", "f16x2", "bf16x2"):
        out += _each(_TWO, _types("add.rn.T sub.rn.T mul.rn.T min.T max.T min.NaN.T max.NaN.T", t), t, t, t)
        out += _each(_THREE, _types("fma.rn.T fma.rn.relu.T", t), t, t, t, t)
        out += _each(_ONE, _types("abs.T neg.T", t), t, t)
        if t.startswith("f16"):
            out += _each(_TWO, _types("add.T sub.sat.T mul.sat.T", t), t, t, t)
            out += _each(_THREE, f"fma.rn.sat.{t}", t, t, t, t)
    for t in ("f32", "f64"):
        out += [
            Program(f"setp.{c}.{t} %p1, {{0}}, {{1}}; selp.b32 {{d}}, 1, 0, %p1;", "b32", (t, t))
            for c in ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
        ]
    out += [Program("setp.lt.ftz.f32 %p1, {0}, {1}; selp.b32 {d}, 1, 0, %p1;", "b32", (f, f))]
    out += [Program("setp.gt.f32 %p1, {2}, {1}; selp.f32 {d}, {0}, {1}, %p1;", f, (f, f, f))]
    out += _each("OP {d}, {0}, {1};", "set.gt.u32.f32 set.ne.s32.f32", "b32", f, f)
    out += _each("OP {d}, {0}, {1};", "set.lt.f32.f32 set.geu.f32.f32", f, f, f)
    out += [
        Program("slct.f32.s32 {d}, {0}, {1}, {2};", f, (f, f, "b32")),
        Program("slct.u32.f32 {d}, {0}, {1}, {2};", "b32", ("b32", "b32", f)),
    ]
    out += [
        Program(
            f"setp.lt.f32 %p2, {{0}}, 0f3F800000; setp.{c}.{b}.u32 %p1|%p3, {{1}}, 77, %p2; selp.b32 {{d}}, 1, 0,"
            " %p1; @%p3 add.u32 {d}, {d}, 2;",
            "b32",
            (f, "b32"),
        )
        for c in ("lt", "ne")
        for b in ("and", "or", "xor")
    ]
    out += [
        Program(
            f"setp.lt.f32 %p2, {{0}}, 0f3F800000; setp.lt.s32 %p3, {{1}}, 9; {x} selp.b32 {{d}}, 1, 0, %p1;",
            "b32",
            (f, "b32"),
        )
        for x in (
            "and.pred %p1, %p2, %p3;",
            "or.pred %p1, %p2, %p3;",
            "xor.pred %p1, %p2, %p3;",
            "not.pred %p1, %p2;",
            "mov.pred %p1, %p3;",
        )
    ]
    return out


def _conversions() -> list[Program]:
    out = []
    for f in ("f32", "f16", "bf16", "f64"):
        for mode in ("rni", "rzi", "rmi", "rpi"):
            out += [
                Program(f"cvt.{mode}.{t}{bits}.{f} {{d}}, {{0}};", f"b{bits}", (f,))
                for t in "su"
                for bits in (16, 32, 64)
            ]
    for mode in ("rni", "rzi", "rmi", "rpi"):
        out += _each(f"cvt.{mode}.OP {{d}}, {{0}};", "f32.f32 ftz.f32.f32 sat.f32.f32", "f32", "f32")
        out += _each(f"cvt.{mode}.OP {{d}}, {{0}};", "f64.f64", "f64", "f64")
        out += _each(f"cvt.{mode}.OP {{d}}, {{0}};", "f16.f16", "f16", "f16")
    for bits in (16, 32, 64):
        for t in "su":
            out += [
                Program(f"cvt.{r}.f32.{t}{bits} {{d}}, {{0}};", "f32", (f"b{bits}",)) for r in ("rn", "rz", "rm", "rp")
            ]
            out += [Program(f"cvt.rn.{f}.{t}{bits} {{d}}, {{0}};", f, (f"b{bits}",)) for f in ("f16", "bf16", "f64")]
    out += [
        Program(f"cvt.{s}{t}{a}.{u}{b} {{d}}, {{0}};", f"b{a}", (f"b{b}",))
        for s in ("", "sat.")
        for t in "su"
        for a in (16, 32, 64)
        for u in "su"
        for b in (16, 32, 64)
        if not s or a < b or (a == b and t != u) or (t, u) == ("u", "s")
    ]
    out += [Program(f"cvt.{t}{b}.{t}8 {{d}}, {{0}};", f"b{b}", ("b16",)) for t in "su" for b in (16, 32)] + [
        Program("cvt.u8.u32 %h30, {0}; cvt.u32.u8 {d}, %h30;", "b32", ("b32",)),
        Program("cvt.sat.s8.s32 %h30, {0}; cvt.s32.s8 {d}, %h30;", "b32", ("b32",)),
    ]
    out += _each("cvt.OP {d}, {0};", "rn.f16.f32 rz.f16.f32 rn.relu.f16.f32 rn.satfinite.f16.f32", "f16", "f32")
    out += _each("cvt.OP {d}, {0};", "rn.bf16.f32 rz.bf16.f32 rn.relu.bf16.f32 rn.satfinite.bf16.f32", "bf16", "f32")
    out += _each("cvt.OP {d}, {0};", "f32.f16 ftz.f32.f16 sat.f32.f16", "f32", "f16") + _each(
        "cvt.OP {d}, {0};", "f32.bf16", "f32", "bf16"
    )
    out += _each("cvt.OP {d}, {0};", "sat.f32.f32 ftz.f32.f32", "f32", "f32") + _each(
        "cvt.OP {d}, {0};", "rn.f32.f64 rz.f32.f64 rm.f32.f64 rp.f32.f64", "f32", "f64"
    )
    out += (
        _each("cvt.OP {d}, {0};", "f64.f32", "f64", "f32")
        + _each("cvt.OP {d}, {0};", "f64.f16", "f64", "f16")
        + _each("cvt.OP {d}, {0};", "rn.f16.f64", "f16", "f64")
    )
    for t in ("f16x2", "bf16x2"):
        out += [
            Program(f"cvt.{m}.{t}.f32 {{d}}, {{0}}, {{1}};", t, ("f32", "f32"))
            for m in ("rn", "rz", "rn.relu", "rn.satfinite", "rn.satfinite.relu")
        ]
    for t in ("e4m3x2", "e5m2x2"):
        out += [
            Program(f"cvt.rn.satfinite{r}.{t}.f32 {{d}}, {{0}}, {{1}};", "b16", ("f32", "f32")) for r in ("", ".relu")
        ]
        out += [Program(f"cvt.rn.satfinite{r}.{t}.f16x2 {{d}}, {{0}};", "b16", ("f16x2",)) for r in ("", ".relu")]
        out += [Program(f"cvt.rn{r}.f16x2.{t} {{d}}, {{0}};", "f16x2", ("b16",)) for r in ("", ".relu")]
    out += _each(
        "cvt.OP {d}, {0};",
        "rna.tf32.f32 rn.tf32.f32 rz.tf32.f32 rn.relu.tf32.f32 rna.satfinite.tf32.f32",
        "f32",
        "f32",
    )
    return out


def _approximations() -> list[Program]:
    """Bounds in units in the last place of the GPU's result, or absolute.

    PTX ISA 9.7.3, «maximum error».
    """
    out = []
    for z in ("", ".ftz"):
        for op, ulps in (("ex2.approx", 2), ("rcp.approx", 1), ("rsqrt.approx", 3), ("sqrt.approx", 2)):
            out.append(Program(f"{op}{z}.f32 {{d}}, {{0}};", "f32", ("f32",), ulps))
        out.append(Program(f"lg2.approx{z}.f32 {{d}}, {{0}};", "f32", ("f32",), 2, 2.0**-22))
        out.append(Program(f"div.full{z}.f32 {{d}}, {{0}}, {{1}};", "f32", ("f32", "f32"), 2))
        out.append(Program(f"div.approx{z}.f32 {{d}}, {{0}}, {{1}};", "f32", ("f32", "f32"), 2))
        out += [
            Program(
                f"{op}.approx{z}.f32 {{d}}, {{0}}; abs.f32 %r30, {{0}}; setp.leu.f32 %p1, %r30, 0f40490FDB; "
                "selp.f32 {d}, {d}, 0f00000000, %p1;",
                "f32",
                ("f32",),
                0,
                2.0**-20.5,
            )
            for op in ("sin", "cos")
        ]
    out.append(Program("tanh.approx.f32 {d}, {0};", "f32", ("f32",), 2.0**13))
    out += [
        Program(f"{op}.{t} {{d}}, {{0}};", t, (t,), 1)
        for t in ("f16", "bf16", "f16x2", "bf16x2")
        for op in (("tanh.approx", "ex2.approx") if t[0] == "f" else ("tanh.approx", "ex2.approx.ftz"))
    ]
    return out


PROGRAMS = [*_integers(), *_floats(), *_conversions(), *_approximations()]
