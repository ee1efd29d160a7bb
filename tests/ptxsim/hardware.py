"""Differential against a GPU: the same sm_90a PTX and inputs on the card and in ptxsim.

`python tests/ptxsim/hardware.py ops` (on the GPU machine;
needs numpy, ptxsim and the driver's libcuda) runs a generated
program per ordinary opcode and compares bits, or units in the last place where the instruction is an approximation.
`python tests/ptxsim/hardware.py record FILE` (anywhere; compiles the Hopper examples) runs whole kernels in ptxsim and
keeps launches, inputs and outputs; `python tests/ptxsim/hardware.py kernels FILE` runs them on the card and compares.
A line per program; the exit status is the number of differences, at most 99.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import ptxsim  # noqa: E402

N = 256
HEAD = ".version 8.4\n.target sm_90a\n.address_size 64\n"
B, H, W, D, F = np.uint8, np.uint16, np.uint32, np.uint64, np.float32


def _each(template: str, names: str, out, *kinds) -> list[tuple]:
    return [(template.replace("OP", name), out, kinds, 0) for name in names.split()]


# (text with {d} and sources {0}, {1}, ...; type out; types in; units in the last place allowed)
PROGRAMS: list[tuple] = [
    *_each(
        "OP {d}, {0}, {1};",
        "add.s32 sub.s32 mul.lo.s32 mul.hi.s32 mul.hi.u32 min.s32 max.s32 min.u32 max.u32 and.b32 or.b32 "
        "xor.b32 shl.b32 shr.u32 shr.s32 add.sat.s32 sub.sat.s32 mul24.lo.u32 div.s32 div.u32 rem.s32 rem.u32",
        W,
        W,
        W,
    ),
    *_each(
        "OP {d}, {0}, {1};",
        "add.s64 sub.s64 mul.lo.s64 mul.hi.s64 mul.hi.u64 min.s64 max.u64 and.b64 or.b64 xor.b64",
        D,
        D,
        D,
    ),
    *_each("OP {d}, {0}, {1};", "shl.b64 shr.u64 shr.s64", D, D, W),
    *_each("OP {d}, {0}, {1};", "mul.wide.s32 mul.wide.u32", D, W, W),
    *_each(
        "OP {d}, {0};", "not.b32 neg.s32 abs.s32 popc.b32 clz.b32 brev.b32 bfind.u32 bfind.s32 bfind.shiftamt.u32", W, W
    ),
    *_each(
        "OP {d}, {0}, {1}, {2};",
        "mad.lo.s32 mad.hi.s32 mad.hi.u32 bfe.u32 bfe.s32 shf.l.wrap.b32 shf.r.clamp.b32 sad.s32 sad.u32",
        W,
        W,
        W,
        W,
    ),
    *_each(
        "OP {d}, {0}, {1}, {2};",
        "prmt.b32 prmt.b32.f4e prmt.b32.b4e prmt.b32.rc8 prmt.b32.ecl prmt.b32.ecr prmt.b32.rc16",
        W,
        W,
        W,
        W,
    ),
    *_each("lop3.b32 {d}, {0}, {1}, {2}, OP;", "0x96 0xCA 0xE8 0x1B", W, W, W, W),
    ("bfi.b32 {d}, {0}, {1}, {2}, 9;", W, (W, W, W), 0),
    *_each(
        "OP {d}, {0}, {1};",
        "add.rn.f32 add.rz.f32 add.rm.f32 add.rp.f32 add.ftz.f32 sub.f32 mul.rn.f32 mul.rz.f32 mul.rm.f32 mul.rp.f32 "
        "mul.ftz.f32 min.f32 max.f32 min.NaN.f32 max.NaN.f32 div.rn.f32 add.sat.f32 mul.sat.f32 copysign.f32",
        F,
        F,
        F,
    ),
    *_each(
        "OP {d}, {0}, {1}, {2};",
        "fma.rn.f32 fma.rz.f32 fma.rm.f32 fma.rp.f32 fma.rn.ftz.f32 fma.rn.sat.f32",
        F,
        F,
        F,
        F,
    ),
    *_each(
        "OP {d}, {0};",
        "abs.f32 neg.f32 sqrt.rn.f32 cvt.rni.f32.f32 cvt.rzi.f32.f32 cvt.rmi.f32.f32 cvt.rpi.f32.f32 cvt.sat.f32.f32",
        F,
        F,
    ),
    *_each(
        "OP {d}, {0}, {1};",
        "add.rn.f16x2 sub.rn.f16x2 mul.rn.f16x2 min.f16x2 max.f16x2 add.rn.bf16x2 mul.rn.bf16x2 min.bf16x2 m"
        "ax.NaN.bf16x2",
        W,
        W,
        W,
    ),
    *_each("OP {d}, {0}, {1}, {2};", "fma.rn.f16x2 fma.rn.bf16x2 fma.rn.relu.f16x2", W, W, W, W),
    *_each("cvt.OP {d}, {0};", "rni.s32.f32 rzi.s32.f32 rmi.s32.f32 rpi.s32.f32 rni.u32.f32 rzi.u32.f32", W, F),
    *_each("cvt.OP {d}, {0};", "rn.f32.s32 rn.f32.u32 rz.f32.s32 rm.f32.s32 rp.f32.u32", F, W),
    *_each("cvt.OP {d}, {0};", "rn.f16.f32 rz.f16.f32 rn.bf16.f32 rz.bf16.f32 rni.s16.f32 rzi.u16.f32", H, F),
    *_each("cvt.OP {d}, {0};", "f32.f16 f32.bf16", F, H),
    *_each("cvt.OP {d}, {0}, {1};", "rn.f16x2.f32 rz.f16x2.f32 rn.bf16x2.f32 rz.bf16x2.f32 rn.relu.f16x2.f32", W, F, F),
    *_each(
        "cvt.OP {d}, {0}, {1};", "rn.satfinite.e4m3x2.f32 rn.satfinite.e5m2x2.f32 rn.satfinite.relu.e4m3x2.f32", H, F, F
    ),
    *_each("cvt.OP {d}, {0};", "rn.f16x2.e4m3x2 rn.f16x2.e5m2x2", W, H),
    ("cvt.rna.tf32.f32 {d}, {0};", W, (F,), 0),
    ("cvt.s64.s32 {d}, {0};", D, (W,), 0),
    ("cvt.u32.u64 {d}, {0};", W, (D,), 0),
    ("cvt.sat.u16.s32 {d}, {0};", H, (W,), 0),
    ("cvt.s32.s16 {d}, {0};", W, (H,), 0),
    *[
        (f"setp.{c}.f32 %p1, {{0}}, {{1}}; selp.b32 {{d}}, 1, 0, %p1;", W, (F, F), 0)
        for c in ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
    ],
    *[
        (f"setp.{c}.u32 %p1, {{0}}, {{1}}; selp.b32 {{d}}, 1, 0, %p1;", W, (W, W), 0)
        for c in ["eq", "ne", "lo", "ls", "hi", "hs"]
    ],
    *[
        (f"shfl.sync.{m}.b32 {{d}}, {{0}}, {b}, {c}, -1;", W, (W,), 0)
        for m, b, c in (
            ("up", 3, 0),
            ("down", 5, 31),
            ("bfly", 6, 31),
            ("idx", 7, 31),
            ("idx", 9, 0x181F),
            ("up", 2, 0x1800),
        )
    ],
    *[
        (f"redux.sync.{op}.{t} {{d}}, {{0}}, -1;", W, (W,), 0)
        for op, t in (("add", "s32"), ("min", "s32"), ("max", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32"))
    ],
    ("setp.gt.s32 %p1, {0}, 0; vote.sync.ballot.b32 {d}, %p1, -1;", W, (W,), 0),
    ("match.any.sync.b32 {d}, {0}, -1;", W, (W,), 0),
    # approximations: bounds of the PTX ISA, in units in the last place of the card's result
    ("ex2.approx.ftz.f32 {d}, {0};", F, (F,), 3),
    ("lg2.approx.ftz.f32 {d}, {0};", F, (F,), 6),
    ("rcp.approx.ftz.f32 {d}, {0};", F, (F,), 2),
    ("rsqrt.approx.ftz.f32 {d}, {0};", F, (F,), 3),
    ("sqrt.approx.ftz.f32 {d}, {0};", F, (F,), 3),
    ("div.full.f32 {d}, {0}, {1};", F, (F, F), 3),
    ("tanh.approx.f32 {d}, {0};", F, (F,), 1 << 13),
]


def inputs(kind, seed: int) -> np.ndarray:
    """N values of a type with the awkward ones in front, arranged differently for each operand."""
    rng = np.random.default_rng(seed)
    if kind is F:
        x = (rng.standard_normal(N) * 2.0 ** rng.integers(-12, 12, N)).astype(F)
        odd = np.array(
            [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.4e38, 0.5, 1.5, 2.5, 65504, 448, 1e-8], F
        )
        x[:64] = np.roll(np.tile(odd, 4), 5 * seed)
        x[100:120] = odd[0:10].repeat(2)  # the same in every operand
        return x
    raw = rng.integers(0, 256, N * np.dtype(kind).itemsize, dtype=B).view(kind)
    odd = np.array([0, 1, 2, 31, 32, 33, 63, 64, 255, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], D).astype(kind)
    raw[:48] = np.roll(np.tile(odd, 4), 7 * seed)
    raw[64:96] |= raw.dtype.type(5)  # a warp whose lanes share bits
    raw[100:112] = odd  # the same in every operand
    return raw


def program(op: str, out, kinds: tuple) -> str:
    """PTX that applies one instruction to element t of every input in thread t."""
    letter = {2: "h", 4: "r", 8: "d"}
    body, k = ["mov.u32 %r60, %tid.x;"], len(kinds)
    text = op.replace("{d}", f"%{letter[np.dtype(out).itemsize]}20")
    for n, kind in enumerate((*kinds, out)):
        size = np.dtype(kind).itemsize
        reg = f"%{letter[size]}{n + 1}" if n < k else f"%{letter[size]}20"
        body += [f"ld.param.u64 %d5{n}, [p{n}];", f"mad.wide.u32 %d5{n}, %r60, {size}, %d5{n};"]
        if n < k:
            body.append(f"ld.global.b{8 * size} {reg}, [%d5{n}];")
            text = text.replace(f"{{{n}}}", reg)
        else:
            body += [text, f"st.global.b{8 * size} [%d5{n}], {reg};"]
    params = ", ".join(f".param .u64 p{n}" for n in range(k + 1))
    return (
        f"{HEAD}.visible .entry k({params})\n{{ .reg .pred %p<9>; .reg .b16 %h<30>;\n"
        ".reg .b32 %r<70>; .reg .b64 %d<70>;\n" + "\n".join(body) + "\nret;\n}\n"
    )


class Card:
    """The CUDA driver, through ctypes."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)

    def __call__(self, name: str, *args) -> None:
        code = getattr(self.lib, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else code}")

    def upload(self, data: np.ndarray) -> int:
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(data.nbytes + 256))
        self("cuMemcpyHtoD_v2", address, ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes))
        return address.value

    def download(self, address: int, data: np.ndarray) -> None:
        self(
            "cuMemcpyDtoH_v2", ctypes.c_void_p(data.ctypes.data), ctypes.c_uint64(address), ctypes.c_size_t(data.nbytes)
        )

    def kernel(self, text: str, name: str) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(text.encode()))
        self("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(name.encode()))
        return function

    def launch(
        self, function, grid, block, shared: int, params: bytes, sizes: list[tuple[int, int]], cluster=(1, 1, 1)
    ) -> None:
        """Launch with parameters given as one block; sizes: (offset, size) of each."""
        if shared > 48 * 1024:
            self("cuFuncSetAttribute", function, 8, shared)
        buffers = [ctypes.create_string_buffer(params[o : o + s], max(s, 1)) for o, s in sizes]
        array = (ctypes.c_void_p * len(buffers))(*(ctypes.addressof(b) for b in buffers))

        class Attribute(ctypes.Structure):
            _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint32 * 16)]

        class Config(ctypes.Structure):
            _fields_ = [
                ("dims", ctypes.c_uint32 * 6),
                ("shared", ctypes.c_uint32),
                ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(Attribute)),
                ("count", ctypes.c_uint32),
            ]

        attribute = Attribute(4, 0, (ctypes.c_uint32 * 16)(*cluster))
        config = Config(
            (ctypes.c_uint32 * 6)(*grid, *block), shared, None, ctypes.pointer(attribute), int(cluster != (1, 1, 1))
        )
        self("cuLaunchKernelEx", ctypes.byref(config), function, array, None)
        self("cuCtxSynchronize")


