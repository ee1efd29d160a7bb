"""Single calls after a flush of L2.

NVBench measures cold calls so. The GPU is held by a kernel that spins; behind it lie the flush, an event, the call and
an event.
"""

from collections.abc import Callable, Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape, checked
from benchmarks.microbenchmarks.groups.global_memory import BLOCK, LARGE, UNROLL, _laps
from benchmarks.microbenchmarks.groups.launches import PLACE, SPIN, hold
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "cold"
MIB = 1 << 20
CLEAN_STEPS = 64  # of the grid: 277 MB, some four times what L2 holds
REPETITIONS = 11


def kernels() -> list[str]:
    return [timed("spin", SPIN, setup=PLACE, keep=False), _laps()]


def expected() -> dict[str, tuple[str, int]]:
    return {"laps": ("LDG", UNROLL)}


def _flush(gpu: Gpu, flush: str) -> Callable[[], None]:
    """Hold the GPU, then fill L2 with stored or read bytes, or leave it."""
    size = int(gpu.describe()["l2_bytes"])
    target, other = gpu.buffer("l2", 1 << 28), gpu.buffer("clean", 1 << 29)

    def put() -> None:
        hold(gpu, 16)
        if flush != "none":
            checked(gpu.driver.cuMemsetD8Async(target, 0, size, gpu.stream))
        if flush == "memset, then reads":
            grid = Shape(2 * gpu.processors, BLOCK)
            step = 2 * gpu.processors * BLOCK * 16
            gpu.launch("laps", grid, Arguments(a=other, c=CLEAN_STEPS * step), CLEAN_STEPS // UNROLL)

    return put


def _around(gpu: Gpu, flush: str, work: Callable[[], None]) -> Reading:
    before = _flush(gpu, flush)
    gpu.microseconds(work, before)
    return Reading.of((gpu.microseconds(work, before) for _ in range(REPETITIONS)), left_out=1)


def _moved(flush: str, steps: int) -> Benchmark:
    """Time a kernel that reads each byte of so many grid steps once."""

    def measure(gpu: Gpu) -> Reading:
        shape, step = Shape(2 * gpu.processors, BLOCK), 2 * gpu.processors * BLOCK * 16
        arguments = Arguments(a=gpu.buffer("large", LARGE), c=steps * step)
        reading = _around(gpu, flush, lambda: gpu.launch("laps", shape, arguments, steps // UNROLL))
        reading.also["bytes"] = steps * step
        return reading

    parameters = {"flush": flush, "steps_of_the_grid": steps, "kernel": "read"}
    return Benchmark("events around a lone read", parameters, "µs", measure)


def benchmarks() -> Iterator[Benchmark]:
    for flush in ("memset", "memset, then reads"):
        for steps in (8, 16, 32, 64):
            yield _moved(flush, steps)
