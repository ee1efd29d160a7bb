"""The workflow in another Snakefile: as a module, and included."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dry_runs
from cutesnake.runtime import folder
from project import TINY

PAGE = "results/mla_report.html"
MODULE = """
module cutesnake:
    snakefile: "{clone}/Snakefile"

use rule * from cutesnake

onstart:
    cutesnake.onstart()

onsuccess:
    cutesnake.onsuccess()

onerror:
    cutesnake.onerror()
"""
INCLUDE = """
include: "{clone}/Snakefile"
"""


def run(clone: Path, place: Path, snakefile: str, *arguments: str) -> subprocess.CompletedProcess:
    """Run Snakemake outside the clone, without the clone on Python's path."""
    (place / "workflow").mkdir(parents=True, exist_ok=True)
    (place / "workflow/Snakefile").write_text(snakefile.format(clone=clone))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["CUTESNAKE_MACHINE"] = str(clone / "tests/machines/none.json")
    message = ["--cores", "1", *arguments, "--configfile", str(clone / TINY)]
    if "--dry-run" in arguments:
        return dry_runs.run(message, place, environment)
    command = [sys.executable, "-m", "snakemake", *message]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("snakefile", [MODULE, INCLUDE], ids=["module", "include"])
def test_the_workflow_is_planned_from_another_folder(snakefile, fresh, tmp_path) -> None:
    done = run(fresh, tmp_path / "elsewhere", snakefile, "--dry-run", PAGE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compile" in done.stdout and PAGE in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("snakefile", [MODULE, INCLUDE], ids=["module", "include"])
def test_the_workflow_runs_from_another_folder(snakefile, fresh, tmp_path) -> None:
    place = tmp_path / "elsewhere"
    profile = f"--workflow-profile={fresh}/profiles/default"
    done = run(fresh, place, snakefile, profile, PAGE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (place / PAGE).exists() and not (fresh / "results").exists()
    assert (place / folder.LOCK).exists()  # the handlers ran
    again = run(fresh, place, snakefile, profile, PAGE)
    assert again.returncode == 0 and "Nothing to be done" in again.stdout + again.stderr
