"""Development log of a kernel, from git and the recorded sets."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cutesnake.model.paths import ROOT

MOST_COMMITS, MOST_ROWS = 20, 24
SECONDS = 20.0  # time limit of git


@dataclass(frozen=True)
class Log:
    """Commits (date, subject), newest first, and recorded times; `why` explains missing history."""

    commits: list[tuple[str, str]]
    times: list[dict[str, Any]]
    why: str | None


def log_of(operator: str, kernel: str) -> Log:
    """Return a kernel's log; a user's own kernel has no history."""
    folder = f"kernels/{operator}/{kernel}"
    command = ["git", "-C", str(ROOT), "log", f"-{MOST_COMMITS}", "--format=%cs%x09%s", "--", folder, f"{folder}.py"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return Log([], list(_times(operator, kernel)), "git is not installed")
    lines = [line.partition("\t") for line in done.stdout.splitlines()]
    commits = [(date, subject) for date, _, subject in lines]
    why = None if commits else "no commit touches this kernel, or the copy has no history"
    return Log(commits, list(_times(operator, kernel)), why)


def _times(operator: str, kernel: str) -> Iterator[dict[str, Any]]:
    """Yield recorded times in microseconds, per GPU, workload and variant."""
    rows = 0
    for path in sorted(ROOT.glob(f"recorded/*/timing-{operator}-{kernel}.jsonl")):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            if entry["status"] != "ok" or rows == MOST_ROWS:
                continue
            rows += 1
            yield {
                "gpu": entry["device"]["name"],
                "workload": entry["case"]["workload"],
                "variant": entry["case"]["variant"]["id"],
                "cold_us": entry["metrics"]["cold_us"],
                "hot_us": entry["metrics"]["hot_us"],
            }