def differing(card: np.ndarray, ours: np.ndarray, ulps: int) -> int:
    """Elements that differ: NaN equals NaN; float32 within `ulps` units in the last place."""
    if card.dtype != F:
        return int(np.count_nonzero(card != ours))
    nan = np.isnan(card) & np.isnan(ours)
    if not ulps:
        return int(np.count_nonzero((card.view(W) != ours.view(W)) & ~nan))
    step = np.spacing(np.maximum(np.abs(card), F(2.0**-126)))
    with np.errstate(all="ignore"):
        close = (card == ours) | (np.abs(card.astype(float) - ours) <= ulps * step.astype(float))
    return int(np.count_nonzero(~close & ~nan))


def nan_halves(op: str, words: np.ndarray) -> np.ndarray:
    """Packed halves with every NaN made the same one."""
    if not any(t in op for t in ("f16x2", "bf16x2")) or words.dtype != W:
        if words.dtype == H and (".f16.f32" in op or ".bf16.f32" in op):
            top = 0x7C00 if ".f16.f32" in op and "bf16" not in op else 0x7F80
            return np.where((words & 0x7FFF) > top, 0x7FFF, words).astype(H)
        return words
    halves = words.view(H).copy()
    top = 0x7F80 if "bf16x2" in op else 0x7C00
    halves[(halves & 0x7FFF) > top] = 0x7FFF
    return halves.view(W)


