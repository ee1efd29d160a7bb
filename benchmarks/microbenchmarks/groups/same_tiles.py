"""Tiles that all SMs need one after the other.

They are read warm, and behind a flush, where one SM brings a tile from DRAM and the others wait for it. Also code that
is larger than the SMs' caches, behind a flush.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups import instruction_fetch
from benchmarks.microbenchmarks.groups.cold import _flush
from benchmarks.microbenchmarks.groups.first_use import COLD_REPETITIONS, FLUSHES, _inside
from benchmarks.microbenchmarks.groups.global_memory import LARGE
from benchmarks.microbenchmarks.groups.launches import PLACE, PROCESSORS, SPIN
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "same_tiles"
TILE = 4096
BLOCK = TILE // 16
TIMES = (4, 20)  # tiles of a launch
CODE_KIB = (256, 384)
MIDDLE = COLD_REPETITIONS // 2  # of what is sorted


def _loads() -> str:
    """Load a tile by all threads of a CTA; the next address depends on it."""
    setup = """.reg .b32 %v<4>;
  mul.wide.u32 %wide, %thread, 16;  add.u64 %a, %a, %wide;"""
    body = f"""
  ld.global.cg.v4.u32 {{%v0, %v1, %v2, %v3}}, [%a];
  and.b32 %i, %v3, %e;  mul.wide.u32 %wide, %i, 1;  add.u64 %a, %a, %wide;  add.u64 %a, %a, {TILE};
  xor.b32 %sink, %sink, %v0;  bar.sync 0;"""
    return timed(
        "tiles_loaded", body, setup=setup, after="setp.eq.u32 %p, %sink, 0x7fedcba9;  @%p bra END;", keep=False
    )


def _copies() -> str:
    """Copy a tile in bulk by one thread, with its barrier."""
    setup = """.reg .pred %ready;  .reg .b32 %parity, %place;
  add.u32 %place, %base, 1024;  mov.u32 %parity, 0;
  setp.ne.u32 %p, %thread, 0;  @%p bra MADE;
  mbarrier.init.shared.b64 [%base], 1;  fence.mbarrier_init.release.cluster;  fence.proxy.async.shared::cta;
MADE:"""
    body = f"""
  setp.ne.u32 %p, %thread, 0;  @%p bra SKIP;
  mbarrier.arrive.expect_tx.shared.b64 _, [%base], {TILE};
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%a], {TILE}, [%base];
SKIP:
WAIT:
  mbarrier.try_wait.parity.shared.b64 %ready, [%base], %parity;  @!%ready bra WAIT;
  xor.b32 %parity, %parity, 1;  add.u64 %a, %a, {TILE};"""
    return timed(f"tiles_copied{TILE}", body, setup=setup, keep=False)


def kernels() -> list[str]:
    return [
        timed("spin", SPIN, setup=PLACE, keep=False),
        _loads(),
        _copies(),
        *(instruction_fetch._kernel(size) for size in CODE_KIB),
    ]


def expected() -> dict[str, tuple[str, int]]:
    result = {f"fetch{size}": ("FFMA", size * 1024 // 16) for size in CODE_KIB}
    return result | {"tiles_loaded": ("LDG", 1), f"tiles_copied{TILE}": ("UBLKCP", 1)}


def _cycles(gpu: Gpu, kernel: str, shape: Shape, arguments: Arguments, flush: str, times: int) -> np.ndarray:
    """Return cycles of single launches behind the flush: median and slowest CTA."""
    replay = gpu.graph([lambda: gpu.launch(kernel, shape, arguments, times)])
    hold = _flush(gpu, flush)
    gpu.microseconds(replay, hold)
    result = []
    for _ in range(COLD_REPETITIONS):
        gpu.microseconds(replay, hold)
        result.append(_inside(gpu, shape))
    return np.sort(np.array(result), axis=0)


def _reading(values: np.ndarray, also: dict[str, float]) -> Reading:
    """Of what `_cycles` gives: the median CTA's, (median), second and last but one launch."""
    return Reading(*(float(values[n, 0]) for n in (MIDDLE, 1, -2)), COLD_REPETITIONS, None, also)


def _tiles(kernel: str, shape: Shape, flush: str) -> Benchmark:
    """Cycles from tile to tile, by the slope between few and many."""

    def measure(gpu: Gpu) -> Reading:
        arguments = Arguments(a=gpu.buffer("large", LARGE))
        few, many = (_cycles(gpu, kernel, shape, arguments, flush, times) for times in TIMES)
        values = (many - few) / (TIMES[1] - TIMES[0])
        also = {"cycles_of_the_slowest": float(values[MIDDLE, 1]), "cycles_of_few": float(few[MIDDLE, 0])}
        return _reading(values, also)

    named = {"kernel": kernel, "ctas": shape.grid, "same": True, "flush": flush}
    return Benchmark("tiles one after the other", named, "cycles per tile", measure)


def _code(size: int) -> Benchmark:
    ctas, flush = PROCESSORS, "memset"

    def measure(gpu: Gpu) -> Reading:
        shape = Shape(ctas, 128)
        values = _cycles(gpu, f"fetch{size}", shape, Arguments(c=1, d=1), flush, 1) / (size * 1024 // 16)
        return _reading(values, {"slowest": float(values[MIDDLE, 1])})

    named = {"code_kib": size, "ctas": ctas, "flush": flush}
    return Benchmark("straight code once, alone", named, "cycles per instruction", measure)


def benchmarks() -> Iterator[Benchmark]:
    for kernel, block, shared in (("tiles_loaded", BLOCK, 0), (f"tiles_copied{TILE}", 32, 32 * 1024)):
        for grid in (1, 16, PROCESSORS, 2 * PROCESSORS):
            for flush in FLUSHES:
                yield _tiles(kernel, Shape(grid, block, shared), flush)
    for size in CODE_KIB:
        yield _code(size)
