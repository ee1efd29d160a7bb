"""Columns of the comparison: their stage, name and meaning."""

from __future__ import annotations

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
    absent: str | None = None  # why a record of the stage may lack it
    predicted: str | None = None  # what a prediction calls it


NO_PLAN = "the kernel has no step that makes its schedule anew, or was timed before that step was"
METRICS = (
    Metric(
        "duration_us",
        "Duration",
        "µs",
        "timing",
        "cold_us",
        "median time of the whole operator, L2 cache flushed before each run; where nothing was measured, the lower "
        "bound that the device's peaks allow (≥), or what ptxsim's clock predicts (≈)",
        predicted="cold_us",
    ),
    Metric(
        "hot_duration_us",
        "Duration, hot L2",
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
        "median time of making the schedule anew for inputs that have just arrived, which the durations leave out, L2 "
        "cache flushed before each run",
        NO_PLAN,
    ),
    Metric(
        "plan_us",
        "Plan, hot L2",
        "µs",
        "timing",
        "plan_us",
        "median time of making the schedule anew, repeated without flushing the L2 cache",
        NO_PLAN,
    ),
    Metric(
        "tensor_core_percent",
        "TC",
        "%",
        "ncu",
        "tensor_core_percent",
        "share of its peak at which the tensor pipe of the main kernel was busy (ncu)",
        predicted="tensor_percent",
    ),
    Metric(
        "dram_percent",
        "DRAM",
        "%",
        "ncu",
        "dram_percent",
        "share of the peak DRAM throughput that the main kernel reached (ncu)",
        predicted="dram_percent",
    ),
    Metric(
        "occupancy_percent",
        "Occupancy",
        "%",
        "ncu",
        "occupancy_achieved_percent",
        "resident warps of the largest possible number: achieved (ncu), else theoretical, from the build's resources",
    ),
    Metric(
        "registers_per_thread",
        "Registers/thread",
        "",
        "ncu",
        "registers_per_thread",
        "registers that the compiler allotted to each thread of the main kernel",
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
