"""Compare a timeline with the timing record of its case, and explain differences.

A single call under nsys follows others of its kind on a GPU that rested in between: it must take a time between the
fastest and the slowest figure of the timing record. Two things may put it outside.

- The host. A timeline has launches one by one, a timed graph has them all at once: where kernels are short the GPU
  waits for the next launch. Then the time in which the GPU ran anything must agree.
- The ends of kernels. Between the nodes of a graph lies about a microsecond each, and NVBench's cold samples hold one
  launch; CUPTI's start and end leave that out. It matters for calls of a few microseconds only.
"""

import statistics
from collections.abc import Iterable, Sequence

from cutesnake.model.records.nsys import Launched, TimingCheck
from cutesnake.model.records.timing import Timing

AGREEMENT_PERCENT = 10.0
LAUNCH_US = 1.5  # around each kernel: in the timed figures, not in the timeline


def check_timeline(kernels: Iterable[Launched], kernels_per_call: float, timing: Timing | None) -> TimingCheck:
    """Return the `timing_check` of some calls; `timing` is None if that stage is off.

    `agrees` is None where the check was not made; `reason` says why not, or why the figures differ and agree all the
    same, or what contradicts what.
    """
    calls: dict[int, list[Launched]] = {}
    for kernel in kernels:
        calls.setdefault(kernel.call, []).append(kernel)
    busy, span = (round(statistics.median(map(of, calls.values())), 3) for of in (busy_us, span_us))
    if timing is None or timing.status != "ok" or timing.metrics is None:
        why = f"the case was not timed ({timing.reason})" if timing else "timing is not part of this run"
        return TimingCheck(False, None, f"not compared with a timing record: {why}", busy, span, None, None, None)
    timed = timing.metrics
    times = [us for us in (timed.burst_us, timed.hot_us, timed.second_source_us, timed.cold_us) if us is not None]
    fastest, slowest = min(times), max(times)
    agrees, reason = _judge(span, busy, fastest, slowest, LAUNCH_US * kernels_per_call)
    difference = round(deviation_percent(span, fastest, slowest), 3)
    return TimingCheck(True, agrees, reason, busy, span, fastest, slowest, difference)


def _judge(span: float, busy: float, fastest: float, slowest: float, launches_us: float) -> tuple[bool, str | None]:
    timed = f"timing measured {fastest:.1f} to {slowest:.1f} us"
    if abs(deviation_percent(span, fastest, slowest)) <= AGREEMENT_PERCENT:
        return True, None
    if span > slowest and abs(deviation_percent(busy, fastest, slowest)) <= AGREEMENT_PERCENT:
        waited = f"{span - busy:.1f} us of a single call the GPU waited for the host's next launch"
        return True, f"{timed}, of a graph that is launched at once; for {waited}"
    if abs(busy - min(max(busy, fastest), slowest)) <= launches_us:
        return True, f"{timed}, with what lies around a launch, which counts in a call of {busy:.1f} us"
    return False, f"the timeline shows a call of {span:.1f} us ({busy:.1f} us of them busy), where {timed}"


def deviation_percent(value: float, low: float, high: float) -> float:
    """Return how far a value is below `low` (negative) or above `high`, in percent."""
    end = min(max(value, low), high)
    return 100 * (value - end) / end


def busy_us(kernels: Iterable[Launched]) -> float:
    """Time in which at least one of the kernels ran."""
    total, until = 0.0, float("-inf")
    for start, end in sorted((k.start_us, k.end_us) for k in kernels):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def span_us(kernels: Sequence[Launched]) -> float:
    """From the start of the first kernel to the end of the last one."""
    return max(k.end_us for k in kernels) - min(k.start_us for k in kernels)
