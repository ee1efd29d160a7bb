"""What straight-line code costs beyond its issue slots, by its size: the instruction caches."""

from collections.abc import Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import lines, registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "instruction_fetch"
INSTRUCTION_BYTES = 16
SIZES = (4, 8, 16, 24, 32, 48, 64, 96, 112, 128, 160, 192, 256, 384)  # KiB
CHAINS = 8


def _kernel(size: int) -> str:
    setup = registers("f32", "%x", CHAINS) + " .reg .f32 %y, %z;\n  "
    setup += lines("add.u32 %i, %thread, {i}; cvt.rn.f32.u32 %x{i}, %i;", CHAINS)
    setup += "\n  cvt.rn.f32.u32 %y, %c; cvt.rn.f32.u32 %z, %d;"
    chains = [f"%x{i}" for i in range(CHAINS)]
    body = lines("fma.rn.f32 {x}, {x}, %y, %z;", size * 1024 // INSTRUCTION_BYTES, x=chains)
    after = lines("mov.b32 %i, %x{i}; xor.b32 %sink, %sink, %i;", CHAINS)
    return timed(f"fetch{size}", body, setup=setup, after=after)


def kernels() -> list[str]:
    return [_kernel(size) for size in SIZES]


def expected() -> dict[str, tuple[str, int]]:
    return {f"fetch{size}": ("FFMA", size * 1024 // INSTRUCTION_BYTES) for size in SIZES}


def _looped(size: int, warps: int, everywhere: bool) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        shape = Shape(grid=gpu.processors if everywhere else 1, block=32 * warps)
        instructions = size * 1024 // INSTRUCTION_BYTES
        rounds = max(2, 16_384 // instructions)
        return gpu.slope(f"fetch{size}", shape, Arguments(c=1, d=1), (rounds, 3 * rounds), instructions)

    parameters = {"code_kib": size, "warps": warps, "ctas": "all SMs" if everywhere else "one SM"}
    return Benchmark("loop over straight code", parameters, "cycles per instruction of each warp", measure)


def _first_pass(size: int) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        instructions = size * 1024 // INSTRUCTION_BYTES
        shape = Shape(grid=gpu.processors)
        first = gpu.run(f"fetch{size}", shape, Arguments(c=1, d=1), 1)
        again = gpu.run(f"fetch{size}", shape, Arguments(c=1, d=1), 1)
        values = [run.cycles / instructions for run in (first, again)]
        return Reading(values[0], values[0], values[0], 1, first.clock_mhz, {"second_launch": values[1]})

    parameters = {"code_kib": size, "warps": 1, "ctas": "all SMs"}
    return Benchmark("first pass after loading the module", parameters, "cycles per instruction", measure)


def benchmarks() -> Iterator[Benchmark]:
    for size in SIZES:
        yield _first_pass(size)  # before anything else runs this code
    for size in SIZES:
        yield _looped(size, 1, False)
        yield _looped(size, 4, True)
