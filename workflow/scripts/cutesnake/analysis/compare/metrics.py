"""Columns of the comparison: their stage, name and meaning."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A column: its stage, its name in the record, and its meaning."""

    key: str
    name: str
    unit: str
    stage: str
    measured: str
    meaning: str
    absent: str | None = None  # why a record of the stage may lack the value
    predicted: str | None = None  # name in a prediction


NO_PLAN = "the kernel has no separate scheduling step, or was timed before that step was measured"
METRICS = (
    Metric(
        "duration_us",
        "Duration",
        "µs",
        "timing",
        "cold_us",
        "median time of the whole operator, L2 cache flushed before each run; if not measured, the lower bound from "
        "the device's peaks at nominal boost clock (≥), or the time predicted by ptxsim's clock (≈)",
        predicted="cold_us",
    ),
    Metric(
        "hot_duration_us",
        "Duration, warm L2",
        "µs",
        "timing",
        "hot_us",
        "median time of the whole operator, repeated without flushing the L2 cache",
        predicted="warm_us",
    ),
    Metric(
        "plan_cold_us",
        "Plan",
        "µs",
        "timing",
        "plan_cold_us",
        "median time to compute the schedule for new inputs, not included in the durations, L2 cache flushed before "
        "each run",
        NO_PLAN,
    ),
    Metric(
        "plan_us",
        "Plan, warm L2",
        "µs",
        "timing",
        "plan_us",
        "median time to compute the schedule, repeated without flushing the L2 cache",
        NO_PLAN,
    ),
    Metric(
        "tensor_core_percent",
        "TC",
        "%",
        "ncu",
        "tensor_core_percent",
        "tensor-pipe utilization of the main kernel, share of peak (ncu)",
        predicted="tensor_percent",
    ),
    Metric(
        "dram_percent",
        "DRAM",
        "%",
        "ncu",
        "dram_percent",
        "DRAM throughput of the main kernel, share of peak (ncu)",
        predicted="dram_percent",
    ),
    Metric(
        "occupancy_percent",
        "Occupancy",
        "%",
        "ncu",
        "occupancy_achieved_percent",
        "resident warps, share of the maximum: achieved (ncu), else theoretical, from the build's resources",
    ),
    Metric(
        "registers_per_thread",
        "Registers/thread",
        "",
        "ncu",
        "registers_per_thread",
        "registers per thread of the main kernel",
    ),
    Metric(
        "shared_kb_per_block",
        "SMEM/block",
        "KB",
        "ncu",
        "shared_bytes_per_block",
        "shared memory per block of the main kernel, static and dynamic, in KB of 1024 bytes",
    ),
)
