"""Speedups of one pair of kernels, warm and cold, from the recorded times."""

import json
from pathlib import Path
from statistics import geometric_mean

RECORDED = Path(__file__).parents[3] / "recorded/nvidia_h200"


def times(kernel, metric):
    """Return the time in microseconds of each workload."""
    lines = (RECORDED / f"timing-mla_decode-{kernel}.jsonl").read_text().splitlines()
    entries = (json.loads(line) for line in lines)
    return {entry["case"]["workload"]: entry["metrics"][metric] for entry in entries if entry["status"] == "ok"}


def speedup(slow, fast, metric):
    """Return the geometric mean of slow ÷ fast over the workloads that both have."""
    a, b = times(slow, metric), times(fast, metric)
    return geometric_mean(a[workload] / b[workload] for workload in a.keys() & b.keys())


def test_the_cold_speedup_is_the_smaller_one():
    warm, cold = (speedup("flash_mla", "cute_sm90", metric) for metric in ("hot_us", "cold_us"))
    assert 1 < cold < warm
