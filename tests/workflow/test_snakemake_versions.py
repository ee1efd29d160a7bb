"""The oldest and newest supported Snakemake run the tiny experiment; older ones are refused.

Each has an environment of its own: a copy of this one by hard links, in which pip has put another Snakemake with what
that version requires.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cutesnake.runtime import snakemake_internals as internals
from project import TINY, copy_project

pytestmark = pytest.mark.slow
TOO_OLD = "8.30"


@pytest.fixture
def environment(tmp_path) -> Callable[[str], Path]:
    """`environment("9.0")` has the newest release of that version; returns its interpreter."""

    def make(version: str) -> Path:
        assert sys.prefix != sys.base_prefix, "the tests run in a virtual environment, see README.md"
        folder = tmp_path / "environment"
        if subprocess.run(["cp", "-al", sys.prefix, folder], stderr=subprocess.DEVNULL).returncode:
            subprocess.run(["rm", "-rf", folder], check=True)  # another file system has no links to this one
            subprocess.run(["cp", "-a", sys.prefix, folder], check=True)
        python = folder / "bin/python"
        wanted = f"snakemake~={version}.0" if version.count(".") == 1 else f"snakemake=={version}"
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
        subprocess.run(command, check=True)
        result = subprocess.run(
            [python, "-c", "import snakemake; print(snakemake.__version__)"], capture_output=True, text=True, check=True
        )
        assert result.stdout.startswith(version)
        return python

    return make


def snakemake(python: Path, project: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"CUTESNAKE_MACHINE": str(project / "tests/machines/none.json")}
    environment["PATH"] = f"{python.parent}:{environment['PATH']}"
    command = [python, "-m", "snakemake", "--cores", "1", *arguments, "--configfile", TINY]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)


def newest() -> str:
    """The newest release on the index that is not refused."""
    command = [sys.executable, "-m", "pip", "index", "versions", "snakemake"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    versions = re.search(r"Available versions: (.*)", listed)[1].split(", ")
    return next(version for version in versions if int(version.split(".")[0]) < internals.NEXT)


def do_tiny_experiment(python: Path, project: Path) -> None:
    planned = snakemake(python, project, "--dry-run")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    done = snakemake(python, project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "results/mla_report.html").stat().st_size > 10_000
    again = snakemake(python, project)
    assert again.returncode == 0 and "Nothing to be done" in again.stderr + again.stdout, again.stderr


def test_the_oldest_supported_version_does_the_tiny_experiment(environment, tmp_path) -> None:
    do_tiny_experiment(environment(internals.OLDEST), copy_project(tmp_path / "project"))


def test_the_newest_version_does_the_tiny_experiment(environment, tmp_path) -> None:
    version = newest()
    if version == internals.TRIED:
        pytest.skip(f"the newest Snakemake is the pinned one, {version}, which all tests use")
    do_tiny_experiment(environment(version), copy_project(tmp_path / "project"))


@pytest.mark.fault("Machine", "an unsupported Snakemake", "one line")
def test_an_older_version_is_refused_in_one_line(environment, tmp_path) -> None:
    done = snakemake(environment(TOO_OLD), copy_project(tmp_path / "project"), "--dry-run")
    assert done.returncode != 0 and "Traceback" not in done.stdout + done.stderr
    assert f"Expecting Snakemake version {internals.OLDEST} or higher" in done.stdout + done.stderr
