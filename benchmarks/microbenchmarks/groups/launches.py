"""Periods, gaps and waves of launches in a graph."""

import statistics
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import STAMPS, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "launches"
PROCESSORS = 132  # grids of as many CTAs as an H100 or H200 has SMs
COUNT = 200  # launches in a sequence
HOLD_CYCLES = 16_000_000
HOLD_PLACE = (1 << 26) - 4096  # where the holding kernel writes its stamps: behind all others

# Spins %c cycles from the first stamp on: work of a known length.
SPIN = """
  .reg .b64 %now;
SPIN:
  mov.u64 %now, %clock64;  sub.u64 %now, %now, %t0;  cvt.u64.u32 %wide, %c;  setp.lt.u64 %p, %now, %wide;  @%p bra SPIN;
"""
PLACE = "mul.wide.u32 %wide, %e, 1;  add.u64 %out, %out, %wide;"  # stamps %e bytes further on


def kernels() -> list[str]:
    """griddepcontrol.wait is nothing where no early launch was asked for."""
    wait = "griddepcontrol.wait;"
    return [
        timed("spin", SPIN, setup=PLACE, select=wait, keep=False),
        timed("nothing", "", setup=PLACE, select=wait, keep=False),
        timed("nothing_early", "", setup=PLACE, select=f"griddepcontrol.launch_dependents;  {wait}", keep=False),
    ]


def expected() -> dict[str, tuple[str, int]]:
    return {"spin": ("CS2R", 1), "nothing_early": ("PREEXIT", 1)}


def _words(shape: Shape) -> int:
    return shape.grid * max(1, shape.block // 32) * STAMPS


def _sequence(gpu: Gpu, kernel: str, shape: Shape) -> list[Callable[[], None]]:
    """COUNT launches; the i-th writes its stamps at the i-th place of the output."""
    return [
        lambda i=i: gpu.launch(kernel, shape, Arguments(e=8 * _words(shape) * i), 1)  # type: ignore[misc]
        for i in range(COUNT)
    ]


def hold(gpu: Gpu, part: int = 1) -> None:
    """Keep the GPU busy for HOLD_CYCLES / `part`."""
    gpu.launch("spin", Shape(), Arguments(c=HOLD_CYCLES // part, e=HOLD_PLACE), 1)


def _period(shape: Shape, kernel: str) -> Benchmark:
    """Return the launches' period, and the gap from last end to next start."""

    def measure(gpu: Gpu) -> Reading:
        replay = gpu.graph(_sequence(gpu, kernel, shape))
        replay()
        gpu.synchronize()
        periods, gaps, inside, spread = [], [], [], []
        for _ in range(5):
            hold(gpu)
            replay()
            gpu.synchronize()
            rows = gpu.read(gpu.out, COUNT * _words(shape)).astype(np.int64).reshape(COUNT, -1, STAMPS)
            starts, ends = rows[:, :, 2].min(axis=1), rows[:, :, 3].max(axis=1)
            periods.append(float(starts[-1] - starts[0]) / (COUNT - 1) / 1000)
            gaps.append(float(np.median(starts[1:] - ends[:-1])))
            inside.append(float(np.median(ends - starts)))
            spread.append(float(np.median(rows[:, :, 2].max(axis=1) - starts)))
        also = {
            "gap_last_end_to_first_start_ns": statistics.median(gaps),
            "first_start_to_last_end_ns": statistics.median(inside),
            "first_to_last_start_ns": statistics.median(spread),
        }
        return Reading(statistics.median(periods), min(periods), max(periods), len(periods), None, also)

    parameters = _parameters(shape, kernel) | {"spin_cycles": 0, "through": "graph"}
    return Benchmark("launch period", parameters, "µs", measure)


def _parameters(shape: Shape, kernel: str) -> dict[str, object]:
    trigger = "trigger at start" if kernel.endswith("early") else "no trigger"
    return {
        "ctas": shape.grid,
        "threads": shape.block,
        "shared_bytes": shape.shared,
        "cluster": shape.cluster,
        "dependent_launch": trigger if shape.early else "no",
    }


def _wave() -> Benchmark:
    """Return the slope over the number of waves of CTAs that spin 2,000 cycles."""

    def measure(gpu: Gpu) -> Reading:
        values = []
        for _ in range(5):
            spans = []
            for waves in (4, 12):
                shape = Shape(gpu.processors * waves, 384, 200 * 1024)
                spans.append(gpu.run("spin", shape, Arguments(c=2000), 1).nanoseconds)
            values.append((spans[1] - spans[0]) / 8)
        return Reading.of(values)

    parameters = {"threads": 384, "shared_bytes": 200 * 1024, "ctas_per_sm": 1, "cluster": 1}
    return Benchmark("wave of CTAs that spin 2,000 cycles", parameters, "ns", measure)


def benchmarks() -> Iterator[Benchmark]:
    for ctas in (1, PROCESSORS, 8 * PROCESSORS):
        yield _period(Shape(ctas, 128), "nothing")
    yield _period(Shape(1, 128, early=True), "nothing_early")
    yield _wave()