def ops() -> int:
    """Run every program on the card and here; returns how many differ."""
    card, bad = Card(), 0
    for op, out, kinds, ulps in PROGRAMS:
        sources = [inputs(k, n + 1) for n, k in enumerate(kinds)]
        if "div" in op or "rem" in op:
            sources[1][sources[1] == 0] = 3  # PTX leaves an integer division by zero open
        text, ours, theirs = program(op, out, kinds), np.zeros(N, out), np.zeros(N, out)
        try:
            found = ptxsim.run(ptxsim.launch(ptxsim.Module.from_text(text), "k", (1,), (N,), (*sources, ours))).findings
            addresses = [card.upload(x) for x in (*sources, theirs)]
            params = b"".join(a.to_bytes(8, "little") for a in addresses)
            card.launch(
                card.kernel(text, "k"), (1, 1, 1), (N, 1, 1), 0, params, [(8 * k, 8) for k in range(len(addresses))]
            )
            card.download(addresses[-1], theirs)
        except (RuntimeError, ptxsim.PtxError) as error:
            print(f"ERROR {op.split()[0]}: {error}")
            bad += 1
            continue
        n = differing(nan_halves(op, theirs), nan_halves(op, ours), ulps)
        bad += bool(n or found)
        first = ""
        if n:
            at = int(np.flatnonzero(theirs != ours)[0])
            first = f" first at {at}: card {theirs[at]!r}, here {ours[at]!r}, inputs {[x[at] for x in sources]!r}"
        note = (f" in {n} of {N}" if n else "") + (f" (within {ulps} ulp)" if ulps else "")
        print(f"{'DIFFERS' if n else 'equal  '} {op}{note}{first}")
    print(f"{len(PROGRAMS) - bad} of {len(PROGRAMS)} programs agree")
    return bad


