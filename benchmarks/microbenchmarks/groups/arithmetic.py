"""Issue intervals and dependent latencies of ordinary instructions, and the clock itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "arithmetic"
UNROLL = 64
CHAINS = 4


@dataclass(frozen=True)
class Operation:
    """One PTX form of `steps` chained instructions.

    {x} and {w} are a chain's registers, y and z its other operands. `sass` begins the name of the machine instruction
    that each step must become.
    """

    name: str
    kind: str
    template: str
    sass: str
    steps: int = 1


OPERATIONS = (
    Operation("add.u32", "b32", "add.u32 {x}, {x}, {w}; add.u32 {w}, {w}, {x};", "IADD3|IMAD.IADD", 2),
    Operation("add.u64", "b64", "add.u64 {x}, {x}, {w}; add.u64 {w}, {w}, {x};", "IADD3|IMAD.X", 2),
    Operation("mad.lo.u32", "b32", "mad.lo.u32 {x}, {x}, {y}, {z};", "IMAD"),
    Operation("mad.wide.u32", "b64", "cvt.u32.u64 %t32, {x}; mad.wide.u32 {x}, %t32, %c, {x};", "IMAD.WIDE"),
    Operation("lop3.b32", "b32", "lop3.b32 {x}, {x}, {y}, {z}, 0xCA;", "LOP3"),
    Operation("shf.l.wrap.b32", "b32", "shf.l.wrap.b32 {x}, {x}, {y}, {z};", "SHF"),
    Operation("prmt.b32", "b32", "prmt.b32 {x}, {x}, {y}, {z};", "PRMT"),
    Operation("max.s32+min.s32", "b32", "max.s32 {x}, {x}, {y}; min.s32 {x}, {x}, {z};", "VIMNMX|IMNMX", 2),
    Operation("setp.lt.s32+selp", "b32", "setp.lt.s32 %q, {x}, {y}; selp.b32 {x}, {z}, {w}, %q;", "ISETP|SEL", 2),
    Operation("popc.b32", "b32", "popc.b32 {x}, {x};", "POPC"),
    Operation("fma.rn.f32", "f32", "fma.rn.f32 {x}, {x}, {y}, {z};", "FFMA"),
    Operation("add.f32", "f32", "add.f32 {x}, {x}, {y};", "FADD"),
    Operation("mul.f32", "f32", "mul.f32 {x}, {x}, {y};", "FMUL"),
    Operation("max.f32", "f32", "max.f32 {x}, {x}, {y}; min.f32 {x}, {x}, {z};", "FMNMX", 2),
    Operation("fma.rn.f64", "f64", "fma.rn.f64 {x}, {x}, {y}, {z};", "DFMA"),
    Operation("fma.rn.f16x2", "b32", "fma.rn.f16x2 {x}, {x}, {y}, {z};", "HFMA2"),
    Operation("fma.rn.bf16x2", "b32", "fma.rn.bf16x2 {x}, {x}, {y}, {z};", "HFMA2"),
    Operation("ex2.approx.ftz.f32", "f32", "ex2.approx.ftz.f32 {x}, {x};", "MUFU.EX2"),
    Operation("lg2.approx.ftz.f32", "f32", "lg2.approx.ftz.f32 {x}, {x};", "MUFU.LG2"),
    Operation(
        "rcp.approx.ftz.f32+add.f32", "f32", "rcp.approx.ftz.f32 {x}, {x}; add.f32 {x}, {x}, {y};", "MUFU.RCP|FADD", 2
    ),
    Operation("rsqrt.approx.ftz.f32", "f32", "rsqrt.approx.ftz.f32 {x}, {x};", "MUFU.RSQ"),
    Operation("tanh.approx.f32", "f32", "tanh.approx.f32 {x}, {x};", "MUFU.TANH"),
    Operation("cvt.rn.bf16x2.f32", "f32", "cvt.rn.bf16x2.f32 %t32, {x}, {y}; mov.b32 {x}, %t32;", "F2FP"),
    Operation("cvt.rn.f16x2.f32", "f32", "cvt.rn.f16x2.f32 %t32, {x}, {y}; mov.b32 {x}, %t32;", "F2FP"),
    Operation(
        "cvt.rn.satfinite.e4m3x2.f32",
        "f32",
        "cvt.rn.satfinite.e4m3x2.f32 %t16, {x}, {y}; mov.b32 %t32, {{%t16, %t16}}; mov.b32 {x}, %t32;",
        "F2FP",
    ),
    Operation(
        "cvt.rni.s32.f32+cvt.rn.f32.s32", "f32", "cvt.rni.s32.f32 %t32, {x}; cvt.rn.f32.s32 {x}, %t32;", "F2I|I2F", 2
    ),
    Operation("shfl.sync.bfly.b32", "b32", "shfl.sync.bfly.b32 {x}, {x}, 1, 31, -1;", "SHFL"),
    Operation("vote.sync.ballot.b32", "b32", "setp.lt.s32 %q, {x}, {y}; vote.sync.ballot.b32 {x}, %q, -1;", "VOTE"),
    Operation("redux.sync.add.u32", "b32", "redux.sync.add.u32 {x}, {x}, -1;", "REDUX"),
)
_WIDTH = {"b32": "u32", "f32": "f32", "b64": "u64", "f64": "f64"}


def _setup(operation: Operation, chains: int) -> str:
    """Chains and operands from numbers the compiler cannot know, small and odd."""
    kind = operation.kind
    out = [registers(kind, "%x", CHAINS), registers(kind, "%w", CHAINS), f".reg .{kind} %y, %z;"]
    out.append(".reg .b32 %t32; .reg .b16 %t16;")
    for name, offset in [("%y", 1), ("%z", 2), *((f"%{v}{i}", 3 + i) for i in range(chains) for v in "xw")]:
        out.append(f"mad.lo.u32 %i, %thread, %c, {offset};")
        if kind == "b32":
            out.append(f"mov.b32 {name}, %i;")
        elif kind == "b64":
            out.append(f"cvt.u64.u32 {name}, %i;")
        else:
            out.append(f"cvt.rn.{kind}.u32 {name}, %i;")
    return "\n  ".join(out)


def _sink(operation: Operation, chains: int) -> str:
    kind, out = operation.kind, []
    for i in range(chains):
        for v in "xw":
            if kind == "f64":
                out.append(f"cvt.rn.f32.f64 %fs, %{v}{i}; mov.b32 %i, %fs;")
            elif kind == "b64":
                out.append(f"mov.b64 {{%i, %j}}, %{v}{i}; xor.b32 %i, %i, %j;")
            else:
                out.append(f"mov.b32 %i, %{v}{i};")
            out.append("xor.b32 %sink, %sink, %i;")
    return ".reg .f32 %fs;\n  " + "\n  ".join(out)


def _kernel(index: int, operation: Operation, chains: int) -> str:
    rounds = UNROLL // (chains * operation.steps)
    one = [operation.template.format(x=f"%x{i}", w=f"%w{i}", y="%y", z="%z") for i in range(chains)]
    body = "\n  ".join("\n  ".join(one) for _ in range(rounds))
    return timed(f"op{index}_{chains}", body, setup=_setup(operation, chains), after=_sink(operation, chains))


def _branches() -> str:
    """Return a loop of one dependent multiply-add, the frame's counter and the branch."""
    return timed("branch", '.pragma "nounroll";\n  mad.lo.u32 %sink, %sink, %c, %c;')


