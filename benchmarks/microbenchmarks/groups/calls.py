"""L2 contents from one launch to the next over the same bytes."""

from collections.abc import Callable, Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups.global_memory import LARGE, UNROLL, _laps
from benchmarks.microbenchmarks.groups.launches import PLACE, SPIN, hold
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "calls"
CALLS = 40  # in a graph
REPETITIONS = 5
# CTAs an SM, threads, and rounds of UNROLL steps of the grid that a launch reads: 17 to 104 MB.
GRIDS = ((1, 512, (2, 4, 5, 6, 8, 12)), (2, 512, (1, 2, 3, 4, 6)), (4, 256, (1, 2, 3, 4, 6)), (8, 128, (1, 2, 3, 4, 6)))


def kernels() -> list[str]:
    return [timed("spin", SPIN, setup=PLACE, keep=False), _laps()]


def expected() -> dict[str, tuple[str, int]]:
    return {"laps": ("LDG", UNROLL)}


def _again(ctas: int, threads: int, rounds: int) -> Benchmark:
    """Return µs of one of CALLS launches in a graph, each over the same bytes."""

    def measure(gpu: Gpu) -> Reading:
        shape = Shape(ctas * gpu.processors, threads)
        size = shape.grid * threads * 16 * UNROLL * rounds
        arguments = Arguments(a=gpu.buffer("large", LARGE), c=size)
        put: Callable[[], None] = lambda: gpu.launch("laps", shape, arguments, rounds)  # noqa: E731
        replay = gpu.graph([put] * CALLS)
        replay()

        values = (gpu.microseconds(replay, lambda: hold(gpu, 16)) / CALLS for _ in range(REPETITIONS))
        return Reading.of(values, {"footprint_bytes": size})

    parameters = {"ctas_per_sm": ctas, "threads": threads, "rounds": rounds, "kernel": "read"}
    return Benchmark("launches over the same bytes", parameters, "µs", measure)


def benchmarks() -> Iterator[Benchmark]:
    for ctas, threads, rounds in GRIDS:
        for count in rounds:
            yield _again(ctas, threads, count)
