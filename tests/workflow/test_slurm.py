"""Runs through a real Slurm on this machine, whose GPU nodes are mocked.

Classes of nodes, changes, and failures.
"""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

import sample
from cutesnake.model.case_id import CaseId
from project import OWN_OUTPUT, ROOT, append, copy_project
from slurm_cluster import MACHINES, Cluster, Node, missing

SUBMITTED = "has been submitted with SLURM jobid"
PLUGIN = "snakemake_executor_plugin_slurm"
NODES = (
    Node("cpu1", "cpu", processors=8),
    *(Node(f"gpu{number}", "gpu", machine="h200", gpus_of_node=1, kind="h200") for number in (1, 2, 3)),
    Node("gpu4", "gpu", machine="b200", gpus_of_node=1, kind="b200"),
)
CLASSES = """
classes:
  cpu: {partition: cpu}
  h200: {partition: gpu, device: NVIDIA H200, gpu_model: h200}
  b200: {partition: gpu, device: NVIDIA B200, gpu_model: b200, alone: node}
"""
CONFIG = """
targets: [sm_90a, here]
stages: [correctness, timing]
operators: [elementwise_add]
machines: machines.yaml
cases_per_job: 1
correctness: {seeds: [0]}
simulation: {extent: none}
sweeps:
  elementwise_add:
    kernels: [cute]
    distributions: [randn]
    workloads:
      - {rows: ROWS, columns: 64}
    profile: []
timing: {max_seconds: 1, max_noise_percent: 1}
"""
# In place of measuring: it takes a moment, and says so in a file that the tests look for.
PRETEND = """

def measure(case):
    import pathlib, time
    pathlib.Path(f"under_way_{{case.workload.id}}").touch()
    time.sleep({seconds})
    return {metrics!r}, None
"""
# Says where builds are made.
TELL = """

_place = _place_to_build


def _place_to_build(folder, scratch):
    with open("built_in", "a") as stream:
        stream.write(f"{scratch}\\n")
    return _place(folder, scratch)
"""
# Breaks the job of one of the builds at its end, as long as a file of the tests is there.
BREAK = """
import os

if os.path.exists("broken") and snakemake.wildcards.target == "sm_100a":
    raise SystemExit("compile: broken by a test")
"""
# Of the catalogue, where there is no GPU.
EVERY_RULE = {
    *("arch", "plan", "compile", "simulated", "predict", "anatomy"),
    *("compare", "page", "operations", "overview", "report", "catalogue_page", "catalogue"),
}
# Operators of a catalogue that is quick to build, and their kernels.
SMALL = {
    "async_copies": ["cute_l2", "torch_copy"],
    "elementwise_add": ["cute_tv", "torch_add"],
    "dependent_launch": ["cutile", "torch_two_adds"],
}
RECORDS = "results/{}/elementwise_add/cute/{}/*/m5_n64_fp32@{}.json"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"Slurm's programs are not installed: {', '.join(missing())}"),
    pytest.mark.skipif(importlib.util.find_spec(PLUGIN) is None, reason="envs/requirements-slurm.txt is not installed"),
]


class Run:
    """Snakemake in a copy of the project, its jobs on a cluster."""

    def __init__(self, project: Path, cluster: Cluster) -> None:
        self.project = project
        self.cluster = cluster
        self.configured: list[str] = []

    def configure(self, rows: str, cases_per_job: int = 1) -> None:
        text = CONFIG.replace("ROWS", rows).replace("cases_per_job: 1", f"cases_per_job: {cases_per_job}")
        (self.project / "run.yaml").write_text(text)
        self.configured = ["--configfile", "run.yaml"]

    def command(self, *arguments: str) -> list[str]:
        quick = ["--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1"]
        local = ["--slurm-status-command", "squeue", "--slurm-no-account", "--latency-wait", "5", *quick]
        command = [sys.executable, "-m", "snakemake", "--workflow-profile", "profiles/slurm", *local]
        return [*command, OWN_OUTPUT, *arguments, *self.configured]

    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.cluster.environment, "CUTESNAKE_MACHINE": str(MACHINES / "none.json")}

    def start(self, *arguments: str) -> subprocess.Popen:
        with (self.project / "run.log").open("w") as log:
            return subprocess.Popen(
                self.command(*arguments),
                **{"cwd": self.project, "env": self.environment(), "stdout": log, "stderr": log},
                start_new_session=True,
            )

    def end(self, run: subprocess.Popen, seconds: float = 300) -> str:
        """What it reported, when it has ended."""
        try:
            run.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            pytest.fail(f"no end after {seconds:g} s: {self.log()[-3000:]}")
        return self.log()

    def log(self) -> str:
        """What Snakemake and the jobs that failed reported."""
        logs = sorted((self.project / ".snakemake/slurm_logs").rglob("*.log"))
        return "\n".join(path.read_text(errors="replace") for path in (self.project / "run.log", *logs))

    def __call__(self, *arguments: str, seconds: float = 300) -> str:
        run = self.start(*arguments)
        message = self.end(run, seconds)
        assert run.returncode == 0, message[-6000:]
        return message

    def made(self, message: str) -> dict[str, int]:
        """Rule -> jobs that a run announced."""
        table = re.search(r"Job stats:\njob +count\n-+ +-+\n(.*?)\n\n", message, re.DOTALL)
        rows = (line.split() for line in table.group(1).splitlines()) if table else ()
        return {rule: int(count) for rule, count in rows if rule not in ("total", "all")}

    def record(self, stage: str, target: str, place: str) -> dict:
        (path,) = self.project.glob(RECORDS.format(stage, target, place))
        return json.loads(path.read_text())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("slurm"), NODES) as result:
        yield result


