"""CUDA graphs of calls, and the time of their replays by events.

A GPU may do short kernels some 4 % faster for MODE_SECONDS, at the same clocks, when another process begins to use a
GPU of the same machine (`docs/decisions/held_driver.md`); batches of half a second without a pause were seen to be
so as a whole. Seven replays, or fifteen, fit into that. So samples that are to be sustained go on for three times as
long, with short pauses, and short ones are taken at three moments so far apart: the median of either is not of those
MODE_SECONDS. The range of the samples is reported with it.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cutesnake.stages.measure.clock import Stamper

GRAPH_MICROSECONDS = 200.0  # of work in a graph of several calls, so that the gap between two graphs (1 us) vanishes
MODE_SECONDS = 0.05  # seen on H200: 0.038 to 0.047 s
MOMENTS = 3
SUSTAINED_SECONDS = MOMENTS * MODE_SECONDS
PART_SECONDS, PAUSE_SECONDS = 0.015, 0.0004  # sustained replays have a pause after every piece, too short to cool
PART_REPLAYS = 5  # of a piece at least: the first one of it waits for its launch
LEAST_REPLAYS = 15
SIZING_REPLAYS = 5


@dataclass(frozen=True)
class Replays:
    """Median time of a call in µs (L2 hot) and the SM clock in MHz.

    `range_percent` is how far the samples lie apart: the middle four fifths of sustained replays, all of several
    moments. None where there are too few to say.
    """

    us: float
    sm_clock_mhz: float | None
    range_percent: float | None = None


def capture(call: Callable[[int], None], stream: Any, calls: int) -> Any:
    """Return a torch CUDA graph of `calls` calls, captured from `stream` alone."""
    import torch

    graph = torch.cuda.CUDAGraph(keep_graph=True)
    # The outer context puts the current stream back where a capture is broken off, which torch's own does not.
    with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
        for _ in range(calls):
            call(stream.cuda_stream)
    graph.instantiate()
    return graph


def kernel_nodes(graph: Any, copies: bool = False) -> int:
    """Return a graph's kernel launches; with `copies`, also copies and fills."""
    from cuda.bindings import driver

    kind = driver.CUgraphNodeType
    counted = {kind.CU_GRAPH_NODE_TYPE_KERNEL}
    if copies:
        counted |= {kind.CU_GRAPH_NODE_TYPE_MEMCPY, kind.CU_GRAPH_NODE_TYPE_MEMSET}
    handle = driver.CUgraph(graph.raw_cuda_graph())
    _, _, count = driver.cuGraphGetNodes(handle)
    _, nodes, count = driver.cuGraphGetNodes(handle, count)
    return sum(driver.cuGraphNodeGetType(node)[1] in counted for node in nodes[:count])


def calls_per_graph(one_us: float) -> int:
    """Return how many calls of this duration a graph should hold."""
    return max(1, min(32, math.ceil(GRAPH_MICROSECONDS / max(one_us, 1.0))))


def filled(call: Callable[[int], None], single: Any, stream: Any, stamper: Stamper) -> tuple[Any, int]:
    """Return a graph of `calls_per_graph` calls and that number; `single` has one.

    A single replay of a short call is mostly its launch. So the number is found again from a graph of several.
    """
    graph, calls = single, calls_per_graph(replay(single, stream, 1, SIZING_REPLAYS, stamper).us)
    if calls > 1:
        graph = capture(call, stream, calls)
        better = calls_per_graph(replay(graph, stream, calls, SIZING_REPLAYS, stamper).us)
        if better != calls:
            graph, calls = capture(call, stream, better), better
    return graph, calls


def sustained(
    graph: Any, stream: Any, calls: int, one_us: float, stamper: Stamper, seconds: float = SUSTAINED_SECONDS
) -> Replays:
    """Return replays for so many seconds, in parts, if a call takes `one_us`."""
    in_a_second = 1e6 / (calls * one_us)
    replays = max(LEAST_REPLAYS, math.ceil(seconds * in_a_second))
    return replay(graph, stream, calls, replays, stamper, max(PART_REPLAYS, math.ceil(PART_SECONDS * in_a_second)))


def at_moments(sample: Callable[[], Replays]) -> Replays:
    """Return the median of samples at MOMENTS moments, MODE_SECONDS or more apart."""
    result, due = [], time.monotonic()
    for _ in range(MOMENTS):
        time.sleep(max(0.0, due - time.monotonic()))
        due = time.monotonic() + MODE_SECONDS
        result.append(sample())
    times = [one.us for one in result]
    middle = result[times.index(statistics.median(times))]
    return Replays(middle.us, middle.sm_clock_mhz, 100 * (max(times) - min(times)) / middle.us)


def replay(graph: Any, stream: Any, calls: int, replays: int, stamper: Stamper, split: int | None = None) -> Replays:
    """Time `replays` replays of a graph by CUDA events, pausing every `split`."""
    import torch

    times = []
    span = stamper.span()
    with torch.cuda.stream(stream):
        for _ in range(3):
            graph.replay()
        span.begin(stream.cuda_stream)
        for number in range(replays):
            if split and number and number % split == 0:
                stream.synchronize()
                time.sleep(PAUSE_SECONDS)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            times.append((begin, end))
        span.end(stream.cuda_stream)
    stream.synchronize()
    each_ms = [begin.elapsed_time(end) for begin, end in times]
    return Replays(statistics.median(each_ms) * 1000 / calls, span.mhz(), middle_range_percent(each_ms))


def middle_range_percent(times: Sequence[float]) -> float | None:
    """Return the spread of the middle four fifths, in percent; None for few samples."""
    if len(times) < LEAST_REPLAYS:
        return None
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return 100 * (tenths[-1] - tenths[0]) / statistics.median(times)


def replay_cold(graph: Any, stream: Any, replays: int, flush: Callable[[], Any]) -> Replays:
    """Time a single replay of `graph` after a `flush` on `stream`.

    The flush takes longer than the host needs to enqueue the replay, so the GPU does not wait for the host.
    """
    import torch

    times = []
    with torch.cuda.stream(stream):
        for _ in range(replays):
            flush()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            times.append((begin, end))
    stream.synchronize()
    return Replays(statistics.median(begin.elapsed_time(end) for begin, end in times) * 1000, None)
