"""Divisions rounded to nearest (div.rn.f32): the short way, and the subroutine that other operands take."""

import struct
from collections.abc import Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "divisions"
UNROLL = 16
CHAINS = 4
TIMES = (32, 160)
DIVISORS = {"3 / 1.5": 1.5, "3 / infinity": float("inf")}


def _kernel(chains: int) -> str:
    """Build chains of x = 3 / (0 x + w).

    w is the float %c in the first lane, else 1.5.
    """
    setup = [registers("f32", "%x", CHAINS), registers("f32", "%w", CHAINS), ".reg .f32 %y, %zero, %given;"]
    setup += ["mov.b32 %given, %c;  mov.b32 %zero, %e;  mov.b32 %y, %d;  setp.eq.u32 %p, %lane, 0;"]
    for i in range(chains):
        setup.append(f"cvt.rn.f32.u32 %x{i}, %thread;  selp.f32 %w{i}, %given, 0f3FC00000, %p;")
    one = [f"fma.rn.f32 %x{i}, %x{i}, %zero, %w{i};  div.rn.f32 %x{i}, %y, %x{i};" for i in range(chains)]
    body = "\n  ".join("\n  ".join(one) for _ in range(UNROLL // chains))
    after = "\n  ".join(f"mov.b32 %i, %x{i};  xor.b32 %sink, %sink, %i;" for i in range(chains))
    return timed(f"divide_{chains}", body, setup="\n  ".join(setup), after=after)


def kernels() -> list[str]:
    return [_kernel(chains) for chains in (1, CHAINS)]


def expected() -> dict[str, tuple[str, int]]:
    return {f"divide_{chains}": ("FCHK", UNROLL) for chains in (1, CHAINS)}


def _bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def _division(operands: str, warps: int, chains: int) -> Benchmark:
    """Cycles of a division and the multiply-add before it, of a warp of each scheduler."""

    def measure(gpu: Gpu) -> Reading:
        arguments = Arguments(c=_bits(DIVISORS[operands]), d=_bits(3.0))
        per = UNROLL * max(1, warps // 4)
        return gpu.slope(f"divide_{chains}", Shape(block=32 * warps), arguments, TIMES, per)

    parameters = {"operands": operands, "lanes": "one", "warps": warps, "chains": chains}
    return Benchmark("div.rn.f32 and a multiply-add before it", parameters, "cycles", measure)


def benchmarks() -> Iterator[Benchmark]:
    for operands in DIVISORS:
        for warps, chains in ((1, 1), (16, CHAINS)):
            yield _division(operands, warps, chains)
