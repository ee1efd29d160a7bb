"""Toolchains through the workflow: added jobs, and the gate with a second compiler."""

from __future__ import annotations

import pytest

from project import copy_project, jobs, snakemake

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
