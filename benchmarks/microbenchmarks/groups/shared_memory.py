"""Shared memory: latency of loads and atomics, bandwidth of 16-byte loads."""

from collections.abc import Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "shared_memory"
SIZE = 64 * 1024
UNROLL = 16
WARPS = 16
DECLARE = ".reg .b32 %at;\n  " + registers("b32", "%v", 4 * UNROLL)
SELF = """
  shl.b32 %j, %thread, 4;  add.u32 %at, %base, %j;  st.shared.v4.u32 [%at], {%at, %at, %at, %at};
"""
# Each warp touches 512 B · UNROLL of its own, no bank conflicts.
APART = """
  shl.b32 %at, %lane, 4;  and.b32 %i, %warp, 7;  mad.lo.u32 %at, %i, 512, %at;  add.u32 %at, %base, %at;"""


def kernels() -> list[str]:
    """Chains of loads and of atomics, each lane on its own words, and independent loads."""
    chase = "\n  ".join(["ld.volatile.shared.u32 %at, [%at];"] * UNROLL)
    atomic = "\n  ".join(["atom.shared.add.u32 %v0, [%at], %v0;"] * UNROLL)
    vectors = ["{" + ", ".join(f"%v{4 * i + k}" for k in range(4)) + "}" for i in range(UNROLL)]
    loads = [f"ld.volatile.shared.v4.u32 {vectors[i]}, [%at+{512 * i}];" for i in range(UNROLL)]
    loads += [f"xor.b32 %sink, %sink, %v{4 * i};" for i in range(UNROLL)]
    return [
        timed("chase", chase, setup=DECLARE + SELF, after="mov.u32 %sink, %at;"),
        timed("atomic", atomic, setup=DECLARE + SELF + "mov.u32 %v0, %thread;", after="mov.u32 %sink, %v0;"),
        timed("loads", "\n  ".join(loads), setup=DECLARE + APART),
    ]


def expected() -> dict[str, tuple[str, int]]:
    return {"chase": ("LDS", UNROLL), "atomic": ("ATOMS", UNROLL), "loads": ("LDS", UNROLL)}


def _latency(kernel: str, what: str) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        return gpu.slope(kernel, Shape(shared=SIZE), Arguments(), (32, 160), UNROLL)

    return Benchmark("shared latency", {"instruction": what, "warps": 1}, "cycles", measure)


def _rate() -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        shape = Shape(block=32 * WARPS, shared=SIZE)
        return gpu.slope("loads", shape, Arguments(), (32, 160), UNROLL * WARPS * 512, rate=True)

    what = {"instruction": "ld.shared.v4.u32", "warps": WARPS}
    return Benchmark("shared bandwidth", what, "bytes per cycle of an SM", measure)


def benchmarks() -> Iterator[Benchmark]:
    yield _latency("chase", "ld.shared.u32")
    yield _latency("atomic", "atom.shared.add.u32")
    yield _rate()
