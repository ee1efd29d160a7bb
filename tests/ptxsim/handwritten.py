"""Kernels in PTX written for the differential against a GPU.

Each gives the launches and buffers of a small problem.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from snippets import tensor_map

HEAD = ".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 dyn[];\n"


@dataclass
class Kernel:
    """PTX of a kernel `k`.

    Arguments are arrays, whole numbers or descriptors (bytes), `kinds` the arrays' types.
    """

    name: str
    body: str
    args: list
    kinds: list[str]
    grid: tuple[int, ...] = (1,)
    threads: int = 128
    cluster: tuple[int, ...] = (1,)
    shared: int = 0
    hold: list = field(default_factory=list)  # arrays that only descriptors point to

    @property
    def text(self) -> str:
        params = []
        for n, arg in enumerate(self.args):
            if isinstance(arg, bytes):
                params.append(f".param .align 64 .b8 p{n}[128]")
            else:
                params.append(f".param .{'u32' if isinstance(arg, int) else 'u64'} p{n}")
        return (
            f"{HEAD}.visible .entry k({', '.join(params)})\n{{ .reg .pred %p<20>; .reg .b16 %h<40>;\n"
            f".reg .b32 %r<120>;\n.reg .f32 %f<80>; .reg .b64 %d<60>;\n{self.body}\nret;\n}}\n"
        )


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


LOAD_TILE = """mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;
mbarrier.arrive.expect_tx.shared.b64 _, [%r3], BYTES;
cp.async.bulk.tensor.DIMd.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%d1, {COORDS}], [%r3];
"""
START = "mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; add.u32 %r3, %r1, BARRIER; setp.ne.u32 %p1, %r2, 0;\n"
WAIT = "bar.sync 0; L: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra L;\n"


def transpose() -> Kernel:
    """64 by 64 tiles of f16 through shared memory.

    TMA load and store, swizzled by 128 bytes, past the edges too.
    """
    x = _rng(1).standard_normal((200, 136)).astype(np.float16)
    y = np.full((136, 200), -7, np.float16)
    body = (
        START.replace("BARRIER", "16384")
        + """mov.u32 %r10, %ctaid.x; mov.u32 %r11, %ctaid.y; shl.b32 %r10, %r10, 6; shl.b32 %r11, %r11, 6;
mov.b64 %d1, p0; cvta.param.u64 %d1, %d1; mov.b64 %d2, p1; cvta.param.u64 %d2, %d2;
@%p1 bra W; prefetch.tensormap [%d1];
"""
        + LOAD_TILE.replace("BYTES", "8192").replace("DIM", "2").replace("COORDS", "%r10, %r11")
        + "W: "
        + WAIT
        + """mov.u32 %r20, %r2; C: shr.u32 %r21, %r20, 6; and.b32 %r22, %r20, 63;
