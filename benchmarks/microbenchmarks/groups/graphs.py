"""Graphs of few launches: their cost beyond the launches.

Graph follows graph at the GPU's pace. A single one of one or three launches is timed between two events. Calls are
timed in such graphs: one of some ten calls, replayed many times, or one of one call behind a flush of L2.
"""

import ctypes
from collections.abc import Callable, Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups.cold import _around
from benchmarks.microbenchmarks.groups.launches import PLACE, PROCESSORS, SPIN, _parameters, hold
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "graphs"
CALLS = (8, 16, 32)  # launches in a graph
MOST_NODES = 320  # of all graphs behind one hold
REPETITIONS = 5
PARAMETER_BYTES = 512  # of a call with four tensor maps


class Parameters:
    """What `GPU.launch` hands to a kernel as its first parameter."""

    def __init__(self, size: int) -> None:
        self._bytes = (ctypes.c_uint8 * size)()

    def getPtr(self) -> int:
        return ctypes.addressof(self._bytes)


def kernels() -> list[str]:
    many = timed("nothing_many", "", setup=PLACE, keep=False, tensor_map=True)
    return [
        timed("spin", SPIN, setup=PLACE, keep=False),
        timed("nothing", "", setup=PLACE, keep=False),
        many.replace("p_map[128]", f"p_map[{PARAMETER_BYTES}]"),
    ]


def expected() -> dict[str, tuple[str, int]]:
    return {"spin": ("CS2R", 1), "nothing": ("CS2R|S2UR|S2R", 1)}


def _graph(gpu: Gpu, kernel: str, shape: Shape, spin: int, calls: int) -> Callable[[], None]:
    """Capture so many launches into a graph; return a function that replays it."""
    tensor_map = Parameters(PARAMETER_BYTES) if kernel == "nothing_many" else None
    arguments = Arguments(c=spin, tensor_map=tensor_map)
    return gpu.graph([lambda: gpu.launch(kernel, shape, arguments, 1)] * calls)


def _replayed(shape: Shape, kernel: str, spin: int, calls: int) -> Benchmark:
    """Microseconds of a graph among many that the host has enqueued beforehand."""

    def measure(gpu: Gpu) -> Reading:
        replay, count = _graph(gpu, kernel, shape, spin, calls), max(MOST_NODES // calls, 8)

        def work() -> None:
            for _ in range(count):
                replay()

        work()
        return Reading.of(gpu.microseconds(work, lambda: hold(gpu, 2)) / count for _ in range(REPETITIONS))

    named = _parameters(shape, kernel) | {"kernel": kernel, "spin_cycles": spin, "launches": calls}
    return Benchmark("graph after graph", named, "µs per graph", measure)


def _single(shape: Shape, calls: int) -> Benchmark:
    """Event to event around one replay behind the flush."""

    def measure(gpu: Gpu) -> Reading:
        return _around(gpu, "memset", _graph(gpu, "nothing", shape, 0, calls))

    named = {"flush": "memset"} | _parameters(shape, "nothing") | {"kernel": "nothing", "spin_cycles": 0}
    return Benchmark("events around a lone graph", named | {"launches": calls, "through": "graph"}, "µs", measure)


def benchmarks() -> Iterator[Benchmark]:
    one, plain, full = Shape(1, 128), Shape(PROCESSORS, 128), Shape(PROCESSORS, 384, 200 * 1024)
    for calls in CALLS:
        for shape in (one, full):
            for spin in (2000, 8000):
                yield _replayed(shape, "spin", spin, calls)
        yield _replayed(plain, "nothing", 0, calls)
        yield _replayed(plain, "nothing_many", 0, calls)
    for shape, calls in ((one, 1), (one, 3), (full, 1)):
        yield _single(shape, calls)
