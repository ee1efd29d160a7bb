"""The plan is made once.

Jobs on other nodes read it, and end with one line where it or their machine is another.
"""

import json
import os
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import dry_runs
from cutesnake.planning import config as configuration
from cutesnake.planning import serialized_plan
from cutesnake.planning.machine import Machine
from cutesnake.planning.matrix import make_plan
from cutesnake.planning.strict_yaml import read
from cutesnake.runtime import machine_check
from project import TINY, snakemake
from project import replace as replace_text

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def experiment():
    whole = read(ROOT / "config/config.yaml", "config") | {"operators": ["mla_decode", "elementwise_add"]}
    return configuration.check(whole)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(machine_check.VARIABLE, "")
    return tmp_path


@pytest.mark.parametrize("name", ["none", "h200", "b200"])
def test_a_plan_arrives_as_it_was_sent(folder, experiment, machine, name) -> None:
    plan = make_plan(experiment, machine(name))
    assert plan.cases and plan.builds and plan.simulated
    arrived = serialized_plan.load(serialized_plan.save(plan, experiment), experiment)
    assert asdict(arrived) == asdict(plan)
    assert [type(case.workload) for case in arrived.cases.values()] == [type(c.workload) for c in plan.cases.values()]
    for stage in plan.stages:
        assert [case.key for case in arrived.cases_to_run(stage)] == [case.key for case in plan.cases_to_run(stage)]


def test_a_plan_is_named_by_its_content_and_the_last_one_only_is_kept(folder, experiment, machine) -> None:
    first = serialized_plan.save(make_plan(experiment, machine("none")), experiment)
    assert first == serialized_plan.save(make_plan(experiment, machine("none")), experiment)
    second = serialized_plan.save(make_plan(experiment, machine("h200")), experiment)
    assert first != second and {path.name for path in serialized_plan.FOLDER.iterdir()} == {
        f"{second}.json",
        f"{second.replace('plan', 'machines')}.json",
    }
    with pytest.raises(serialized_plan.SerializedPlanError, match="is gone: another run began"):
        serialized_plan.load(first, experiment)
    with pytest.raises(serialized_plan.SerializedPlanError, match="started without a plan"):
        serialized_plan.load(None, experiment)


def test_a_changed_plan_is_refused(folder, experiment, machine) -> None:
    name = serialized_plan.save(make_plan(experiment, machine("none")), experiment)
    path = serialized_plan.FOLDER / f"{name}.json"
    path.write_text(path.read_text().replace("sm_90a", "sm_100a", 1))
    with pytest.raises(serialized_plan.SerializedPlanError, match="cut short or was changed"):
        serialized_plan.load(name, experiment)


def test_a_plan_for_another_configuration_is_refused(folder, experiment, machine) -> None:
    name = serialized_plan.save(make_plan(experiment, machine("none")), experiment)
    with pytest.raises(serialized_plan.SerializedPlanError, match="was changed since this run was planned"):
        serialized_plan.load(name, replace(experiment, seeds=[5]))


def test_packages_of_another_version_are_told(folder, monkeypatch) -> None:
    def planned_with(**packages) -> None:
        (folder / "plan.json").write_text(json.dumps([Machine(packages=packages).as_dict()]))
        monkeypatch.setenv(machine_check.VARIABLE, str(folder / "plan.json"))
        machine_check._planned.cache_clear()

    planned_with(snakemake="0.1")
    with pytest.raises(
        machine_check.OtherMachineError, match=r"not what the plan says: snakemake is .* here, planned was 0\.1"
    ):
        machine_check.check_packages()
    planned_with(**{"no-such-package": "1.0"})
    with pytest.raises(machine_check.OtherMachineError, match="no-such-package is not installed here"):
        machine_check.check_packages()
    planned_with(snakemake=None)
    machine_check.check_packages()  # what the plan did without is not asked for
    (folder / "plan.json").unlink()
    machine_check._planned.cache_clear()
    with pytest.raises(machine_check.OtherMachineError, match="is gone"):
        machine_check.check_packages()
    machine_check._planned.cache_clear()


def test_another_card_is_told(machine) -> None:
    h200 = machine("h200")
    machine_check.check_gpu(h200.fingerprint, h200)
    machine_check.check_gpu(None, h200)
    with pytest.raises(machine_check.OtherMachineError, match="the GPU is NVIDIA B200 here, planned was NVIDIA H200"):
        machine_check.check_gpu(h200.fingerprint, machine("b200"))
    older = replace(h200, devices=(replace(h200.devices[0], driver="570.1"),))
    with pytest.raises(machine_check.OtherMachineError, match=r"its driver is 570\.1 here, planned was 580"):
        machine_check.check_gpu(h200.fingerprint, older)
    with pytest.raises(machine_check.OtherMachineError, match="there is no GPU"):
        machine_check.check_gpu(h200.fingerprint, machine("none"))


def job(project: Path, plan: str, machine: str) -> subprocess.CompletedProcess:
    """A job as an executor starts it on a node."""
    command = ["--snakefile", "Snakefile", "--target-jobs", "plan:operator=elementwise_add", "--force"]
    command += ["--mode", "subprocess", "--executor", "local", "--cores", "1", "--allowed-rules", "plan", "--no-hooks"]
    command += ["--configfile", TINY, "--config", f"{serialized_plan.KEY}={plan}"]
    return dry_runs.run(
        command, project, {**os.environ, "CUTESNAKE_MACHINE": str(project / f"tests/machines/{machine}.json")}
    )


def test_a_job_on_another_machine_does_what_was_planned(fresh) -> None:
    project, name = fresh, "results/plan/elementwise_add.json"
    planned = snakemake(project, name)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    (plan,) = (project / serialized_plan.FOLDER).glob("plan-*.json")
    record = project / name
    before = record.read_text()
    done = job(project, plan.stem, "h200")
    assert done.returncode == 0, done.stdout + done.stderr
    assert record.read_text() == before and "sm_90" in before
    replace_text(project / "kernels/elementwise_add/sweep.yaml", "rows: [1000, 4096]", "rows: [1001, 4096]")
    done = job(project, plan.stem, "h200")
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert "was changed since this run was planned" in done.stderr
