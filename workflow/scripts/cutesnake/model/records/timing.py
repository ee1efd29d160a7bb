"""Record of the stage `timing`: times by NVBench and by a second source."""

from typing import Annotated, Literal

import msgspec

from cutesnake.model.records.common import CaseRecord, Part, doc


class TimingMetrics(Part):
    """Times of one case, with the conditions under which they were measured."""

    cold_us: Annotated[float, doc("median, whole operator, L2 flushed before each sample")]
    cold_min_us: float
    cold_max_us: float
    spread_percent: Annotated[float, doc("interquartile range of the cold samples over their median")]
    samples: Annotated[int, doc("cold")]
    throttled_samples: Annotated[int, doc("discarded by NVBench")]
    hot_us: Annotated[float, doc("per call, mean over back-to-back batches, L2 not flushed")]
    hot_samples: Annotated[int, doc("calls")]
    second_source_us: Annotated[
        float,
        doc("median over CUDA-graph replays timed with events, warm; 15 replays, since 2026-11-23 at least 0.15 s"),
    ]
    difference_percent: Annotated[float, doc("second source compared with hot_us")]
    sm_clock_mhz: Annotated[float, doc("mean over the cold samples")]
    power_w: Annotated[float | None, doc("highest")]
    median_power_w: float | None
    temperature_c: Annotated[float | None, doc("highest")]
    throttle_reasons: list[str]
    kernels_per_call: Annotated[
        int, doc("kernel nodes captured from the timed stream; if none, memory copies and fills")
    ]
    calls_per_graph: Annotated[int, doc("in the warm measurement")]
    tflops: Annotated[float, doc("cost over cold_us")]
    bandwidth_gb_per_s: Annotated[float, doc("bytes of cost over cold_us")]
    hot_tflops: float
    hot_bandwidth_gb_per_s: float
    flags: Annotated[list[str], doc("what to know before trusting the row")]
    measuring_seconds: Annotated[float, doc("wall time of the measurement, without the start of its process")]
    burst_us: Annotated[
        float | None,
        doc(
            "per call, median of 7 graph replays on a rested GPU, warm: before power or heat throttle it; "
            "since 2026-11-23 the median of three such bursts"
        ),
    ] = None
    burst_range_percent: Annotated[
        float | None, doc("range of these three bursts; absent in records from before 2026-11-23")
    ] = None
    second_source_range_percent: Annotated[
        float | None, doc("range of the middle four fifths of the replays; absent in records from before 2026-11-23")
    ] = None
    hot_sm_clock_mhz: Annotated[
        float | None,
        doc("over the batches of hot_us; this and the next two are absent in records from before 2026-11-22"),
    ] = None
    second_source_sm_clock_mhz: Annotated[float | None, doc("over the replays of second_source_us")] = None
    burst_sm_clock_mhz: Annotated[float | None, doc("over the replays of burst_us")] = None
    empty_launch_us: Annotated[
        float | None,
        doc(
            "median over cold samples of an empty kernel on this host; absent where NVBench kept none, and in records "
            "from before 2026-11-23"
        ),
    ] = msgspec.field(default=None, name="lone_us")
    plan_us: Annotated[
        float | None,
        doc(
            "median time of recomputing the schedule for the lengths on the GPU, warm; absent for a kernel without "
            "one, and in records from before 2026-11-22"
        ),
    ] = None
    plan_cold_us: Annotated[
        float | None,
        doc(
            "median time of one recomputation, L2 flushed before it; absent in records from before 2026-11-22, "
            "07:00 UTC"
        ),
    ] = None
    plan_kind: Annotated[
        Literal["graph", "host"] | None,
        doc("graph: replays of a CUDA graph of plans; host: wall time from the call until the GPU is done"),
    ] = None


class Timing(CaseRecord[TimingMetrics], tag="timing"):
    """Times by NVBench and by a second source."""