shl.b32 %r23, %r21, 7; mad.lo.u32 %r23, %r22, 2, %r23; and.b32 %r24, %r21, 7; shl.b32 %r24, %r24, 4;
xor.b32 %r23, %r23, %r24;
add.u32 %r23, %r23, %r1; ld.shared.b16 %h1, [%r23];
shl.b32 %r25, %r22, 7; mad.lo.u32 %r25, %r21, 2, %r25; and.b32 %r24, %r22, 7; shl.b32 %r24, %r24, 4;
xor.b32 %r25, %r25, %r24;
add.u32 %r25, %r25, %r1; st.shared.b16 [%r25+8192], %h1; add.u32 %r20, %r20, 128; setp.lt.u32 %p3, %r20, 4096;
@%p3 bra C;
fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra E; add.u32 %r5, %r1, 8192;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d2, {%r11, %r10}], [%r5]; cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0; E:"""
    )
    maps = [tensor_map(x, (64, 64), 3).tobytes(), tensor_map(y, (64, 64), 3).tobytes()]
    return Kernel(
        "transpose, TMA with 128-byte swizzle", body, maps, [], (3, 4), shared=17408, hold=[(x, "f16"), (y, "f16")]
    )


BOXES = [  # type, shape, box, first coordinates (innermost first), swizzle
    ("f16", (40, 96), (64, 8), (0, 0), 3),
    ("f16", (40, 96), (64, 16), (48, 30), 3),
    ("bf16", (40, 96), (32, 16), (16, 3), 2),
    ("u8", (64, 64), (32, 24), (0, 8), 1),
    ("f32", (64, 32), (16, 8), (-8, -4), 0),
    ("u16", (5, 24, 64), (64, 4, 2), (0, 22, 4), 3),
    ("u32", (3, 4, 8, 16), (16, 2, 2, 2), (0, 7, 1, 2), 0),
    ("u16", (2, 3, 4, 4, 32), (32, 2, 1, 2, 1), (0, 3, 0, 2, 1), 2),
    ("u8", (256,), (128,), (192,), 0),
    ("f16", (40, 96), (64, 8), (200, 0), 3),
    ("s32", (7, 5, 3, 8), (8, 3, 2, 3), (0, -1, 4, 5), 1),
    ("f32", (3, 3, 3, 3, 8), (8, 2, 2, 2, 2), (0, 2, 2, -1, 1), 1),
]
TYPE_CODES = {"u8": 0, "u16": 1, "u32": 2, "s32": 3, "f16": 6, "f32": 7, "bf16": 10}
NUMPY = {
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "s32": np.int32,
    "f16": np.float16,
    "f32": np.float32,
    "bf16": np.uint16,
}


def _some(kind: str, shape: tuple, seed: int) -> np.ndarray:
    """Numbers in a type, bf16 as its bits."""
    if kind[0] in "us":
        return _rng(seed).integers(0, 200, shape).astype(NUMPY[kind])
    x = _rng(seed).standard_normal(shape).astype(np.float32)
    return (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16) if kind == "bf16" else x.astype(NUMPY[kind])


def tma_load(number: int) -> Kernel:
    """A box into shared memory, and shared memory as it lies to the output."""
    kind, shape, box, at, swizzle = BOXES[number]
    x = _some(kind, shape, number)
    n = int(np.prod(box)) * x.itemsize
    out = np.full(n, 255, np.uint8)
    body = (
        START.replace("BARRIER", str(-(-n // 8) * 8))
        + "mov.b64 %d1, p0; cvta.param.u64 %d1, %d1; ld.param.u64 %d3, [p1]; @%p1 bra W;\n"
        + LOAD_TILE.replace("BYTES", str(n)).replace("DIM", str(x.ndim)).replace("COORDS", ", ".join(map(str, at)))
        + "W: "
        + WAIT
        + f"""mov.u32 %r4, %r2; C: setp.ge.u32 %p3, %r4, {n}; @%p3 bra E; add.u32 %r5, %r1, %r4;