@pytest.fixture(scope="module")
def run(tmp_path_factory, cluster) -> Run:
    """A copy of the project whose classes of nodes were looked at.

    The tests go on from what others left.
    """
    project = copy_project(tmp_path_factory.mktemp("shared") / "project")
    (project / "machines.yaml").write_text(CLASSES)
    pretend(project, 0.05)
    append(project / "workflow/scripts/cutesnake/stages/compile/compile.py", TELL)
    append(project / "workflow/scripts/compile.py", BREAK)
    result = Run(project, cluster)
    result.configure("5")
    result("machines")
    return result


def pretend(project: Path, seconds: float) -> None:
    checked, timed = sample.correctness("w"), sample.timing("cute", sample.workloads()[0], 1.0)
    for stage, metrics in {"correctness": checked, "timing": timed}.items():
        path = project / f"workflow/scripts/cutesnake/stages/measure/{stage}.py"
        path.write_text(path.read_text().partition("\n\ndef measure(case):\n    import pathlib")[0])
        append(path, PRETEND.format(seconds=seconds, metrics=metrics))


def wait_for(condition: Callable[[], object], what: str, run: Run, seconds: float = 180) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited in vain for {what}: {run.log()[-3000:]}"
        time.sleep(0.1)


def test_cases_run_on_the_cards_of_their_class_and_no_other(run) -> None:
    # The head node has no GPU. Each class is looked at by a job, and builds are made on scratch of their nodes.
    result = json.loads((run.project / "results/machine/b200.json").read_text())["machine"]
    assert result["devices"][0]["name"] == "NVIDIA B200"
    first = run.made(run("measured"))
    assert first["compile"] == first["correctness"] == first["timing"] == 2
    places = (run.project / "built_in").read_text().split()
    assert len(places) == 2 and all(Path(place).is_absolute() for place in places)  # `scratch`, see profiles/slurm
    for target, place, gpu in (("sm_90a", "h200", "NVIDIA H200"), ("sm_100a", "b200", "NVIDIA B200")):
        for stage in ("correctness", "timing"):
            entry = run.record(stage, target, place)
            assert entry["status"] == "ok" and entry["device"]["name"] == gpu


def test_what_a_failed_group_has_finished_is_kept(run) -> None:
    """Two builds are one job of Slurm; one of them fails."""
    builds = [CaseId("elementwise_add", "cute", target, "fp32_t256_v4") for target in ("sm_90a", "sm_100a")]
    paths = [build.path("compile") for build in builds]
    for path in paths:
        (run.project / path).unlink(missing_ok=True)
    (run.project / "broken").touch()
    started = run.start("--retries", "0", *paths)
    message = run.end(started)
    assert started.returncode != 0 and run.made(message)["compile"] == 2 and message.count(SUBMITTED) == 1
    assert [(run.project / path).exists() for path in paths] == [True, False]
    (run.project / "broken").unlink()
    assert run.made(run(*paths))["compile"] == 1
    assert all((run.project / path).exists() for path in paths)


