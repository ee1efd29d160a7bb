"""CUDA graphs of calls, and the time of their replays by events."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cutesnake.measure.clock import Stamper

GRAPH_MICROSECONDS = 200.0  # of work in a graph of several calls, so that the gap between two graphs (1 us) vanishes


@dataclass(frozen=True)
class Replays:
    """Median time of a call in microseconds, L2 hot, and the SM clock in MHz while the replays ran."""

    us: float
    sm_clock_mhz: float | None


def capture(call: Callable[[int], None], stream: Any, calls: int) -> Any:
    """A torch CUDA graph of `calls` calls, captured from `stream` alone."""
    import torch

    graph = torch.cuda.CUDAGraph(keep_graph=True)
    # The outer context puts the current stream back where a capture is broken off, which torch's own does not.
    with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
        for _ in range(calls):
            call(stream.cuda_stream)
    graph.instantiate()
    return graph


def kernel_nodes(graph: Any, copies: bool = False) -> int:
    """Kernel launches in a captured graph; with `copies`, what copies or fills memory without a kernel as well."""
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
    return max(1, min(32, math.ceil(GRAPH_MICROSECONDS / max(one_us, 1.0))))


def replay(graph: Any, stream: Any, calls: int, replays: int, stamper: Stamper) -> Replays:
    """Time `replays` replays of a graph of `calls` calls, with CUDA events around each."""
    import torch

    times = []
    span = stamper.span()
    with torch.cuda.stream(stream):
        for _ in range(3):
            graph.replay()
        span.begin(stream.cuda_stream)
        for _ in range(replays):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            times.append((begin, end))
        span.end(stream.cuda_stream)
    stream.synchronize()
    median_us = statistics.median(begin.elapsed_time(end) for begin, end in times) * 1000
    return Replays(median_us / calls, span.mhz())


def replay_cold(graph: Any, stream: Any, replays: int, flush: Callable[[], Any]) -> float:
    """Median microseconds of a lone replay of `graph`, after `flush` has been enqueued on `stream`.

    The flush takes longer than the host needs to enqueue the replay, so the card does not wait for the host.
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
    return statistics.median(begin.elapsed_time(end) for begin, end in times) * 1000
