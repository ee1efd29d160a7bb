"""Loads of a few KiB by all SMs at the same time.

Weights that every row needs are read so.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups.global_memory import BLOCK, LARGE, UNROLL, _load
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "hot_lines"
KIB = 1024
WIDTH = 16
TIMES = (64, 192)


def _same() -> str:
    """As global_memory's sweep, but every CTA goes over the same footprint from its beginning."""
    text = _load("cg", WIDTH)
    apart = "mul.lo.u32 %offset, %cta, %step;"
    assert apart in text and "ld_cg_16" in text
    return text.replace(apart, "mov.u32 %offset, 0;").replace("ld_cg_16", "ld_same")


def _alone() -> str:
    """Build a warp's chain of loads of the same line, for latency under load."""
    setup = "mul.wide.u32 %wide, %lane, 4;  add.u64 %a, %a, %wide;"
    one = "cvt.u64.u32 %wide, %sink;  add.u64 %address, %a, %wide;  ld.global.cg.u32 %sink, [%address];"
    return timed("same_line", "\n  ".join([one] * UNROLL), setup=setup)


def kernels() -> list[str]:
    return [_same(), _alone()]


def expected() -> dict[str, tuple[str, int]]:
    return {"ld_same": ("LDG", UNROLL), "same_line": ("LDG", UNROLL)}


def _bandwidth(kib: int, ctas_per_sm: int) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        arguments = Arguments(a=gpu.buffer("large", LARGE), c=kib * KIB - 1)
        grid = gpu.processors * ctas_per_sm
        per_round = BLOCK * UNROLL * WIDTH
        shape = Shape(grid, BLOCK)
        return gpu.slope(
            "ld_same", shape, arguments, TIMES, per_round * ctas_per_sm, gpu_bytes=per_round * grid, rate=True
        )

    parameters = {"footprint_kib": kib, "ctas_per_sm": ctas_per_sm}
    return Benchmark("loads of the same bytes by all SMs", parameters, "bytes per cycle of an SM", measure)


def _latency(ctas: int) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        zeros = gpu.buffer("zeros", 4 * KIB)
        import numpy as np

        gpu.write(zeros, np.zeros(512, np.uint64))
        return gpu.slope("same_line", Shape(ctas or gpu.processors, 32), Arguments(a=zeros), TIMES, UNROLL)

    return Benchmark("loads of one line", {"sms": ctas or "all"}, "cycles", measure)


def benchmarks() -> Iterator[Benchmark]:
    for kib in (2, 4, 16, 64, 256, 1024, 4096):
        for ctas_per_sm in (1, 2):
            yield _bandwidth(kib, ctas_per_sm)
    for ctas in (1, 0):
        yield _latency(ctas)
