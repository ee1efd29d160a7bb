"""Many cases in one job.

A record for each all the same, and only what is missing or stale is measured.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import sample
from cutesnake.analysis.evidence.gather import read_records
from cutesnake.model import record
from cutesnake.model.case_id import CaseId
from cutesnake.model.paths import SCRIPTS
from cutesnake.planning import outputs
from cutesnake.planning.batches import MANY, TOGETHER, cases_per_job, make_batches, make_simulated
from cutesnake.stages.measure import batch, gpu_process, stage
from cutesnake.stages.measure.gpu_process import GpuProcessError
from project import TINY, append, copy_project, jobs, replace, snakemake

CONFIG = """
targets: [sm_90a]
operators: [elementwise_add]
correctness: {seeds: [0]}
timing: {max_seconds: 1, max_noise_percent: 1}
stages: [correctness, timing]
simulation: {extent: none}
cases_per_job: 2
sweeps:
  elementwise_add:
    kernels: [cute]
    distributions: [randn]
    workloads:
      - {rows: [3, 5, 7], columns: 64}
    profile: []
"""
PRETEND = "\n\ndef measure(case):\n    return {metrics!r}, None\n"
INTERRUPTED = """
import signal, time
from concurrent.futures import ThreadPoolExecutor
from cutesnake.stages.measure import batch
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process begins without it
def measure():
    time.sleep(0.3)
    print(1, flush=True)
    time.sleep(60)
with ThreadPoolExecutor(2) as pool:
    batch._faults_of([pool.submit(measure)], pool)
"""
TIMED = sample.timing("cute", sample.workloads()[0], 1.0)


def planned(number: int, place: str = "") -> SimpleNamespace:
    case = CaseId("op", "kernel", "sm_90a", "v", f"w{number}", place)
    build = SimpleNamespace(key=case.build.key, operator="op", kernel="kernel", target="sm_90a")
    return SimpleNamespace(build=build, place=place, id=case, key=case.key)


def test_batches_hold_cases_of_one_build_and_place_in_their_order() -> None:
    result = make_batches("timing", [planned(n, place) for n in range(5) for place in ("", "h200")], 2)
    assert [b.key.removeprefix("timing/op/kernel/sm_90a/v/") for b in result] == [
        *("b0", "b1", "b2", "b0@h200", "b1@h200", "b2@h200")
    ]
    assert result[3].records() == [f"results/timing/op/kernel/sm_90a/v/w{n}@h200.json" for n in (0, 1)]
    assert sum(len(b.cases) for b in result) == 10


def test_simulated_checks_that_a_run_makes_are_one_batch_per_kernel_and_target() -> None:
    local, rest = make_simulated([planned(n) for n in range(3)], {planned(n).key for n in range(2)})
    assert local.path == "results/batch/simulated/op/kernel/sm_90a.json"
    assert local.records() == [f"results/correctness/op/kernel/sm_90a/v/w{n}.json" for n in range(2)]
    assert rest.path == "results/batch/simulated_rest/op/kernel/sm_90a.json"
    assert rest.records() == ["results/correctness/op/kernel/sm_90a/v/w2.json"]


def test_without_a_number_a_job_measures_many_where_there_are_thousands() -> None:
    assert [cases_per_job(None, measured) for measured in (0, MANY, MANY + 1)] == [1, 1, TOGETHER]
    assert cases_per_job(7, 10 * MANY) == 7


@pytest.fixture
def measured(tmp_path, monkeypatch, machine):
    """run(…) makes a batch of two cases.

    Returns the workloads that were asked of the GPU server.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".snakemake").mkdir()
    sampled = sample.evidence(gpu=True)
    timing = next(entry for entry in sampled.measured.values() if entry["stage"] == "timing")
    built = next(entry for entry in sampled.builds.values() if entry["status"] == "ok")
    Path("results/compile").mkdir(parents=True)
    record.write("compile", "results/compile/build.json", built)
    asked: list[str] = []
    broken: set[str] = set()
    monkeypatch.setattr(stage, "probe", lambda: machine("h200"))
    monkeypatch.setattr(batch, "probe", lambda: machine("h200"))

    def ask(case, limit_s, gpu=None):
        name = f"b{case['parameters']['batch']}"
        asked.append(name)
        if name in broken:
            raise GpuProcessError("the server went away")
        return json.loads(json.dumps(timing))

    monkeypatch.setattr(gpu_process, "ask", ask)

    def run(version: str = "one") -> list[str]:
        asked.clear()
        case = timing["case"]
        cases = [
            {
                "identity": {
                    **{key: case[key] for key in ("operator", "kernel", "target", "variant")},
                    "parameters": {**case["parameters"], "batch": number},
                },
                "build": "results/compile/build.json",
                "record": f"results/timing/b{number}.json",
                "needs": [],
                "recipe": outputs.recipe({"workflow": version}),
            }
            for number in (1, 2)
        ]
        batch.run_batch("timing", cases, {}, "results/batch/b0.json", "none-in-particular")
        return sorted(asked)  # two are under way at once

    return SimpleNamespace(run=run, broken=broken)


