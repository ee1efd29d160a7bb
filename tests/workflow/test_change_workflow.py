"""A baseline through the workflow.

What it adds to a run, what goes stale with it, and the target `unchanged`.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from project import append, jobs, replace, snakemake

KERNEL = "kernels/elementwise_add/cute/kernel.py"
SUM = "tArA.load() + tBrB.load()"
RECORD = "results/change/elementwise_add.json"


def earlier_set(project: Path, factor: float) -> str:
    """Copy the recorded set with times scaled by `factor`."""
    folder = shutil.copytree(project / "recorded/nvidia_h200", project / "earlier/nvidia_h200")
    for path in folder.glob("timing-*.jsonl"):
        lines = []
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            entry["provenance"]["created"] = "2026-11-01T00:00:00+00:00"
            for figure in ("cold_us", "hot_us") if entry["metrics"] else ():
                entry["metrics"][figure] *= factor
            lines.append(json.dumps(entry))
        path.write_text("\n".join(lines) + "\n")
    return "baseline=earlier/nvidia_h200"


def test_a_baseline_adds_a_job_per_operator(fresh) -> None:
    assert "change" not in jobs(fresh)
    assert jobs(fresh, "--config", "baseline=recorded/nvidia_h200")["change"] == 1


def test_a_missing_baseline_is_one_clear_line(fresh) -> None:
    done = snakemake(fresh, "--dry-run", "--config", "baseline=recorded/nvidia_h20")
    text = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in text
    assert "baseline recorded/nvidia_h20: no such folder" in text and re.search(
        "available sets: .*recorded/nvidia_h200", text
    )


def test_unchanged_without_a_baseline_is_one_clear_line(fresh) -> None:
    done = snakemake(fresh, "unchanged")
    assert done.returncode != 0 and "unchanged: the configuration names no baseline" in done.stdout + done.stderr
    assert not (fresh / "results/mla_report.html").exists()


@pytest.mark.slow
def test_a_changed_kernel_shows_in_its_static_figures_without_a_gpu(project) -> None:
    shutil.copytree(project / "results", project / "before")
    replace(project / KERNEL, SUM, f"{SUM} + (tArA.load() - tArA.load())")
    chosen = ("--config", "baseline=before", "baseline_fails=worse")
    done = snakemake(project, "unchanged", *chosen)
    assert done.returncode == 0, done.stdout + done.stderr  # the code is another one, and spills nothing
    result = json.loads((project / RECORD).read_text())
    assert {entry["kernel"] for entry in result["builds"]["changed"]} == {"cute"} and result["builds"]["compared"] == 2
    changes = {c["figure"]: (c["before"], c["now"]) for c in result["builds"]["changed"][0]["changes"]}
    assert changes["instructions"][0] < changes["instructions"][1]
    page = (project / "results/mla_report.html").read_text()
    assert "1 of 2 builds differ in static values" in page
    assert jobs(project, *chosen) == {}
    path = next((project / "before/inspect/elementwise_add/cutile").rglob("*.json"))
    path.touch()
    assert jobs(project, *chosen) == {}
    append(path, "\n")
    assert jobs(project, *chosen) == {"change": 1, "report": 1}
    (project / RECORD).write_text("{")
    assert jobs(project, *chosen)["change"] == 1  # damaged: made again
    assert jobs(project) == {"report": 1}  # without the baseline: the page loses its section, nothing else is redone


@pytest.mark.slow
def test_slower_cases_fail_the_target_and_the_report_is_made(project) -> None:
    chosen = ("--config", earlier_set(project, 0.5), "baseline_fails=slower")
    done = snakemake(project, "unchanged", *chosen)
    text = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in text
    (line,) = (line for line in text.splitlines() if line.startswith("Failed: unchanged: "))
    result = json.loads((project / RECORD).read_text())
    assert len(result["cases"]) == result["totals"]["cold"]["slower"] > 0
    count = len(result["cases"])
    assert f"{count} of {count} cases are slower than in earlier/nvidia_h200; the worst is elementwise_add" in line
    assert ": 2 times the time" in line
    assert re.search('id="?changed', (project / "results/mla_report.html").read_text())
    assert snakemake(project, "unchanged", "--config", chosen[1]).returncode == 0  # nothing fails unless asked for


@pytest.mark.slow
def test_a_damaged_baseline_ends_in_one_clear_line(project) -> None:
    baseline = earlier_set(project, 1.0)
    path = project / "earlier/nvidia_h200/timing-elementwise_add-cutile.jsonl"
    path.write_text(path.read_text()[:-20])
    done = snakemake(project, "--config", baseline)
    text = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in text
    assert "change: baseline earlier/nvidia_h200: timing-elementwise_add-cutile.jsonl#" in text
