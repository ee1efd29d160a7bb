"""Single calls after a flush of L2: start-up costs, and remaining L2 contents.

NVBench measures cold calls so. The GPU is held by a kernel that spins; behind it lie the flush, an event, the call and
an event.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape, checked
from benchmarks.microbenchmarks.groups.global_memory import BLOCK, LARGE, UNROLL, _laps
from benchmarks.microbenchmarks.groups.launches import HOLD_CYCLES, HOLD_PLACE, PLACE, PROCESSORS, SPIN
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "cold"
MIB = 1 << 20
CLEAN_STEPS = 64  # of the grid: 277 MB, some four times what L2 holds
PARAMETER_BYTES = (0, 512, 3072)  # besides the usual ones
FLUSHES = ("none", "memset", "memset, then reads")
REPETITIONS = 11


class Parameters:
    """What `GPU.launch` hands to a kernel as its first parameter."""

    def __init__(self, size: int) -> None:
        self._bytes = (ctypes.c_uint8 * size)()

    def getPtr(self) -> int:
        return ctypes.addressof(self._bytes)


def kernels() -> list[str]:
    out = [timed("spin", SPIN, setup=PLACE, keep=False), _laps(False), _laps(True)]
    for size in PARAMETER_BYTES:
        text = timed(f"nothing_{size}", "", setup=PLACE, keep=False, tensor_map=size > 0)
        out.append(text.replace("p_map[128]", f"p_map[{size}]"))
    return out


def expected() -> dict[str, tuple[str, int]]:
    return {"laps": ("LDG", UNROLL), "laps_copy": ("STG", UNROLL), "nothing_0": ("CS2R|S2UR|S2R", 1)}


def _flush(gpu: Gpu, flush: str) -> Callable[[], None]:
    """Hold the GPU, then fill L2 as `flush` requests.

    L2 is left as it was, full of stored bytes, or full of read ones.
    """
    size = int(gpu.describe()["l2_bytes"])
    target, other = gpu.buffer("l2", 1 << 28), gpu.buffer("clean", 1 << 29)

    def put() -> None:
        gpu.launch("spin", Shape(), Arguments(c=HOLD_CYCLES // 16, e=HOLD_PLACE), 1)
        if flush != "none":
            checked(gpu.driver.cuMemsetD8Async(target, 0, size, gpu.stream))
        if flush == "memset, then reads":
            grid = Shape(2 * gpu.processors, BLOCK)
            step = 2 * gpu.processors * BLOCK * 16
            gpu.launch("laps", grid, Arguments(a=other, c=CLEAN_STEPS * step), CLEAN_STEPS // UNROLL)

    return put


def _around(gpu: Gpu, flush: str, work: Callable[[], None]) -> Reading:
    hold = _flush(gpu, flush)
    gpu.microseconds(work, hold)
    values = sorted(gpu.microseconds(work, hold) for _ in range(REPETITIONS))
    return Reading(values[REPETITIONS // 2], values[1], values[-2], REPETITIONS, None)


def _start(flush: str, shape: Shape, size: int) -> Benchmark:
    """Event to event around a kernel that does nothing."""

    def measure(gpu: Gpu) -> Reading:
        arguments = Arguments(tensor_map=Parameters(size) if size else None)
        return _around(gpu, flush, lambda: gpu.launch(f"nothing_{size}", shape, arguments, 1))

    parameters = {"flush": flush, "ctas": shape.grid, "threads": shape.block, "shared_bytes": shape.shared}
    return Benchmark("events around a lone launch", parameters | {"parameter_bytes": size}, "µs", measure)


def _moved(flush: str, steps: int, copies: bool) -> Benchmark:
    """Return the time of a kernel that reads each byte once, event to event.

    It reads (or copies) so many steps of the grid.
    """

    def measure(gpu: Gpu) -> Reading:
        shape, step = Shape(2 * gpu.processors, BLOCK), 2 * gpu.processors * BLOCK * 16
        arguments = Arguments(a=gpu.buffer("large", LARGE), b=gpu.buffer("other", LARGE // 4), c=steps * step)
        name = "laps_copy" if copies else "laps"
        reading = _around(gpu, flush, lambda: gpu.launch(name, shape, arguments, steps // UNROLL))
        reading.also["bytes"] = steps * step * (2 if copies else 1)
        return reading

    parameters = {"flush": flush, "steps_of_the_grid": steps, "kernel": "copy" if copies else "read"}
    return Benchmark("events around a lone read", parameters, "µs", measure)


def benchmarks() -> Iterator[Benchmark]:
    for flush in FLUSHES:
        for shape in (Shape(1, 128), Shape(PROCESSORS, 128), Shape(PROCESSORS, 384, 200 * 1024)):
            for size in PARAMETER_BYTES:
                yield _start(flush, shape, size)
        for steps in (8, 16, 32, 64):
            for copies in (False, True):
                yield _moved(flush, steps, copies)
