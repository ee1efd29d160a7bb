"""Compare a timeline with the timing record of its case, and explain differences.

A single call under nsys follows others of its kind on a GPU that rested in between: it must take a time between the
fastest and the slowest figure of the timing record. Two things may put it outside.

- The host. A timeline has launches one by one, a timed graph has them all at once: where kernels are short the GPU
  waits for the next launch. Then the time in which the GPU ran anything must agree.
- The ends of kernels. Between the nodes of a graph lies about a microsecond each, and NVBench's cold samples hold one
  launch; CUPTI's start and end leave that out. It matters for calls of a few microseconds only.
"""

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

AGREEMENT_PERCENT = 10.0
LAUNCH_US = 1.5  # around each kernel: in the timed figures, not in the timeline
TIMES = ("burst_us", "hot_us", "second_source_us", "cold_us")

Record = Mapping[str, Any]


def check_timeline(metrics: Record, timing: Record | None) -> dict[str, Any]:
    """Return the `timing_check` section; `timing` is None if that stage is off.

    `agrees` is None where the check was not made; `reason` says why not, or why the figures differ and agree all the
    same, or what contradicts what.
    """
    call = {"busy_us": _median(busy_us, metrics), "span_us": _median(span_us, metrics)}
    if timing is None:
        return _not_made("timing is not part of this run", call)
    if timing["status"] != "ok":
        return _not_made(f"the case was not timed ({timing['reason']})", call)
    times = [timing["metrics"][key] for key in TIMES if timing["metrics"].get(key) is not None]
    fastest, slowest = min(times), max(times)
    call |= {"fastest_us": fastest, "slowest_us": slowest}
    call["difference_percent"] = round(deviation_percent(call["span_us"], fastest, slowest), 3)
    agrees, reason = _judge(call, fastest, slowest, LAUNCH_US * metrics["kernels_per_call"])
    return {"made": True, "agrees": agrees, "reason": reason, **call}


def _judge(call: Record, fastest: float, slowest: float, launches_us: float) -> tuple[bool, str | None]:
    span, busy = call["span_us"], call["busy_us"]
    timed = f"timing measured {fastest:.1f} to {slowest:.1f} us"
    if abs(deviation_percent(span, fastest, slowest)) <= AGREEMENT_PERCENT:
        return True, None
    if span > slowest and abs(deviation_percent(busy, fastest, slowest)) <= AGREEMENT_PERCENT:
        waited = f"{span - busy:.1f} us of a single call the GPU waited for the host's next launch"
        return True, f"{timed}, of a graph that is launched at once; for {waited}"
    if abs(busy - min(max(busy, fastest), slowest)) <= launches_us:
        return True, f"{timed}, with what lies around a launch, which counts in a call of {busy:.1f} us"
    return False, f"the timeline shows a call of {span:.1f} us ({busy:.1f} us of them busy), where {timed}"


def _not_made(reason: str, call: Record) -> dict[str, Any]:
    nothing = {"fastest_us": None, "slowest_us": None, "difference_percent": None}
    return {"made": False, "agrees": None, "reason": f"not compared with a timing record: {reason}", **call, **nothing}


def deviation_percent(value: float, low: float, high: float) -> float:
    """Return how far a value is below `low` (negative) or above `high`, in percent."""
    end = min(max(value, low), high)
    return 100 * (value - end) / end


def busy_us(kernels: Iterable[Record]) -> float:
    """Time in which at least one of the kernels ran."""
    total, until = 0.0, float("-inf")
    for start, end in sorted((k["start_us"], k["start_us"] + k["duration_us"]) for k in kernels):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def span_us(kernels: Iterable[Record]) -> float:
    """From the start of the first kernel to the end of the last one."""
    edges = [(k["start_us"], k["start_us"] + k["duration_us"]) for k in kernels]
    return max(end for _, end in edges) - min(start for start, _ in edges)


def _median(of: Any, metrics: Record) -> float:
    calls: dict[int, list[Record]] = {}
    for kernel in metrics["kernels"]:
        calls.setdefault(kernel["call"], []).append(kernel)
    return round(statistics.median(of(call) for call in calls.values()), 3)
