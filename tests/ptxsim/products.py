"""Single matrix products, wgmma and mma.sync, for every element type.

PTX, inputs of chosen spreads, and results.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"
# element type → (bits, instruction depth of wgmma, of mma.sync)
TYPES = {
    "f16": (16, 16, 16),
    "bf16": (16, 16, 16),
    "tf32": (32, 8, 8),
    "e4m3": (8, 32, 32),
    "e5m2": (8, 32, 32),
    "s8": (8, 32, 32),
    "u8": (8, 32, 32),
}


@dataclass(frozen=True)
class Product:
    """D = A B^T + C, 64 by 16.

    A wgmma, or eight mma.sync of 16 by 8; rows of A and B take 32 bytes.
    """

    op: str  # "wgmma", "wgmma RS", "mma"
    element: str
    accumulator: str

    @property
    def name(self) -> str:
        return f"{self.op} {self.accumulator}.{self.element}"

    @property
    def depth(self) -> int:
        return 256 // TYPES[self.element][0]

    def ptx(self) -> str:
        half = self.accumulator == "f16"
        count = 4 if half else 8
        regs = ",".join(f"%r{20 + n}" for n in range(count))
        kind = f"{self.accumulator}.{self.element}.{self.element}"
        load = "mad.wide.u32 %d6, %r2, 32, %d3; mad.wide.u32 %d7, %r2, 32, %d4;\n" + "".join(
            f"ld.global.b32 %r{20 + n}, [%d6+{4 * n}];\n" for n in range(count)
        )
        # fragments of A and B by PTX's plots: row t/4 (+8), 4 bytes at 4*(t%4) (+16)
        fragment = """shr.u32 %r5, %r2, 5; and.b32 %r6, %r2, 31; shr.u32 %r7, %r6, 2; and.b32 %r8, %r6, 3;
mad.lo.u32 %r9, %r5, 16, %r7; mul.lo.u32 %r9, %r9, 32; mad.lo.u32 %r9, %r8, 4, %r9; cvt.u64.u32 %d8, %r9;
add.u64 %d8, %d8, %d1;
ld.global.b32 %r30, [%d8]; ld.global.b32 %r31, [%d8+256]; ld.global.b32 %r32, [%d8+16]; ld.global.b32 %r33, [%d8+272];
"""
        if self.op == "mma":
            shape = f"m16n8k{self.depth}"
            body = (
                fragment
                + """mul.lo.u32 %r9, %r7, 32; mad.lo.u32 %r9, %r8, 4, %r9; cvt.u64.u32 %d9, %r9;
add.u64 %d9, %d9, %d2;
"""
            )
            for n in range(2):
                c = ",".join(f"%r{20 + n * count // 2 + j}" for j in range(count // 2))
                body += f"""ld.global.b32 %r34, [%d9+{256 * n}]; ld.global.b32 %r35, [%d9+{256 * n + 16}];
mma.sync.aligned.{shape}.row.col.{self.accumulator}.{self.element}.{self.element}.{self.accumulator} {{{c}}},
{{%r30,%r31,%r32,%r33}}, {{%r34,%r35}}, {{{c}}};
"""
        else:
            # core matrices of 8 rows by 16 bytes, K-major without swizzle: LBO 128, SBO 256
            flags = (
                ""
                if self.element in ("s8", "u8")
                else ", 1, 1" + {True: ", 0, 0", False: ""}[self.element in ("f16", "bf16")]
            )
            a = "%d10"
            if self.op == "wgmma RS":
                a = "{%r30,%r31,%r32,%r33}"
                flags = flags.replace(", 1, 1, 0, 0", ", 1, 1, 0")
            body = (
                fragment
                + f"""shr.u32 %r10, %r2, 1; and.b32 %r11, %r2, 1; shr.u32 %r12, %r10, 3; and.b32 %r13, %r10, 7;