ld.shared.u8 %r6, [%r5];
cvt.u64.u32 %d4, %r4; add.u64 %d5, %d3, %d4; st.global.u8 [%d5], %r6; add.u32 %r4, %r4, 128; bra C; E:"""
    )
    descriptor = tensor_map(x, box, swizzle, TYPE_CODES[kind]).tobytes()
    name = f"TMA load, {x.ndim} dimensions of {kind}, box {box} at {at}, swizzle {swizzle}"
    return Kernel(name, body, [descriptor, out], ["u8"], shared=n + 1024, hold=[(x, kind)])


REDUCTIONS = [
    ("", "f32"),
    ("add", "f32"),
    ("add", "f16"),
    ("add", "bf16"),
    ("add", "u32"),
    ("min", "s32"),
    ("max", "s32"),
    ("and", "u32"),
    ("or", "u32"),
    ("xor", "u32"),
    ("inc", "u32"),
    ("dec", "u32"),
    ("min", "f16"),
    ("max", "bf16"),
]


def tma_store(number: int) -> Kernel:
    """A box from shared memory to the output, across its edge: plain or reduced."""
    op, kind = REDUCTIONS[number]
    target, source = _some(kind, (24, 32), number), _some(kind, (16, 16), 100 + number)
    n = source.nbytes
    name = f"cp.reduce.async.bulk.tensor.{op} of {kind}" if op else f"cp.async.bulk.tensor store of {kind}"
    opcode = "cp.reduce.async.bulk.tensor" if op else "cp.async.bulk.tensor"
    body = (
        START.replace("BARRIER", str(n))
        + f"""mov.b64 %d1, p0; cvta.param.u64 %d1, %d1; ld.param.u64 %d3, [p1]; setp.ge.u32 %p4, %r2, {n // 8};
@%p4 bra W;
mad.wide.u32 %d4, %r2, 8, %d3; ld.global.b64 %d5, [%d4]; mad.lo.u32 %r4, %r2, 8, %r1; st.shared.b64 [%r4], %d5;
W: fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra E;
{opcode}.2d.global.shared::cta{"." + op if op else ""}.tile.bulk_group [%d1, {{24, 4}}], [%r1];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E:"""
    )
    descriptor = tensor_map(target, (16, 16), 0, TYPE_CODES[kind]).tobytes()
    return Kernel(name, body, [descriptor, source], [kind], shared=n + 64, hold=[(target, kind)])


def multicast() -> Kernel:
    """Four CTAs of a cluster load a quarter each and send it to all.

    Each writes all it has and its rank.
    """
    x, out = _rng(3).integers(0, 2**32, (4, 128), dtype=np.uint32), np.zeros((8, 512), np.uint32)
    body = (
        START.replace("BARRIER", "2048")
        + """mov.b64 %d1, p0; cvta.param.u64 %d1, %d1; ld.param.u64 %d3, [p1]; mov.u32 %r7, %cluster_ctarank;
@%p1 bra S; mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 2048;
S: barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; @%p1 bra W; mov.b16 %h1, 15;
mad.lo.u32 %r8, %r7, 512, %r1;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r8],
[%d1, {0, %r7}], [%r3], %h1;
W: """
        + WAIT
        + """mov.u32 %r9, %ctaid.x; mov.u32 %r4, %r2; C: mad.lo.u32 %r5, %r4, 4, %r1; ld.shared.b32 %r6, [%r5];
add.u32 %r6, %r6, %r9;
mad.lo.u32 %r10, %r9, 512, %r4; mad.wide.u32 %d4, %r10, 4, %d3; st.global.b32 [%d4], %r6; add.u32 %r4, %r4, 128;
setp.lt.u32 %p3, %r4, 512; @%p3 bra C; barrier.cluster.arrive; barrier.cluster.wait;"""
    )
    return Kernel(
        "TMA multicast to a cluster of four",
        body,
        [tensor_map(x, (128, 1), 0).tobytes(), out],
        ["u32"],
        (8,),
        128,
        (4,),
        4096,
        [(x, "u32")],
    )


def cluster_reduction(by_async_store: bool) -> Kernel:
    """Sums over eight CTAs through distributed shared memory: stores and a cluster barrier, or st.async."""
    x, out = _rng(4).standard_normal((16, 128)).astype(np.float32), np.zeros((2, 128), np.float32)
    send = "st.shared::cluster.f32 [%r12], %f1; barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"
    wait = ""
    if by_async_store:
        send = "mapa.shared::cluster.u32 %r13, %r3, %r11;\n"
        send += "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%r12], %f1, [%r13];"
        wait = "L: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra L;"
    body = (
        START.replace("BARRIER", "4096")
        + f"""ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r7, %cluster_ctarank; mov.u32 %r8, %ctaid.x;
