"""Issue intervals and dependent latencies of ordinary instructions."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "arithmetic"
UNROLL = 64
CHAINS = 4
WARPS = 16  # of an issue interval, four a scheduler


@dataclass(frozen=True)
class Operation:
    """One PTX form of an instruction.

    {x} is a chain's register, y and z its other operands. `sass` begins the name of its machine instruction.
    """

    name: str
    kind: str
    template: str
    sass: str


OPERATIONS = (
    Operation("lop3.b32", "b32", "lop3.b32 {x}, {x}, {y}, {z}, 0xCA;", "LOP3"),
    Operation("fma.rn.f32", "f32", "fma.rn.f32 {x}, {x}, {y}, {z};", "FFMA"),
    Operation("fma.rn.f64", "f64", "fma.rn.f64 {x}, {x}, {y}, {z};", "DFMA"),
    Operation("fma.rn.bf16x2", "b32", "fma.rn.bf16x2 {x}, {x}, {y}, {z};", "HFMA2"),
    Operation("ex2.approx.ftz.f32", "f32", "ex2.approx.ftz.f32 {x}, {x};", "MUFU.EX2"),
    Operation("cvt.rn.bf16x2.f32", "f32", "cvt.rn.bf16x2.f32 %t32, {x}, {y}; mov.b32 {x}, %t32;", "F2FP"),
    Operation("shfl.sync.bfly.b32", "b32", "shfl.sync.bfly.b32 {x}, {x}, 1, 31, -1;", "SHFL"),
)


def _setup(operation: Operation, chains: int) -> str:
    """Chains and operands from numbers the compiler cannot know, small and odd."""
    kind = operation.kind
    out = [registers(kind, "%x", CHAINS), f".reg .{kind} %y, %z;  .reg .b32 %t32;"]
    for name, offset in [("%y", 1), ("%z", 2), *((f"%x{i}", 3 + i) for i in range(chains))]:
        out.append(f"mad.lo.u32 %i, %thread, %c, {offset};")
        out.append(f"mov.b32 {name}, %i;" if kind == "b32" else f"cvt.rn.{kind}.u32 {name}, %i;")
    return "\n  ".join(out)


def _sink(operation: Operation, chains: int) -> str:
    out = []
    for i in range(chains):
        double = operation.kind == "f64"
        out.append(f"cvt.rn.f32.f64 %fs, %x{i}; mov.b32 %i, %fs;" if double else f"mov.b32 %i, %x{i};")
        out.append("xor.b32 %sink, %sink, %i;")
    return ".reg .f32 %fs;\n  " + "\n  ".join(out)


def _kernel(index: int, operation: Operation, chains: int) -> str:
    one = [operation.template.format(x=f"%x{i}", y="%y", z="%z") for i in range(chains)]
    body = "\n  ".join(one * (UNROLL // chains))
    return timed(f"op{index}_{chains}", body, setup=_setup(operation, chains), after=_sink(operation, chains))


def kernels() -> list[str]:
    return [_kernel(i, operation, chains) for i, operation in enumerate(OPERATIONS) for chains in (1, CHAINS)]


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


def _interval(index: int) -> Benchmark:
    operation = OPERATIONS[index]

    def measure(gpu: Gpu) -> Reading:
        return gpu.slope(f"op{index}_{CHAINS}", Shape(block=32 * WARPS), Arguments(c=1), (64, 320), UNROLL * WARPS // 4)

    unit = "cycles per warp instruction of a scheduler"
    return Benchmark("issue interval", {"instruction": operation.name, "warps": WARPS}, unit, measure)


def benchmarks() -> Iterator[Benchmark]:
    for index in range(len(OPERATIONS)):
        yield _latency(index)
        yield _interval(index)