shl.b32 %r14, %r12, 8; mad.lo.u32 %r14, %r11, 128, %r14; mad.lo.u32 %r14, %r13, 16, %r14; mov.u32 %r1, sm;
add.u32 %r14, %r14, %r1;
mad.wide.u32 %d11, %r2, 16, %d1; ld.global.v4.b32 {{%r40,%r41,%r42,%r43}}, [%d11];
st.shared.v4.b32 [%r14], {{%r40,%r41,%r42,%r43}};
setp.lt.u32 %p1, %r2, 32; mad.wide.u32 %d12, %r2, 16, %d2; @%p1 ld.global.v4.b32 {{%r40,%r41,%r42,%r43}}, [%d12];
@%p1 st.shared.v4.b32 [%r14+2048], {{%r40,%r41,%r42,%r43}}; fence.proxy.async.shared::cta; bar.sync 0;
shr.u32 %r15, %r1, 4; and.b32 %r15, %r15, 16383; cvt.u64.u32 %d10, %r15;
or.b64 %d10, %d10, {128 // 16 << 16 | 256 // 16 << 32}; add.u64 %d13, %d10, 128;
setp.eq.u32 %p5, 0, 0; wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n16k{self.depth}.{kind} {{{regs}}}, {a}, %d13, %p5{flags};
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
"""
            )
        store = "".join(f"st.global.b32 [%d7+{4 * n}], %r{20 + n};\n" for n in range(count))
        return (
            f"{HEAD}.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3)\n"
            "{ .reg .pred %p<9>; .reg .b32 %r<70>; .reg .b64 %d<30>; .shared .align 1024 .b8 sm[4096];\n"
            "mov.u32 %r2, %tid.x; ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u64 %d3, [p2]; "
            f"ld.param.u64 %d4, [p3];\n{load}{body}{store}ret;\n}}\n"
        )

    def matrices(self, spread: int | str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bytes of A (64, 32) and B (16, 32), words of C (128, 8).

        Exponents `spread` apart, or any bits ("odd").
        """
        if spread == "odd":
            rng = np.random.default_rng(seed)
            a, b = (odd(rng, (r, self.depth), self.element) for r in (64, 16))
            c = odd(rng, (128, 16 if self.accumulator == "f16" else 8), self.accumulator).view(np.uint32)
            return (
                a.view(np.uint8).reshape(64, 32),
                b.view(np.uint8).reshape(16, 32),
                np.ascontiguousarray(c.reshape(128, 8)),
            )
        rng = np.random.default_rng([seed, spread])
        a, b = (encode(rng, (r, self.depth), self.element, spread) for r in (64, 16))
        if self.accumulator == "s32":
            c = rng.integers(-(2**31), 2**31, (128, 8)).astype(np.int32).view(np.uint32)
        else:
            values = rng.standard_normal((128, 8)) * 2.0 ** rng.integers(-spread, spread + 1, (128, 8))
            values[rng.random((128, 8)) < 0.25] = 0
            c = values.astype(np.float32).view(np.uint32)
            if self.accumulator == "f16":
                c = np.zeros((128, 8), np.uint32)
                c[:, :4] = values.astype(np.float16).view(np.uint32)
        return a.view(np.uint8).reshape(64, 32), b.view(np.uint8).reshape(16, 32), np.ascontiguousarray(c)


def encode(rng: np.random.Generator, shape: tuple, element: str, spread: int) -> np.ndarray:
    """Random numbers in an element type's bits."""
    if element in ("s8", "u8"):
        return rng.integers(0, 256, shape).astype(np.uint8)
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)
    if element in ("e4m3", "e5m2"):
        from ptxsim.isa.numeric import f32_to_small

        return f32_to_small(x.astype(np.float32), element)
    if element == "f16":
        return x.astype(np.float16)
    words = x.astype(np.float32).view(np.uint32)
    return (words >> np.uint32(16)).astype(np.uint16) if element == "bf16" else words & np.uint32(0xFFFFE000)


def odd(rng: np.random.Generator, shape: tuple, element: str) -> np.ndarray:
    """Ordinary numbers with a few infinities, NaNs, subnormals, and largest numbers among them."""
    x = encode(rng, shape, element, 2) if element != "s32" else rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    table = {
        "f16": [0x7C00, 0xFC00, 0x7E00, 1, 0x83FF, 0x7BFF, 0xFBFF, 0],
        "bf16": [0x7F80, 0xFF80, 0x7FC0, 1, 0x807F, 0x7F7F, 0xFF7F, 0],
        "f32": [0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x807FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0],
        "tf32": [0x7F800000, 0xFF800000, 0x7FC00000, 0x2000, 0x807FE000, 0x7F7FE000, 0xFF7FE000, 0],
        "e4m3": [0x7F, 0xFF, 1, 0x87, 0x7E, 0xFE, 0],
        "e5m2": [0x7C, 0xFC, 0x7E, 1, 0x83, 0x7B, 0xFB, 0],
    }.get(element)
    if table is None:
        return x
    raw = x.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[x.itemsize])
    at = rng.random(shape) < 0.02
    raw[at] = rng.choice(np.array(table, raw.dtype), int(at.sum()))
    return x


def matrix_of(words: np.ndarray, accumulator: str) -> np.ndarray:
    """C or D as (64, 16) of the accumulator's type, from its registers (128, 8)."""
    out = np.zeros((64, 16), {"f32": np.float32, "s32": np.int32, "f16": np.float16}[accumulator])
    t = np.arange(128)
    row = 16 * (t // 32) + t % 32 // 4
    for r in range(4 if accumulator == "f16" else 8):
        if accumulator == "f16":
            pair = np.ascontiguousarray(words[:, r]).view(np.float16).reshape(128, 2)
            for j in (0, 1):
                out[row + 8 * (r % 2), t % 4 * 2 + j + 8 * (r // 2)] = pair[:, j]
        else:
            out[row + 8 * (r // 2 % 2), t % 4 * 2 + r % 2 + 8 * (r // 4)] = np.ascontiguousarray(words[:, r]).view(
                out.dtype
            )
    return out


PRODUCTS = [
    Product(op, e, acc)
    for op in ("wgmma", "wgmma RS", "mma")
    for e in TYPES
    for acc in (("s32",) if e in ("s8", "u8") else ("f32", "f16") if e in ("f16", "e4m3", "e5m2") else ("f32",))
]
SPREADS = (0, 2, 6, 10, "odd")