def test_only_what_is_missing_stale_or_damaged_is_measured(measured) -> None:
    assert measured.run() == ["b1", "b2"]
    assert measured.run() == []
    Path("results/timing/b2.json").unlink()
    assert measured.run() == ["b2"]
    Path("results/timing/b1.json").write_text("{")
    assert measured.run() == ["b1"]
    text = Path("results/timing/b1.json").read_text()
    Path("results/timing/b1.json").write_text(text.replace('"hot_us": ', '"hot_us": 1'))
    assert measured.run() == ["b1"], "a figure that somebody changed"
    assert measured.run("two") == ["b1", "b2"]
    assert set(read_records(["results/batch/b0.json"])) == {"results/timing/b1.json", "results/timing/b2.json"}


def test_an_interrupted_batch_does_not_wait_for_the_case_under_way() -> None:
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    job = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, env=environment)
    assert job.stdout.readline() == b"1\n"
    job.send_signal(signal.SIGINT)
    assert job.wait(timeout=20) == 128 + signal.SIGINT


def test_a_fault_of_the_machine_costs_its_case_and_not_the_batch(measured) -> None:
    measured.broken.add("b1")
    with pytest.raises(batch.BatchError, match="1 of 2 cases could not be measured: the server went away"):
        measured.run()
    assert not Path("results/batch/b0.json").exists() and Path("results/timing/b2.json").exists()
    measured.broken.clear()
    assert measured.run() == ["b1"]


def dates(project: Path) -> dict[str, int]:
    """When each record of a measurement was written."""
    paths = (path for stage in ("correctness", "timing") for path in (project / "results" / stage).rglob("*.json"))
    return {f"{path.parts[-6]}/{path.name}": path.stat().st_mtime_ns for path in paths}


@pytest.mark.slow
def test_a_run_in_batches_and_what_is_measured_again(tmp_path) -> None:
    project = copy_project(tmp_path / "project")
    (project / TINY).write_text(CONFIG)
    for name, metrics in {"correctness": sample.correctness("w"), "timing": TIMED}.items():
        append(project / f"workflow/scripts/cutesnake/stages/measure/{name}.py", PRETEND.format(metrics=metrics))
    assert jobs(project, machine="h200")["batch"] == 4
    done = snakemake(project, machine="h200")
    assert done.returncode == 0, done.stdout + done.stderr
    before = dates(project)
    assert len(before) == 6 and (project / "results/mla_report.html").exists()
    assert not jobs(project, machine="h200")
    next((project / "results/timing").rglob("m5_n64_fp32.json")).unlink()
    done = snakemake(project, machine="h200")
    assert done.returncode == 0 and "made again" in done.stderr, done.stdout + done.stderr
    after = dates(project)
    assert [name for name in before if before[name] != after[name]] == ["timing/m5_n64_fp32.json"]
    replace(project / TINY, "rows: [3, 5, 7]", "rows: [2, 3, 5, 7]")
    done = snakemake(project, machine="h200")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {name: made for name, made in dates(project).items() if name in after} == after, "others moved"
    assert len(dates(project)) == 8 and os.path.exists(project / "results/compare/elementwise_add.csv")


@pytest.mark.slow
def test_what_was_measured_one_by_one_is_not_measured_again_in_batches_nor_the_other_way(tmp_path) -> None:
    project = copy_project(tmp_path / "project")
    (project / TINY).write_text(CONFIG.replace("cases_per_job: 2", "cases_per_job: auto"))
    for name, metrics in {"correctness": sample.correctness("w"), "timing": TIMED}.items():
        append(project / f"workflow/scripts/cutesnake/stages/measure/{name}.py", PRETEND.format(metrics=metrics))
    assert jobs(project, machine="h200")["timing"] == 3
    done = snakemake(project, machine="h200")
    assert done.returncode == 0, done.stdout + done.stderr
    before = dates(project)
    assert len(before) == 6
    replace(project / TINY, "cases_per_job: auto", "cases_per_job: 2")
    assert jobs(project, machine="h200")["batch"] == 4
    done = snakemake(project, machine="h200")
    assert done.returncode == 0 and dates(project) == before, done.stdout + done.stderr
    replace(project / TINY, "cases_per_job: 2", "cases_per_job: 1")
    done = snakemake(project, machine="h200")
    assert done.returncode == 0 and dates(project) == before, done.stdout + done.stderr
