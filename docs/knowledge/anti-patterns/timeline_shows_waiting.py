"""Recorded timelines, and whether they agree with times from outside."""

import json
from pathlib import Path

RECORDED = Path(__file__).parents[3] / "recorded/nvidia_h200"
SINGLE = "lone"  # as records name single calls


def checked():
    """Yield spacing and agreement of each timeline of cute_sm90 that was compared."""
    for line in (RECORDED / "nsys-mla_decode-cute_sm90.jsonl").read_text().splitlines():
        metrics = json.loads(line)["metrics"] or {}
        if metrics.get("timing_check"):
            # spacing: whether the GPU was idle before each call
            yield metrics["spacing"], metrics["timing_check"]["agrees"]


def test_single_calls_agree():
    assert (SINGLE, True) in set(checked())