@pytest.mark.parametrize("operators", [SMALL, pytest.param(None, marks=pytest.mark.by_hand)], ids=["small", "all"])
def test_the_catalogue_and_a_change(tmp_path, cluster, operators) -> None:
    # From sources alone, without recorded builds, by a few jobs of Slurm; then one kernel's source is another one.
    # Which kernels they are makes no difference to Slurm: CI has built all of them without it.
    project = copy_project(tmp_path / "project")
    shutil.copytree(ROOT / "docs", project / "docs")
    run = Run(project, cluster)
    settings = {"compile": {"recorded": "ignore"}}
    if operators:
        settings |= {"operators": list(operators), "sweeps": {name: {"kernels": k} for name, k in operators.items()}}
    (project / "run.yaml").write_text(yaml.safe_dump(settings))
    run.configured = ["--configfile", "run.yaml"]
    grouped = ["--group-components", "builds=5", "operators=3"] if operators else []
    message = run("catalogue", *grouped, seconds=1500)
    made = run.made(message)
    assert set(made) == EVERY_RULE
    built = [path.parent for path in project.glob("results/compile/*/*/*/*/build.json")]
    assert len(built) == made["compile"] > 10
    assert message.count(SUBMITTED) < sum(made.values()) / 4
    chosen = list(operators or yaml.safe_load((project / "config/config.yaml").read_text())["operators"])
    assert {path.parts[-4] for path in built} == {*chosen}
    assert all(f"operator={operator}" in message for operator in chosen)
    pages = [*project.glob("results/report/*.html"), project / "results/mla_report.html"]
    assert {page.stem for page in pages} >= {*chosen[1:], "mla_report"}
    written = {page: page.stat().st_mtime_ns for page in pages}
    append(project / "kernels/elementwise_add/cute_tv/kernel.py", "\nANOTHER = 1\n")  # a comment would rebuild nothing
    again = run.made(run("catalogue", *grouped))
    assert again["compile"] == len(list(project.glob("results/compile/elementwise_add/cute_tv/*/*/build.json")))
    assert again["anatomy"] == again["compare"] == again["page"] == 1
    redone = {page.stem for page, date in written.items() if page.stat().st_mtime_ns != date}
    assert "elementwise_add" in redone and not redone & {*chosen[1:]} - {"elementwise_add"}


@pytest.mark.by_hand  # test_batch.py has batches, and the report in whole is made above, without GPUs
def test_a_report_over_classes_of_nodes_and_a_change(run) -> None:
    run.configure("5")
    run()
    page = (run.project / "results/mla_report.html").read_text()
    assert "Cases run on node classes: h200 (NVIDIA H200, sm_90, driver" in page and "NVIDIA B200" in page
    assert "Nothing to be done" in run()
    run.configure("[5, 6]", cases_per_job=2)
    batches = run.made(run())
    assert batches["batch"] == 4 and "compile" not in batches and "correctness" not in batches


@pytest.mark.by_hand  # test_serialized_plan.py has what is reported, without Slurm
def test_a_node_with_another_driver_measures_nothing(run) -> None:
    run.configure("5")
    path = run.project / "results/machine/h200.json"
    text = path.read_text()
    path.write_text(text.replace("580.159.04", "570.1"))
    started = run.start("--retries", "0", "measured")
    message = run.end(started)
    path.write_text(text)
    assert started.returncode != 0
    assert "this machine is not what the plan says: its driver is 580.159.04 here, planned was 570.1" in message


def test_a_lost_node_a_preempted_job_and_a_cancelled_one_are_run_again(run) -> None:
    # All three in the middle of a measurement, which takes long enough the first time and is quick the second.
    cluster = run.cluster

    def jobs(state: str) -> list[list[str]]:
        """Number and node of the jobs on GPU nodes that are in a state."""
        states = ("--noheader", "--partition=gpu", f"--state={state}", "--sort=i", "--format=%i %N")
        return [line.split() for line in cluster.run("squeue", *states).splitlines()]

    run.configure("[5, 6, 7, 8, 9]")
    wanted = RECORDS.format("correctness", "sm_90a", "h200").replace("*", "fp32_t256_v4")
    paths = [wanted.replace("m5", f"m{rows}") for rows in (7, 8, 9)]
    pretend(run.project, 60)
    for mark in run.project.glob("under_way*"):
        mark.unlink()
    started = run.start(*paths)
    wait_for(lambda: len(list(run.project.glob("under_way*"))) == 3, "three measurements", run)
    pretend(run.project, 0.05)
    (_, failed_node), (preempted, taken), (cancelled, _) = jobs("RUNNING")
    cluster.run("scancel", cancelled)
    urgent = ("--partition=urgent_gpu", f"--nodelist={taken}", "--exclusive", "--output=/dev/null")
    cluster.run("sbatch", *urgent, "--wrap=sleep 1")
    cluster.kill_node(failed_node)
    cluster.start_node(failed_node)
    wait_for(lambda: preempted in [number for number, *_ in jobs("PENDING")], "the job to be put back", run)
    cluster.run("scontrol", "update", f"JobId={preempted}", "StartTime=now")  # Slurm lets it wait for two minutes
    message = run.end(started)
    assert started.returncode == 0, message[-4000:]
    assert "Restarts=1" in cluster.run("scontrol", "show", "job", preempted), "it was put back into the queue by Slurm"
    assert message.count("Trying to restart job") == 2, "the lost one and the cancelled one were started again"
    assert [json.loads((run.project / path).read_text())["status"] for path in paths] == ["ok"] * 3
