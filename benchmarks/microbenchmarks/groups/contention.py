"""TMA copies of the same bytes by several CTAs, and tests of a finished phase."""

from collections.abc import Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups.global_memory import LARGE, _by_global_timer
from benchmarks.microbenchmarks.groups.tma import RESIDENT_ROWS, ROW_BYTES, SELECT, SHARED, _ring
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading, Run, slope_reading

NAME = "contention"
KIB = 1024
TESTS = 16

# The phase that is asked about is over: each test succeeds, and the next one asks with what it has answered.
COMPLETED = """
  .reg .pred %ready;  mov.u32 %j, 0;
  setp.ne.u32 %p, %thread, 0;  @%p bra SET;
  mbarrier.init.shared.b64 [%base], 1;  mbarrier.arrive.shared.b64 _, [%base];
SET:
"""
TEST = "mbarrier.try_wait.parity.shared.b64 %ready, [%base], %j;  selp.u32 %j, 0, 1, %ready;"


def _shared_ring() -> str:
    """Fetch like tma's ring on all SMs, equal rows for 2^%b consecutive CTAs."""
    first = "mul.lo.u32 %first_row, %cta, %e;"
    text = _ring("shared")
    select = SELECT.split("\n")[1]
    assert first in text and select in text
    shifted = "cvt.u32.u64 %i, %b;  shr.u32 %first_row, %cta, %i;  mul.lo.u32 %first_row, %first_row, %e;"
    return text.replace(first, shifted).replace(select, "")


def kernels() -> list[str]:
    tests = "\n  ".join([TEST] * TESTS)
    return [_shared_ring(), timed("completed", tests, setup=COMPLETED, after="xor.b32 %sink, %sink, %j;")]


def expected() -> dict[str, tuple[str, int]]:
    return {"ring_shared": ("UTMALDG", 2), "completed": ("SYNCS", TESTS)}


def _same_rows(shift: int, box: int, slots: int) -> Benchmark:
    """Boxes of which so many neighbouring CTAs fetch the same, from L2."""

    def measure(gpu: Gpu) -> Reading:
        tensor = gpu.tensor_map(gpu.buffer("large", LARGE), 64, LARGE // ROW_BYTES, box // ROW_BYTES)
        arguments = Arguments(a=64, b=shift, c=box, d=slots, e=RESIDENT_ROWS, tensor_map=tensor)
        times = (256 * KIB // box * 16, 256 * KIB // box * 48)

        def run(rounds: int) -> Run:
            return gpu.run("ring_shared", Shape(gpu.processors, 32, SHARED), arguments, rounds)

        run(times[0])
        pairs = [(run(times[0]), run(times[1])) for _ in range(5)]
        return _by_global_timer(pairs, times, box * gpu.processors, gpu.processors)

    parameters = {"ctas_that_fetch_the_same": 1 << shift, "box_bytes": box, "boxes_in_flight": slots}
    return Benchmark("TMA from L2, the same bytes for several", parameters, "bytes per cycle of an SM", measure)


def _test() -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        times = (64, 192)
        shape = Shape(1, 32, KIB)
        pairs = [tuple(gpu.run("completed", shape, Arguments(), rounds) for rounds in times) for _ in range(5)]
        return slope_reading(pairs, times, TESTS)

    return Benchmark(
        "mbarrier test of a phase that is over, and a select", {"instruction": "try_wait"}, "cycles", measure
    )


def benchmarks() -> Iterator[Benchmark]:
    yield _test()
    for shift in (0, 1, 2, 7):
        yield _same_rows(shift, 32 * KIB, 4)