@%p1 bra S; mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 4096;
S: barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
mad.lo.u32 %r9, %r8, 128, %r2; mad.wide.u32 %d3, %r9, 4, %d1; ld.global.f32 %f1, [%d3];
mad.lo.u32 %r10, %r7, 512, %r1; mad.lo.u32 %r10, %r2, 4, %r10; mov.u32 %r11, 0;
mapa.shared::cluster.u32 %r12, %r10, %r11;
{send}
setp.ne.u32 %p3, %r7, 0; @%p3 bra E; {wait} mov.f32 %f2, 0f00000000; mad.lo.u32 %r14, %r2, 4, %r1;
"""
        + "".join(f"ld.shared.f32 %f3, [%r14+{512 * n}]; add.rn.f32 %f2, %f2, %f3;\n" for n in range(8))
        + "shr.u32 %r15, %r8, 3; mad.lo.u32 %r15, %r15, 128, %r2; mad.wide.u32 %d4, %r15, 4, %d2;\n"
        "st.global.f32 [%d4], %f2;\n"
        "E: barrier.cluster.arrive; barrier.cluster.wait;"
    )
    name = "cluster sums through " + ("st.async" if by_async_store else "distributed shared memory")
    return Kernel(name, body, [x, out], ["f32", "f32"], (16,), 128, (8,), 5120)


def histogram() -> Kernel:
    """Counts by atomics in shared, then in global memory.

    The last CTA, known by a counter, sums them.
    """
    x, bins, extra = _rng(5).integers(0, 64, 4096, dtype=np.uint32), np.zeros(64, np.uint32), np.zeros(2, np.uint32)
    body = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; ld.param.u64 %d1, [p0];
ld.param.u64 %d2, [p1];
ld.param.u64 %d3, [p2]; setp.ge.u32 %p1, %r2, 64; mad.lo.u32 %r4, %r2, 4, %r1; @!%p1 st.shared.u32 [%r4], 0;
bar.sync 0;
mad.lo.u32 %r5, %r3, 512, %r2; mov.u32 %r6, 0; C: mad.wide.u32 %d4, %r5, 4, %d1; ld.global.u32 %r7, [%d4];
mad.lo.u32 %r8, %r7, 4, %r1; red.shared.add.u32 [%r8], 1; add.u32 %r5, %r5, 128; add.u32 %r6, %r6, 1;
setp.lt.u32 %p2, %r6, 4;
@%p2 bra C; bar.sync 0; mad.wide.u32 %d5, %r2, 4, %d2; @%p1 bra N; ld.shared.u32 %r9, [%r4];
red.global.add.u32 [%d5], %r9;
N: membar.gl; bar.sync 0; setp.ne.u32 %p3, %r2, 0; @%p3 bra E; atom.global.inc.u32 %r10, [%d3], 7;
setp.ne.u32 %p4, %r10, 7;
@%p4 bra E; mov.u32 %r11, 0; mov.u32 %r12, 0; S: mad.wide.u32 %d6, %r12, 4, %d2; ld.volatile.global.u32 %r13, [%d6];
mad.lo.u32 %r11, %r13, %r12, %r11; add.u32 %r12, %r12, 1; setp.lt.u32 %p5, %r12, 64; @%p5 bra S;
st.global.u32 [%d3+4], %r11; E:"""
    return Kernel("histogram by atomics", body, [x, bins, extra], ["u32"] * 3, (8,), 128, shared=256)


def scan() -> Kernel:
    """Inclusive sums of 1024 numbers: shuffles within warps, shared memory across them."""
    x, out = _rng(6).integers(0, 1000, 1024, dtype=np.uint32), np.zeros(1024, np.uint32)
    steps = "".join(f"shfl.sync.up.b32 %r5|%p2, %r4, {1 << k}, 0, -1; @%p2 add.u32 %r4, %r4, %r5;\n" for k in range(5))
    body = f"""mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1];
mad.wide.u32 %d3, %r2, 4, %d1;
ld.global.u32 %r4, [%d3]; {steps} and.b32 %r6, %r2, 31; shr.u32 %r7, %r2, 5; mad.lo.u32 %r8, %r7, 4, %r1;
setp.ne.u32 %p3, %r6, 31; @!%p3 st.shared.u32 [%r8], %r4; bar.sync 0; setp.ne.u32 %p4, %r7, 0; mov.u32 %r9, %r4;
@%p4 bra A;
mad.lo.u32 %r10, %r6, 4, %r1; ld.shared.u32 %r4, [%r10]; {steps} st.shared.u32 [%r10+128], %r4;
A: bar.sync 0; setp.eq.u32 %p5, %r7, 0; mov.u32 %r11, 0; @!%p5 ld.shared.u32 %r11, [%r8+124]; add.u32 %r9, %r9, %r11;
mad.wide.u32 %d4, %r2, 4, %d2; st.global.u32 [%d4], %r9;"""
    return Kernel("inclusive scan by shuffles", body, [x, out], ["u32", "u32"], (1,), 1024, shared=256)


