"""Record of the stage `ncu`: hardware counters of one call."""

from typing import Annotated, Literal

import msgspec

from cutesnake.model.records.common import CaseRecord, Part, doc


class Counters(Part):
    """Hardware counters of one kernel."""

    duration_us: float | None
    tensor_core_percent: float | None
    dram_percent: float | None
    l2_hit_percent: float | None
    occupancy_achieved_percent: float | None
    occupancy_theoretical_percent: float | None
    registers_per_thread: int | float | None
    waves: float | None
    eligible_warps: Annotated[float | None, doc("per scheduler and cycle")]
    issue_active_percent: float | None
    sm_throughput_percent: float | None
    spill_instructions: int | float | None
    shared_bytes_per_block: Annotated[int | None, doc("static and dynamic")]
    occupancy_limiter: str | None
    blocks_per_sm: int | None
    spill_bytes: int | None
    grid: list[int]
    block: list[int]
    cluster_size: int | None
    sm_clock_mhz: float | None
    stalls: Annotated[dict[str, float], doc("share of the cycles between two instructions of a warp, by reason")]


class KernelCounters(Counters):
    """Hardware counters of one kernel of the call."""

    name: str
    dram_bytes: int | None


class Bottleneck(Part):
    """What limits the main kernel, and the rule that says so."""

    kind: Literal["compute", "memory", "locality", "latency", "unknown"] = msgspec.field(name="class")
    rule: str
    numbers: dict[str, float | None]


class Opportunity(Part):
    """A finding of one of Nsight Compute's own rules."""

    rule: str
    text: str
    metric: str
    value: float | None
    estimated_speedup_percent: float | None


class NcuMetrics(Counters):
    """Counters of the main kernel, and totals of the call."""

    main_kernel: str
    total_duration_us: Annotated[float, doc("all kernels of the call, one at a time")]
    achieved_tflops: float
    achieved_gb_per_s: Annotated[float | None, doc("DRAM bytes over total_duration_us")]
    dram_bytes: int | None
    cost_bytes: Annotated[int, doc("minimum traffic by cost()")]
    dram_over_cost: float | None
    kernels: list[KernelCounters]
    notes: list[str]
    bottleneck: Bottleneck
    opportunities: Annotated[list[Opportunity], doc("largest estimate first")]
    measuring_seconds: Annotated[
        float | None, doc("wall time of the measurement, without the start of its process")
    ] = None


class Ncu(CaseRecord[NcuMetrics], tag="ncu"):
    """Hardware counters of one call; flat figures are the main kernel's."""
