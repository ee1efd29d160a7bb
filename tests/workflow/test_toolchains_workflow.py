"""Toolchains through the workflow: added jobs, and the gate with a second compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import yaml

from project import ROOT, announced, copy_project, jobs, snakemake

TWO = ("gate", "--config", "toolchains=[main, cute-4.8.1-cu13]")


def test_each_kernel_of_the_pinned_dsl_is_a_job_per_toolchain(fresh) -> None:
    made = jobs(fresh, *TWO)
    assert made == {"toolchain_environment": 1, "toolchain": 2, "toolchains": 1, "gate": 1}  # of cute, not of cutile


@pytest.mark.slow
def test_without_toolchains_nothing_is_made_and_the_gate_asks_for_two(fresh) -> None:
    assert jobs(fresh, "gate") == {"gate": 1}
    done = snakemake(fresh, "gate")
    text = done.stdout + done.stderr
    assert done.returncode == 1 and "gate: it compares toolchains; name two" in text and "Traceback" not in text


def test_an_unknown_toolchain_is_one_clear_line(fresh) -> None:
    done = snakemake(fresh, "--dry-run", "gate", "--config", "toolchains=[cute-9]")
    text = done.stdout + done.stderr
    assert done.returncode != 0 and "config: toolchains: no 'cute-9';" in text and "Traceback" not in text


@pytest.mark.slow
@pytest.mark.by_hand
def test_the_gate_with_a_second_compiler(tmp_path) -> None:
    project = copy_project(tmp_path / "project")
    done = snakemake(project, *TWO)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (project / "results/report/toolchains.html").read_text()
    assert "cute-4.8.1-cu13" in page and "not compiled" not in page
    assert jobs(project, *TWO) == {"gate": 1}  # all else is made once


def test_builds_for_this_machines_gpu_wait_for_it_to_be_timed(fresh) -> None:
    text = announced(fresh, *TWO, machine="h200")
    gpus = [job.count("gpu=1") for job in text.split("\nrule ") if job.startswith("toolchain:")]
    assert gpus == [1, 1]
    assert "gpu=1" not in announced(fresh, *TWO)


def test_the_action_compares_the_callers_kernels_alone(tmp_path) -> None:
    """Its step runs with a stand-in for Snakemake that prints its arguments."""
    action = tmp_path / "cutesnake/.github/actions/toolchains"
    tools = tmp_path / "cutesnake/.venv/bin"
    for folder in (action, tools, tmp_path / "cutesnake/kernels/elementwise_add", tmp_path / "mine/elementwise_add"):
        folder.mkdir(parents=True)
    (tools / "python").symlink_to(sys.executable)
    (tools / "snakemake").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (tools / "snakemake").chmod(0o755)
    (tmp_path / "mine/elementwise_add/fast.py").write_text('DSL = "cute"\n')
    step = yaml.safe_load((ROOT / ".github/actions/toolchains/action.yml").read_text())["runs"]["steps"][1]["run"]
    environment = {"KERNEL_PATHS": "mine", "OPERATORS": "elementwise_add", "TOOLCHAINS": "main, next.txt", "CORES": "2"}
    environment |= {"CONFIG": "'gate={slower_percent: 5}'", "GITHUB_OUTPUT": "out", "GITHUB_ACTION_PATH": str(action)}
    done = subprocess.run(
        ["bash", "-e", "-c", step],
        cwd=tmp_path,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    *_, paths, operators, toolchains, sweeps, more = done.stdout.splitlines()
    assert [paths, operators] == [f'kernel_paths=["{tmp_path}/mine"]', 'operators=["elementwise_add"]']
    assert toolchains == f'toolchains=["main", "{tmp_path}/next.txt"]' and more == "gate={slower_percent: 5}"
    assert json.loads(sweeps.removeprefix("sweeps=")) == {"elementwise_add": {"kernels": ["fast"]}}
    assert (tmp_path / "out").read_text() == f"page={tmp_path}/cutesnake/results/report/toolchains.html\n"