def warp_gemm(element: str) -> Kernel:
    """C = A B by mma.sync.

    64 by 64 tiles, cp.async in two stages of 32 columns, ldmatrix, B transposed by it.
    """
    m, n, k = 128, 128, 128
    a, b, c = _some(element, (m, k), 7), _some(element, (k, n), 8), np.full((m, n), np.nan, np.float32)
    body = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y;
ld.param.u64 %d1, [p0];
ld.param.u64 %d2, [p1]; ld.param.u64 %d3, [p2];
"""
    # A: rows of 80 bytes (40 halves); B: rows of 144 bytes; a stage takes 5120 + 4608 bytes
    for split in range(2):
        body += f"""add.u32 %r5, %r2, {128 * split}; shr.u32 %r6, %r5, 2; and.b32 %r7, %r5, 3;
mad.lo.u32 %r8, %r4, 64, %r6;
mul.lo.u32 %r8, %r8, {2 * k}; mad.lo.u32 %r8, %r7, 16, %r8; cvt.u64.u32 %d1{split}, %r8;
add.u64 %d1{split}, %d1{split}, %d1;
mad.lo.u32 %r1{split}, %r6, 80, %r1; mad.lo.u32 %r1{split}, %r7, 16, %r1{split};
shr.u32 %r6, %r5, 3; and.b32 %r7, %r5, 7; mul.lo.u32 %r8, %r6, {2 * n}; mad.lo.u32 %r8, %r3, 128, %r8;
mad.lo.u32 %r8, %r7, 16, %r8;
cvt.u64.u32 %d2{split}, %r8; add.u64 %d2{split}, %d2{split}, %d2; mad.lo.u32 %r2{split}, %r6, 144, %r1;
mad.lo.u32 %r2{split}, %r7, 16, %r2{split}; add.u32 %r2{split}, %r2{split}, 5120;
"""

    def stage(step: int) -> str:
        out = ""
        for split in range(2):
            at = 9728 * (step % 2)
            out += f"cp.async.cg.shared.global [%r1{split}+{at}], [%d1{split}+{64 * step}], 16;\n"
            out += f"cp.async.cg.shared.global [%r2{split}+{at}], [%d2{split}+{64 * n * step}], 16;\n"
        return out + "cp.async.commit_group;\n"

    body += """shr.u32 %r30, %r2, 5; and.b32 %r31, %r2, 31; and.b32 %r32, %r31, 15; shr.u32 %r33, %r31, 4;
mad.lo.u32 %r34, %r30, 16, %r32; mad.lo.u32 %r34, %r34, 80, %r1; mad.lo.u32 %r34, %r33, 16, %r34;
// A: rows, then halves of k
mad.lo.u32 %r35, %r31, 144, %r1; add.u32 %r35, %r35, 5120; // B: one row of k per lane
"""
    body += "".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(32)) + stage(0)
    for step in range(k // 32):
        body += stage(step + 1) + "cp.async.wait_group 1;\n" if step + 1 < k // 32 else "cp.async.wait_group 0;\n"
        body += "bar.sync 0;\n"
        at = 9728 * (step % 2)
        for half in range(2):
            fa = ",".join(f"%r4{4 * half + j}" for j in range(4))
            body += f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{fa}}}, [%r34+{at + 32 * half}];\n"
        for tile in range(8):
            acc = ",".join(f"%f{4 * tile + j}" for j in range(4))
            body += (
                f"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{%r50,%r51,%r52,%r53}}, [%r35+{at + 16 * tile}];\n"
            )
            for half in range(2):
                fa = ",".join(f"%r4{4 * half + j}" for j in range(4))
                fb = f"%r5{2 * half},%r5{2 * half + 1}"
                body += f"mma.sync.aligned.m16n8k16.row.col.f32.{element}.{element}.f32\n"
                body += f"{{{acc}}}, {{{fa}}}, {{{fb}}}, {{{acc}}};\n"
        body += "bar.sync 0;\n"
    body += f"""shr.u32 %r60, %r31, 2; and.b32 %r61, %r31, 3; mad.lo.u32 %r62, %r4, 64, %r60;
