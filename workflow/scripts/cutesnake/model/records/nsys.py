"""Record of the stage `nsys`: the timeline of a few calls."""

from typing import Annotated, Literal

from cutesnake.model.records.common import CaseRecord, Part, doc


class Launched(Part):
    """One kernel launch on the timeline."""

    name: str
    call: Annotated[int, doc("which of the calls, from 0")]
    start_us: Annotated[float, doc("from the start of the first call on the host")]
    duration_us: float
    stream: int
    grid: list[int]
    block: list[int]
    registers_per_thread: int
    shared_bytes: int
    launch_start_us: float
    launch_call_us: Annotated[float, doc("host time in the launch call")]
    launch_latency_us: Annotated[float, doc("from the launch call to the start; includes the wait for earlier kernels")]

    @property
    def end_us(self) -> float:
        """Return when the kernel ended, in µs from the start of the first call."""
        return self.start_us + self.duration_us


class TimingCheck(Part):
    """The timeline compared with the timing record of the case."""

    made: bool
    agrees: Annotated[bool | None, doc("null: not made; false fails the record")]
    reason: Annotated[str | None, doc("why it was not made, or why figures differ by more than 10 %")]
    busy_us: Annotated[float, doc("median over calls of the time in which a kernel ran")]
    span_us: Annotated[float, doc("median over calls, first kernel's start to last one's end")]
    fastest_us: Annotated[float | None, doc("least of the timing record's burst, warm, second-source and cold times")]
    slowest_us: Annotated[float | None, doc("greatest of them")]
    difference_percent: Annotated[float | None, doc("distance of the span from that range, 0 inside it")]


class Nvtx(Part):
    """An NVTX range of the timeline."""

    text: str
    start_us: float
    duration_us: float


class NsysMetrics(Part):
    """Timeline of one case."""

    kernels: list[Launched]
    calls: int
    kernels_per_call: float
    gaps_us: Annotated[list[float], doc("idle time between the kernels of a call; negative: they overlap")]
    overlap_us: float
    launch_latency_us: Annotated[float, doc("of the first kernel, on an idle GPU")]
    launch_call_us: Annotated[float, doc("median")]
    device_us: Annotated[float, doc("median over calls, first kernel's start to last one's end")]
    streams: list[int]
    nvtx: list[Nvtx]
    measuring_seconds: Annotated[float, doc("wall time of the measurement, without the start of its process")]
    spacing: Annotated[
        Literal["lone", "back_to_back"] | None,
        doc(
            "whether the GPU was idle before every call. Records from before 2026-11-22 lack it, and it was not: "
            "there a kernel that is launched early waits for the call before, and its duration includes the wait"
        ),
    ] = None
    timing_check: Annotated[TimingCheck | None, doc("absent in records from before 2026-11-22")] = None


class Nsys(CaseRecord[NsysMetrics], tag="nsys"):
    """The timeline of a few calls by Nsight Systems."""
