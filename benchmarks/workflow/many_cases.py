"""What the main process needs to plan and to run many cases, with cards that are pretended.

    .venv/bin/python benchmarks/workflow/many_cases.py plan [cases] [cases per job]
    .venv/bin/python benchmarks/workflow/many_cases.py run [cases] [cards]
    .venv/bin/python benchmarks/workflow/many_cases.py restart [cases] [cards]

All work in a copy of the project, on one build of `elementwise_add` with as many workloads as cases. `plan` is a dry
run of checking and timing each, five times. `run` does it: to measure is to wait for 50 ms, workers import no torch,
and everything else is real, with as many jobs at once as cards. `restart` kills the main process of such a run when a
quarter of the records is there, starts it again when its jobs have ended, says after how many seconds the next record
is written, and goes on to the end. What counts is processor time, so that other work on the machine does not. Nothing
that comes out is a measurement of a kernel, and nothing is kept.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "workflow/scripts")]

import sample  # noqa: E402
from project import append, copy_project, replace  # noqa: E402

REPEATS = 5
QUIET_SECONDS = 5.0  # without a new record after which jobs of a killed run are held to have ended
SWEEP = """targets: [sm_90a]
stages: [correctness, timing]
operators: [elementwise_add]
simulation: {{extent: none}}
correctness: {{seeds: [0]}}
cases_per_job: {cases_per_job}
sweeps:
  elementwise_add:
    kernels: [cute]
    distributions: [randn]
    profile: []
    workloads: [{{rows: [{rows}], columns: 64}}]
"""
MEASURE = """

def measure(case):
    import time
    time.sleep(0.05)
    return {metrics!r}, None
"""
IMPORT = "import torch  # noqa: F401 - the point of the server: forked children have it at no cost"


def plan(cases: int, cases_per_job: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = prepared(Path(folder), cases, 1, cases_per_job)
        for _ in range(REPEATS):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            began = time.monotonic()
            subprocess.run(command("--dry-run"), cwd=project, env=environment(project), stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            wall = time.monotonic() - began
            peak = after.ru_maxrss / 1024
            print(f"plan: {seconds:.1f} s of a processor, {wall:.1f} by the clock, {peak:.0f} MB at most", flush=True)


def run(cases: int, cards: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = prepared(Path(folder), cases, cards, 50)
        subprocess.run(command("compiled"), cwd=project, env=environment(project), check=True, capture_output=True)
        began = time.monotonic()
        with (Path(folder) / "log").open("w") as log:
            process = start(project, cards, log)
            seconds, peak = to_the_end(process)
        told("run", project, cases, process, time.monotonic() - began)
        print(f"main process: {seconds:.1f} s of a processor, {1e3 * seconds / cases:.1f} ms a case, {peak:.0f} MB")


def to_the_end(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Seconds of a processor that a process has used when it ends, without its children, and its most memory in MB."""
    seconds, peak = 0.0, 0.0
    while process.poll() is None:
        seconds, peak = used(process.pid) or (seconds, peak)
        time.sleep(0.2)
    return seconds, peak


def told(what: str, project: Path, cases: int, process: subprocess.Popen[bytes], wall: float) -> None:
    """Say how a run ended; ends this process with what it said, where it failed."""
    print(f"{what}: {records(project)} of {2 * cases} records, exit {process.returncode}, {wall:.0f} s by the clock")
    if process.returncode:
        sys.exit((project.parent / "log").read_text()[-3000:])


def start(project: Path, cards: int, log: IO[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("measured", cores=cards), cwd=project, env=environment(project), stdout=log, stderr=log
    )


def records(project: Path) -> int:
    return sum(1 for stage in ("correctness", "timing") for _ in (project / "results" / stage).rglob("*.json"))


def restart(cases: int, cards: int) -> None:
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w") as log:
        project = prepared(Path(folder), cases, cards, 50)
        subprocess.run(command("compiled"), cwd=project, env=environment(project), check=True, capture_output=True)
        first = start(project, cards, log)
        used_first, peak_first = 0.0, 0.0
        while first.poll() is None and records(project) < cases // 2:
            used_first, peak_first = used(first.pid) or (used_first, peak_first)
            time.sleep(0.5)
        first.kill()
        first.wait()
        before = -1
        while before != (before := records(project)):  # what was under way ends by itself
            time.sleep(QUIET_SECONDS)
        began = time.monotonic()
        second = start(project, cards, log)
        while second.poll() is None and records(project) == before:
            time.sleep(0.1)
        wall = time.monotonic() - began
        print(f"restart: killed at {before} of {2 * cases} records; the next one after {wall:.1f} s by the clock")
        print(f"main process: {used_first:.1f} s of a processor until it was killed, {peak_first:.0f} MB", flush=True)
        seconds, peak = to_the_end(second)
        told("to the end", project, cases, second, time.monotonic() - began)
        each = 1e3 * (used_first + seconds) / cases
        print(f"main process: {seconds:.1f} s more, {each:.1f} ms a case in both, {peak:.0f} MB at most")


def used(process: int) -> tuple[float, float] | None:
    """Seconds of a processor that a process has used, without its children, and its most memory in MB."""
    try:
        times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        (peak,) = (int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, ValueError):  # it has ended
        return None
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"), peak / 1024


def prepared(folder: Path, cases: int, cards: int, cases_per_job: int) -> Path:
    """A copy of the project with its sweep, its machine and what stands for measuring."""
    project = copy_project(folder / "project")
    rows = ", ".join(str(number + 1) for number in range(cases))
    (project / "sweep.yaml").write_text(SWEEP.format(cases_per_job=cases_per_job, rows=rows))
    machine = json.loads((project / "tests/machines/h200.json").read_text())
    (card,) = machine["devices"]
    machine["devices"] = [{**card, "index": n, "uuid_hash": f"pretended{n:03}"} for n in range(cards)]
    (project / "machine.json").write_text(json.dumps(machine))
    metrics = {"correctness": sample.correctness("w"), "timing": sample.timing("cute", sample.workloads()[0], 1.0)}
    for stage, found in metrics.items():
        append(project / f"workflow/scripts/cutesnake/stages/measure/{stage}.py", MEASURE.format(metrics=found))
    replace(project / "workflow/scripts/cutesnake/runtime/worker.py", IMPORT, "pass")
    return project


def command(*arguments: str, cores: int = 2) -> list[str]:
    return [sys.executable, "-m", "snakemake", *arguments, "--cores", str(cores), "--configfile", "sweep.yaml"]


def environment(project: Path) -> dict[str, str]:
    return {**os.environ, "CUTESNAKE_MACHINE": str(project / "machine.json")}


def main(what: str, *numbers: str) -> None:
    action, usual = {"plan": (plan, (20_000, 50)), "run": (run, (10_000, 64)), "restart": (restart, (10_000, 64))}[what]
    action(*map(int, numbers), *usual[len(numbers) :])


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["plan"]))