def record(path: Path) -> int:
    """Run sm_90a kernels in ptxsim and keep what a card needs to repeat them."""
    import torch

    results = ROOT / "results/ptxsim"
    torch.manual_seed(7)

    def nans(*shape: int) -> torch.Tensor:
        return torch.full(shape, float("nan")).half()

    cases = []
    for part, dtype in (("f16", torch.float16), ("fp8", torch.float8_e4m3fn)):
        a, b = (torch.randn(1, x, 256).to(dtype).permute(1, 2, 0) for x in (192, 160))
        cases.append((f"hopper_gemm/{part}", "gemm", (a, b, nans(1, 192, 160).permute(1, 2, 0)), 2e-3))
    q, k, v, o = *(torch.randn(1, 256, 2, 128).half() for _ in range(3)), nans(1, 256, 2, 128)
    five = [x.permute(1, 3, 2, 0).unsqueeze(2) for x in (q, k, v, o)]
    lse = torch.zeros(1, 2, 1, 1, 256).permute(4, 2, 3, 1, 0)
    cases.append(
        ("hopper_fmha", "fmha", (*five, lse, 128**-0.5 * 1.4426950408889634, 128**-0.5, 1.0, None, None), 2e-3)
    )
    a, b = torch.randn(37, 100), torch.randn(37, 100)
    cases.append(("elementwise_add_sm90", "elementwise_add", (a, b, torch.zeros(37, 100)), 0.0))
    kept = []
    for name, function, args, tolerance in cases:
        folder = results / name
        if not folder.exists():
            print(f"skipped {name}: {folder} is not there (compile it with tests/ptxsim/drivers.py)")
            continue
        module = ptxsim.Module.from_file(folder / "kernel.ptx")
        launches = ptxsim.capture(folder / "kernel.o", function, args, module)
        memory = launches[0].memory
        before = [(x.name, x.address, x.bytes[x.slack : x.limit].copy()) for x in memory.allocations]
        result = ptxsim.run(launches)
        after = [x.bytes[x.slack : x.limit].copy() for x in memory.allocations]
        kept.append(
            {
                "name": name,
                "text": (folder / "kernel.ptx").read_text(),
                "tolerance": tolerance,
                "before": before,
                "after": after,
                "launches": [
                    (
                        x.name,
                        x.grid,
                        x.block,
                        x.cluster,
                        x.dynamic_shared,
                        x.params,
                        [(p.offset, p.size) for p in x.kernel.params],
                    )
                    for x in launches
                ],
            }
        )
        print(f"recorded {name}: {len(result.findings)} findings")
    path.write_bytes(pickle.dumps(kept))
    return 0


