"""Time a runner's `plan` for lengths that are on the GPU, warm and cold."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from cutesnake.stages.measure.clock import Stamper
from cutesnake.stages.measure.replay import at_moments, capture, filled, kernel_nodes, replay, replay_cold, sustained

REPLAYS = 15
FLUSH_BYTES = 512 << 20  # written before each cold plan: several times any L2 cache
NO_PLAN = {"plan_us": None, "plan_cold_us": None, "plan_kind": None}


def time_plan(runner: Any, stream: Any, stamper: Stamper) -> dict[str, Any]:
    """Return `plan_us` (warm), `plan_cold_us` (L2 flushed) and `plan_kind`.

    All None for a runner without `plan`. `graph`: replays of a CUDA graph of plans, so launches and copies on the GPU
    alone; of several one after the other when warm, of one when cold. `host`: wall time from the call on an idle stream
    until the stream is done, for a plan that waits for the GPU, which no capture allows, or one that launches nothing.
    """
    plan = runner.plan
    if plan is None:
        return NO_PLAN
    for _ in range(3):
        plan(stream.cuda_stream)
    stream.synchronize()
    single, flush = _captured(plan, stream, 1), flusher(stream)
    if single is None:
        return {
            "plan_us": host_us(plan, stream),
            "plan_cold_us": host_us(plan, stream, before=flush),
            "plan_kind": "host",
        }
    graph, calls = filled(plan, single, stream, stamper)
    about_us = replay(graph, stream, calls, REPLAYS, stamper).us
    return {
        "plan_us": sustained(graph, stream, calls, about_us, stamper).us,
        "plan_cold_us": at_moments(lambda: replay_cold(single, stream, REPLAYS, flush)).us,
        "plan_kind": "graph",
    }


def flusher(stream: Any) -> Callable[[], Any]:
    """Return a call that flushes the L2 cache, in the order of `stream`."""
    import torch

    waste = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def flush() -> None:
        with torch.cuda.stream(stream):
            waste.zero_()

    return flush


def _captured(plan: Any, stream: Any, calls: int) -> Any:
    """Return a graph of plans, None if capturing fails or catches no kernel."""
    try:
        graph = capture(plan, stream, calls)
    except RuntimeError:  # a capture that is broken off leaves the stream as it was
        return None
    return graph if kernel_nodes(graph) else None


def host_us(plan: Any, stream: Any, before: Callable[[], Any] | None = None) -> float:
    """Return median µs of `plan` until the GPU is done, after `before`."""
    times = []
    for _ in range(REPLAYS):
        if before is not None:
            before()
        stream.synchronize()
        began = time.perf_counter()
        plan(stream.cuda_stream)
        stream.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6
