"""Divisions rounded to nearest (div.rn.f32): the short way, and the subroutine that other operands take."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "divisions"
UNROLL = 16
CHAINS = 4
TIMES = (32, 160)
# Usual numbers, a divisor so large that operands have to be scaled, and two whose quotients are plain.
OPERANDS = {"3 / 1.5": (3, 1.5), "3 / 2^127": (3, 2.0**127), "3 / infinity": (3, float("inf")), "0 / 1.5": (0, 1.5)}
LANES = {"all": 32, "one": 1}


def _kernel(chains: int) -> str:
    """Build chains of x = y / (0 x + w).

    y and w are the floats %b and %c in the first %d lanes, else 3 and 1.5.
    """
    setup = [registers("f32", "%x", CHAINS), registers("f32", "%w", CHAINS), ".reg .f32 %y, %zero, %given;"]
    setup += ["mov.b32 %given, %c;  mov.b32 %zero, %e;  setp.lt.u32 %p, %lane, %d;"]
    setup += ["cvt.u32.u64 %i, %b;  mov.b32 %y, %i;  selp.f32 %y, %y, 0f40400000, %p;"]
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


def _division(operands: str, lanes: str, warps: int, chains: int) -> Benchmark:
    """Cycles of a division and the multiply-add before it, of a warp of each scheduler."""

    def measure(gpu: Gpu) -> Reading:
        arguments = Arguments(b=_bits(OPERANDS[operands][0]), c=_bits(OPERANDS[operands][1]), d=LANES[lanes])
        per = UNROLL * max(1, warps // 4)
        return gpu.slope(f"divide_{chains}", Shape(block=32 * warps), arguments, TIMES, per)

    parameters = {"operands": operands, "lanes": lanes, "warps": warps, "chains": chains}
    return Benchmark("div.rn.f32 and a multiply-add before it", parameters, "cycles", measure)


def benchmarks() -> Iterator[Benchmark]:
    for operands in OPERANDS:
        for lanes in LANES:
            for warps, chains in ((1, 1), (4, CHAINS), (8, CHAINS), (16, CHAINS)):
                yield _division(operands, lanes, warps, chains)