def kernels(path: Path) -> int:
    """Repeat recorded kernels on the card; pointers in parameters and descriptors are moved to the card's buffers."""
    card, bad = Card(), 0
    for case in pickle.loads(path.read_bytes()):
        moved = [(address, data.nbytes, card.upload(data)) for _, address, data in case["before"]]
        for name, grid, block, cluster, shared, params, sizes in case["launches"]:
            words = np.frombuffer(params.ljust(-(-len(params) // 8) * 8, b"\0"), D).copy()
            for host, size, device in moved:
                inside = (words >= D(host)) & (words < D(host + size))
                words[inside] += D((device - host) % (1 << 64))
            card.launch(card.kernel(case["text"], name), grid, block, shared, words.tobytes(), sizes, cluster)
        for (label, _, data), ours, (_, _, device) in zip(case["before"], case["after"], moved, strict=True):
            theirs = np.zeros_like(data)
            card.download(device, theirs)
            equal = float(np.mean(theirs == ours))
            note = "equal" if equal == 1 else f"{100 * equal:.3f} % of bytes equal"
            if equal < 1:
                kind = np.float16 if case["tolerance"] else F
                a, b = theirs.view(kind).astype(float), ours.view(kind).astype(float)
                worst = float(np.nanmax(np.abs(a - b) / (1 + np.abs(a))))
                note += f", largest difference {worst:.1e} of 1 + |value|"
                bad += not worst <= case["tolerance"]
            print(f"{case['name']} {label}: {note}")
    return bad


if __name__ == "__main__":
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == "ops":
        sys.exit(min(ops(), 99))
    if command in ("record", "kernels") and len(sys.argv) > 2:
        sys.exit(min({"record": record, "kernels": kernels}[command](Path(sys.argv[2])), 99))
    sys.exit(__doc__)
