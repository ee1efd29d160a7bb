"""Periods, gaps, waves and starts of launches by stream, graph and dependent launch.

Launches through a stream are queued behind a kernel that keeps the GPU busy, so that the host's pace does not matter.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import STAMPS, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading, Run

NAME = "launches"
PROCESSORS = 132  # grids of as many CTAs as an H100 or H200 has SMs
COUNT = 200  # launches in a sequence
SPIN_CYCLES = 8000
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
    early = f"griddepcontrol.launch_dependents;  {wait}"
    return [
        timed("spin", SPIN, setup=PLACE, select=wait, keep=False),
        timed("spin_early", SPIN, setup=PLACE, select=early, keep=False),
        timed("nothing", "", setup=PLACE, select=wait, keep=False),
        timed("nothing_early", "", setup=PLACE, select=early, keep=False),
    ]


def expected() -> dict[str, tuple[str, int]]:
    return {"spin": ("CS2R", 1), "spin_early": ("PREEXIT", 1)}


def _words(shape: Shape) -> int:
    return shape.grid * max(1, shape.block // 32) * STAMPS


def _sequence(gpu: Gpu, kernel: str, shape: Shape, spin: int) -> list[Callable[[], None]]:
    """COUNT launches; the i-th writes its stamps at the i-th place of the output."""
    return [
        lambda i=i: gpu.launch(kernel, shape, Arguments(c=spin, e=8 * _words(shape) * i), 1)  # type: ignore[misc]
        for i in range(COUNT)
    ]


def _hold(gpu: Gpu) -> None:
    gpu.launch("spin", Shape(), Arguments(c=HOLD_CYCLES, e=HOLD_PLACE), 1)


def _period(shape: Shape, kernel: str, graph: bool) -> Benchmark:
    """Return the period of launches in a sequence, and the gap between two.

    Both are by stamps, the gap from last end to next start.
    """
    spin = SPIN_CYCLES if kernel.startswith("spin") else 0

    def measure(gpu: Gpu) -> Reading:
        launches = _sequence(gpu, kernel, shape, spin)
        replay = gpu.graph(launches) if graph else lambda: [put() for put in launches] and None
        replay()
        gpu.synchronize()
        periods, gaps, inside, spread = [], [], [], []
        for _ in range(5):
            _hold(gpu)
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

    parameters = _parameters(shape, kernel) | {"spin_cycles": spin, "through": "graph" if graph else "stream"}
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


def _waves(block: int, shared: int, per_processor: int, cluster: int) -> Benchmark:
    """Return the slope over the number of waves of CTAs that spin 2,000 cycles."""

    def measure(gpu: Gpu) -> Reading:
        processors = gpu.processors // cluster * cluster
        values = []
        for _ in range(5):
            spans = []
            for waves in (4, 12):
                shape = Shape(processors * per_processor * waves, block, shared, cluster)
                spans.append(gpu.run("spin", shape, Arguments(c=2000), 1).nanoseconds)
            values.append((spans[1] - spans[0]) / 8)
        values.sort()
        return Reading(values[2], values[0], values[-1], 5, None)

    parameters = {"threads": block, "shared_bytes": shared, "ctas_per_sm": per_processor, "cluster": cluster}
    return Benchmark("wave of CTAs that spin 2,000 cycles", parameters, "ns", measure)


def _start(shape: Shape) -> Benchmark:
    """Measure the spread of CTAs' starts, and how many start in the first µs.

    The spread is in a launch and in a cluster.
    """

    def measure(gpu: Gpu) -> Reading:
        gpu.run("spin", shape, Arguments(c=SPIN_CYCLES), 1)
        runs = [gpu.run("spin", shape, Arguments(c=SPIN_CYCLES), 1) for _ in range(9)]
        spreads = sorted(run.start_spread_ns for run in runs)
        skews, first = [], []
        for run in runs:
            starts = run.stamps[:, :, 2].min(axis=1)
            first.append(int((starts < starts.min() + 1000).sum()))
            clusters = starts.reshape(-1, shape.cluster)
            skews.append(float(np.mean(clusters.max(axis=1) - clusters.min(axis=1))))
        also = {"within_a_cluster_ns": statistics.median(skews), "ctas_in_first_us": statistics.median(first)}
        return Reading(spreads[4], spreads[0], spreads[-1], 9, runs[-1].clock_mhz, also)

    return Benchmark("spread of the CTAs' starts", _parameters(shape, "spin"), "ns", measure)


def _lone(shape: Shape, kernel: str) -> Benchmark:
    """Return a launch's event time behind a hold, less its stamps.

    A kernel holds the GPU before.
    """
    spin = SPIN_CYCLES if kernel == "spin" else 0

    def measure(gpu: Gpu) -> Reading:
        past, whole = [], []
        for _ in range(15):
            around = gpu.microseconds(
                lambda: gpu.launch(kernel, shape, Arguments(c=spin), 1),
                lambda: gpu.launch("spin", Shape(), Arguments(c=HOLD_CYCLES // 16, e=HOLD_PLACE), 1),
            )
            inside = Run.of(gpu.read(gpu.out, _words(shape)), shape.grid, max(1, shape.block // 32)).nanoseconds
            whole.append(around)
            past.append(around - inside / 1000)
        past.sort()
        return Reading(past[7], past[1], past[-2], 15, None, {"event_to_event_us": statistics.median(whole)})

    parameters = _parameters(shape, kernel) | {"spin_cycles": spin}
    return Benchmark("events around one launch, beyond its stamps", parameters, "µs", measure)


def benchmarks() -> Iterator[Benchmark]:
    one, plain = Shape(1, 128), Shape(PROCESSORS, 128)
    full, pairs = Shape(PROCESSORS, 384, 200 * 1024), Shape(PROCESSORS, 384, 200 * 1024, 2)
    crowd = Shape(8 * PROCESSORS, 128)
    for graph in (False, True):
        for shape in (one, plain, full, pairs, crowd):
            yield _period(shape, "nothing", graph)
            yield _period(shape, "spin", graph)
        for base in (one, plain, full, pairs):
            early = Shape(base.grid, base.block, base.shared, base.cluster, early=True)
            for kernel in ("spin", "spin_early", "nothing_early"):
                yield _period(early, kernel, graph)
    for waves in (
        (128, 0, 16, 1),
        (1024, 0, 2, 1),
        (384, 200 * 1024, 1, 1),
        (256, 100 * 1024, 2, 1),
        (384, 200 * 1024, 1, 2),
    ):
        yield _waves(*waves)
    for shape in (
        one,
        plain,
        full,
        pairs,
        crowd,
        Shape(PROCESSORS, 384, 200 * 1024, 4),
        Shape(128, 384, 200 * 1024, 8),
    ):
        yield _start(shape)
        yield _lone(shape, "spin")
    for shape in (one, plain, full, pairs):
        yield _lone(shape, "nothing")
