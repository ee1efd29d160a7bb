"""The clock that each recorded timing ran at."""

import json
from pathlib import Path

RECORDED = Path(__file__).parents[3] / "recorded/nvidia_h200"


def clocks(kernel):
    """Return the SM clock in MHz of sustained runs, by workload."""
    lines = (RECORDED / f"timing-mla_decode-{kernel}.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    return {entry["case"]["workload"]: entry["metrics"]["hot_sm_clock_mhz"] for entry in entries if entry["metrics"]}


def test_the_clock_of_one_kernel_differs_between_workloads():
    mhz = [value for value in clocks("cute_sm90").values() if value]
    assert max(mhz) > 1.2 * min(mhz)
