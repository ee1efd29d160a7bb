"""Development log of a kernel, from its decision record, git and the recorded sets."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cutesnake.analysis.knowledge.evidence import table_cells
from cutesnake.model.paths import ROOT

MOST_COMMITS, MOST_ROWS = 20, 24
SECONDS = 20.0  # time limit of git
TRIED = {"Versions": "kept", "Steps": "kept", "Dropped ideas": "dropped"}  # headings of decision records
HEADS = ("version", "step", "idea")  # first cells of their tables' heads
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


@dataclass(frozen=True)
class Log:
    """What was tried, commits and recorded times.

    tried: rows of the decision record: heading, change, effect. commits: date and subject, newest first, where there is
    no decision record. why: reason of missing history.
    """

    tried: list[tuple[str, str, str]]
    commits: list[tuple[str, str]]
    times: list[dict[str, Any]]
    why: str | None


def log_of(operator: str, kernel: str) -> Log:
    """Return a kernel's log; a user's own kernel has no history."""
    if tried := list(_tried(operator, kernel)):
        return Log(tried, [], list(_times(operator, kernel)), None)
    folder = f"kernels/{operator}/{kernel}"
    command = ["git", "-C", str(ROOT), "log", f"-{MOST_COMMITS}", "--format=%cs%x09%s", "--", folder, f"{folder}.py"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return Log([], [], list(_times(operator, kernel)), "git is not installed")
    lines = [line.partition("\t") for line in done.stdout.splitlines()]
    commits = [(date, subject) for date, _, subject in lines]
    why = None if commits else "no commit touches this kernel, or the copy has no history"
    return Log([], commits, list(_times(operator, kernel)), why)


def _tried(operator: str, kernel: str) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of a kernel's decision record, docs/decisions/<start of the operator>_<kernel>.md."""
    for path in sorted((ROOT / "docs/decisions").glob(f"*_{kernel}.md")):
        if not operator.startswith(path.stem.removesuffix(f"_{kernel}")):
            continue
        heading = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            heading = line[3:] if line.startswith("## ") else heading
            cells = [_LINK.sub(r"\1", cell) for cell in table_cells(line)]
            if heading in TRIED and len(cells) in (2, 3) and cells[0] not in HEADS and not set(cells[0]) <= set("-:"):
                yield TRIED[heading], ": ".join(cells[:-1]), cells[-1]


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
