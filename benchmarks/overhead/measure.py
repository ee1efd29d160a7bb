"""What the workflow adds to the measuring itself, per case.

    python benchmarks/overhead/measure.py --cores 4 measured

runs Snakemake with these arguments, then compares its wall time with the time that the cases made in this run spent
measuring (`measuring_seconds` of their records: from loading the build to the last figure). The rest is Snakemake, the
jobs' start, forking, CUDA contexts, the wait for the card and the records. Jobs that run side by side hide part of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

STAGES = ("correctness", "timing", "nsys", "ncu")


def measured_since(results: Path, since: float) -> list[dict]:
    """Records of GPU stages below `results` that were written after `since` (seconds since the epoch)."""
    paths = (path for stage in STAGES for path in (results / stage).glob("*/*/*/*/*.json"))
    return [json.loads(path.read_text()) for path in paths if path.stat().st_mtime >= since]


def report(records: list[dict], wall_s: float, words: str) -> str:
    """Lines for a reader; ValueError if nothing was measured."""
    measuring = {stage: [] for stage in STAGES}
    for record in records:
        if record["metrics"]:
            measuring[record["stage"]].append(record["metrics"]["measuring_seconds"])
    cases = sum(map(len, measuring.values()))
    if not cases:
        raise ValueError("no case was measured in this run: is there a GPU, and is there anything left to do?")
    lines = [f"snakemake {words}: {wall_s:.1f} s wall, {cases} cases measured, {len(records) - cases} failed without"]
    for stage, seconds in measuring.items():
        if seconds:
            lines.append(f"  {stage}: {len(seconds)} cases, {sum(seconds) / len(seconds):.2f} s each")
    total = sum(map(sum, measuring.values()))
    lines.append(f"  overhead: {(wall_s - total) / cases:.3f} s per case ({wall_s:.1f} s less {total:.1f} s measuring)")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    since = time.time()
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "snakemake", *arguments])
    wall = time.monotonic() - began
    print(report(measured_since(Path("results"), since), wall, " ".join(arguments)), flush=True)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
