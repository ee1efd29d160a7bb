"""What one operator alone takes from clean, as the README runs it: by the clock, and processor time of everything.

    .venv/bin/python benchmarks/workflow/alone.py out.json              # every operator of config.yaml
    .venv/bin/python benchmarks/workflow/alone.py out.json mla_decode   # these

Each operator is run in a copy of the project with nothing built, with the wheels that results/fetch has kept, so that
the network's speed is left out. Processor time is what the system counted for all processes of the run, those that
builds and checks are forked from among them; on a machine that does other work only that tells anything. The file is
written anew after each operator, and one that is there is added to. `--table` prints what a file holds.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "workflow/scripts")]

from cutesnake.model import record  # noqa: E402
from project import copy_project  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36  # of prctl(2): processes whose parent has ended become ours, and so does their time
PAGE = "results/mla_report.html"
REPORTED = 60.0  # seconds by the clock that are aimed at


def run(operator: str) -> dict[str, Any]:
    """One run from clean. Exits where it fails."""
    with tempfile.TemporaryDirectory(prefix="cutesnake-alone-") as folder:
        project = copy_project(Path(folder) / "project")
        fetched = ROOT / "results/fetch"
        if fetched.exists():
            shutil.copytree(fetched, project / "results/fetch", copy_function=shutil.copy2)
        load, before, began = os.getloadavg()[0], _processor_s(), time.monotonic()
        command = [sys.executable, "-m", "snakemake", "--cores", "2", PAGE, "--config", f"operators=[{operator}]"]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True)
        wall = time.monotonic() - began
        if done.returncode:
            sys.exit(done.stderr[-3000:])
        while _an_orphan_ended():
            pass
        built = list(project.glob("results/compile/*/*/*/*/build.json"))
        checked = list(project.glob("results/correctness/**/*.json"))
    jobs = re.findall(r"^(\d+) of \1 steps", done.stderr, re.MULTILINE)
    return {
        "wall_s": round(wall, 1),
        "processor_s": round(_processor_s() - before, 1),
        "load_before": round(load, 2),
        "jobs": int(jobs[-1]) if jobs else None,
        "builds": len(built),
        "checks": len(checked),
    }


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _an_orphan_ended() -> bool:
    try:
        os.wait()
    except ChildProcessError:
        return False
    return True


def table(results: dict[str, dict[str, Any]]) -> str:
    """The longest first, as a table of Markdown."""
    lines = [
        "| operator | s by the clock | s of processors | jobs | builds | simulated checks |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in sorted(results.items(), key=lambda item: -item[1]["processor_s"]):
        wall = f"**{row['wall_s']:.0f}**" if row["wall_s"] > REPORTED else f"{row['wall_s']:.0f}"
        cells = (f"`{name}`", wall, f"{row['processor_s']:.0f}", row["jobs"], row["builds"], row["checks"])
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main(path: Path, names: list[str]) -> None:
    results: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    if names == ["--table"]:
        print(table(results))
        return
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    operators = yaml.safe_load((ROOT / "config/config.yaml").read_text())["operators"]
    for name in names or operators:
        results[name] = run(name)
        print(name, results[name], flush=True)
        record.write_text(path, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