mad.lo.u32 %r62, %r30, 16, %r62;
mul.lo.u32 %r62, %r62, {4 * n}; mad.lo.u32 %r62, %r3, 256, %r62; mad.lo.u32 %r62, %r61, 8, %r62;
cvt.u64.u32 %d30, %r62; add.u64 %d30, %d30, %d3;
"""
    for tile in range(8):
        body += f"st.global.v2.f32 [%d30+{32 * tile}], {{%f{4 * tile},%f{4 * tile + 1}}};\n"
        body += f"st.global.v2.f32 [%d30+{32 * tile + 32 * n}], {{%f{4 * tile + 2},%f{4 * tile + 3}}};\n"
    return Kernel(
        f"GEMM by mma.sync of {element}, cp.async, ldmatrix",
        body,
        [a, b, c],
        [element, element, "f32"],
        (n // 64, m // 64),
        128,
        shared=20480,
    )


REPLACES = """tensormap.replace.tile.global_address.SPACE.b1024.b64 [ADDRESS], %d6;
tensormap.replace.tile.global_dim.SPACE.b1024.b32 [ADDRESS], 0, 32;
tensormap.replace.tile.global_dim.SPACE.b1024.b32 [ADDRESS], 1, 3;
tensormap.replace.tile.global_stride.SPACE.b1024.b64 [ADDRESS], 0, %d7;
"""
CHANGES = {  # of the descriptor at %d4, by one warp of which %r2 is the lane
    "global": "@%p1 bra D; "
    + REPLACES.replace("SPACE", "global").replace("ADDRESS", "%d4")
    + "D: bar.warp.sync -1; fence.proxy.tensormap::generic.release.gpu;\n",
    "shared": """setp.ge.u32 %p4, %r2, 16; mad.wide.u32 %d9, %r2, 8, %d5; mad.lo.u32 %r12, %r2, 8, %r1; @%p4 bra D;
ld.global.b64 %d10, [%d9]; st.shared.b64 [%r12], %d10; D: bar.warp.sync -1; @%p1 bra R;
"""
    + REPLACES.replace("SPACE", "shared::cta").replace("ADDRESS", "%r1")
    + """R: bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d4], [%r1], 128;
""",
}


def changed_descriptor(space: str) -> Kernel:
    """Let eight CTAs each edit a descriptor and load 4 rows through it.

    What it used is cleared at the end, since it holds an address.
    """
    x, y = np.zeros((8, 32), np.float16), _rng(9).standard_normal((16, 64)).astype(np.float16)
    out, made = np.full((8, 4, 32), -7, np.float16), tensor_map(x, (32, 4))
    room = np.zeros(8 * 128 + 128, np.uint8)
    start = -room.ctypes.data % 128
    used = room[start : start + 8 * 128]
    used.reshape(8, 128)[:] = made
    body = (
        START.replace("BARRIER", "512")
        + """ld.param.u64 %d1, [p0]; ld.param.u64 %d4, [p1]; ld.param.u64 %d5, [p2]; ld.param.u64 %d6, [p3];
mov.u32 %r10, %ctaid.x; mad.wide.u32 %d4, %r10, 128, %d4; mad.wide.u32 %d6, %r10, 128, %d6; mov.u64 %d7, 128;
mad.wide.u32 %d1, %r10, 256, %d1; add.u32 %r4, %r1, 1024; @%p1 bra I; mbarrier.init.shared.b64 [%r3], 1;
fence.mbarrier_init.release.cluster; I: bar.warp.sync -1;
"""
        + CHANGES[space]
        + """fence.proxy.tensormap::generic.acquire.gpu [%d4], 128; bar.warp.sync -1; @%p1 bra W;
mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r4], [%d4, {0, 0}], [%r3];
W: """
        + WAIT
        + """mad.lo.u32 %r5, %r2, 8, %r4; ld.shared.b64 %d11, [%r5]; mad.wide.u32 %d12, %r2, 8, %d1;
st.global.b64 [%d12], %d11; setp.ge.u32 %p5, %r2, 16; mad.wide.u32 %d13, %r2, 8, %d4; @%p5 bra E; mov.u64 %d14, 0;
st.global.b64 [%d13], %d14; E:"""
    )
    name = f"TMA load through a descriptor changed in {space} memory"
    return Kernel(
        name, body, [out, used, made, y], ["f16", "u8", "u8", "f16"], (8,), 32, shared=2048, hold=[(x, "f16")]
    )


def dropped_arrivals() -> Kernel:
    """Drop one of 32 threads per mbarrier phase and record the phases seen.

    An arrival that is still expected would let all give up after many polls.
    """
    out = np.zeros(32, np.uint32)
    body = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; ld.param.u64 %d1, [p0]; setp.ne.u32 %p1, %r2, 0; mov.u32 %r4, 0;
@%p1 bra I; mbarrier.init.shared.b64 [%r1], 32; I: bar.sync 0;
P: setp.eq.u32 %p2, %r4, %r2; @%p2 bra X; mbarrier.arrive.shared.b64 %d2, [%r1]; and.b32 %r5, %r4, 1; mov.u32 %r6, 0;
L: mbarrier.try_wait.parity.shared.b64 %p3, [%r1], %r5; @%p3 bra N; add.u32 %r6, %r6, 1;
setp.gt.u32 %p4, %r6, 1000; @%p4 bra G; bra L; N: add.u32 %r4, %r4, 1; bra P;
X: mbarrier.arrive_drop.shared.b64 %d2, [%r1]; bra S; G: or.b32 %r4, %r4, 4096;
S: mad.wide.u32 %d3, %r2, 4, %d1; st.global.u32 [%d3], %r4;"""
    return Kernel("mbarrier.arrive_drop by one thread a phase", body, [out], ["u32"], threads=32, shared=64)


def arrivals_that_complete_nothing() -> Kernel:
    """Arrivals of several at once, without and with the phase's end.

    Whether it has ended after each.
    """
    out = np.zeros(4, np.uint32)
    body = """mov.u32 %r1, dyn; ld.param.u64 %d1, [p0]; mbarrier.init.shared.b64 [%r1], 7;
mbarrier.arrive.noComplete.shared.b64 %d2, [%r1], 2; mbarrier.test_wait.shared.b64 %p1, [%r1], %d2;
selp.u32 %r2, 2, 1, %p1; st.global.u32 [%d1], %r2;
mbarrier.arrive_drop.noComplete.shared.b64 %d3, [%r1], 3; mbarrier.test_wait.shared.b64 %p1, [%r1], %d2;
selp.u32 %r2, 2, 1, %p1; st.global.u32 [%d1+4], %r2;
mbarrier.arrive.shared.b64 %d3, [%r1], 2; mbarrier.test_wait.shared.b64 %p1, [%r1], %d2;
selp.u32 %r2, 2, 1, %p1; st.global.u32 [%d1+8], %r2;
mbarrier.arrive.shared.b64 %d2, [%r1], 4; mbarrier.test_wait.shared.b64 %p1, [%r1], %d2;
selp.u32 %r2, 2, 1, %p1; st.global.u32 [%d1+12], %r2;"""
    return Kernel("mbarrier arrivals with noComplete", body, [out], ["u32"], threads=1, shared=64)


def all_kernels() -> list[Kernel]:
    return [
        transpose(),
        *(tma_load(n) for n in range(len(BOXES))),
        *(tma_store(n) for n in range(len(REDUCTIONS))),
        multicast(),
        cluster_reduction(False),
        cluster_reduction(True),
        histogram(),
        scan(),
        warp_gemm("f16"),
        warp_gemm("bf16"),
        *(changed_descriptor(space) for space in CHANGES),
        dropped_arrivals(),
        arrivals_that_complete_nothing(),
    ]