def kernels() -> list[str]:
    return [_branches()] + [
        _kernel(i, operation, chains) for i, operation in enumerate(OPERATIONS) for chains in (1, CHAINS)
    ]


def expected() -> dict[str, tuple[str, int]]:
    """For each kernel, which machine instructions its loop must have and how many."""
    return {
        f"op{i}_{chains}": (operation.sass, UNROLL) for i, operation in enumerate(OPERATIONS) for chains in (1, CHAINS)
    }


def _latency(index: int) -> Benchmark:
    operation = OPERATIONS[index]

    def measure(gpu: Gpu) -> Reading:
        return gpu.slope(f"op{index}_1", Shape(), Arguments(c=1), (64, 320), UNROLL)

    return Benchmark("dependent latency", {"instruction": operation.name, "warps": 1}, "cycles", measure)


def _interval(index: int, warps: int) -> Benchmark:
    operation = OPERATIONS[index]

    def measure(gpu: Gpu) -> Reading:
        per_scheduler = max(1, warps // 4)
        shape = Shape(block=32 * warps)
        return gpu.slope(f"op{index}_{CHAINS}", shape, Arguments(c=1), (64, 320), UNROLL * per_scheduler)

    unit = "cycles per warp instruction of a scheduler"
    return Benchmark("issue interval", {"instruction": operation.name, "warps": warps}, unit, measure)


def _clock(ctas_per_processor: int, warps: int) -> Benchmark:
    index = next(i for i, operation in enumerate(OPERATIONS) if operation.name == "fma.rn.f32")

    def measure(gpu: Gpu) -> Reading:
        shape = Shape(grid=max(1, ctas_per_processor * gpu.processors), block=32 * warps)
        runs = [gpu.run(f"op{index}_{CHAINS}", shape, Arguments(c=1), 40_000) for _ in range(5)]
        clocks = sorted(run.clock_mhz for run in runs)
        return Reading(clocks[2], clocks[0], clocks[-1], 5, clocks[2], {"milliseconds": runs[-1].nanoseconds / 1e6})

    parameters = {"ctas": "all SMs" if ctas_per_processor else "one SM", "warps": warps, "load": "fma.rn.f32"}
    return Benchmark("SM clock", parameters, "MHz", measure)


def _loop(warps: int) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        return gpu.slope("branch", Shape(block=32 * warps), Arguments(c=3), (2000, 10_000), 1)

    what = {"instruction": "loop of mad.lo.u32, sub, setp, bra", "warps": warps}
    return Benchmark("short loop", what, "cycles per round", measure)


def benchmarks() -> Iterator[Benchmark]:
    yield _loop(1)
    yield _loop(16)
    yield _clock(0, 1)
    yield _clock(1, 16)
    for index in range(len(OPERATIONS)):
        yield _latency(index)
        yield _interval(index, 1)
        yield _interval(index, 16)
