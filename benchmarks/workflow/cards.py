"""How long the measured stages take on one card and on two alike of one machine, and what times they then tell.

    python benchmarks/workflow/cards.py FOLDER [cases] [seconds]

Takes `cases` (22) of the default sweep for sm_90a, evenly over all operators and kernels, and has them checked and
timed, one to a job: on two cards, on the first of them alone, and where less than `seconds` (190) will be gone by then
on two again. Each run is in a fresh copy of the project with nothing but builds in `results/`. Before that a few of the
cases are run on both cards and not counted, so that nobody waits for files and drivers that others then find warm.

It needs the builds in `results/` (made by the target `compiled` of the same commit), two cards of that architecture
(the first two of CUDA_VISIBLE_DEVICES), and neither DSL nor network. FOLDER gets `cards.json`, what is said below, and
the logs and records of the runs.

A job's start and end are told from when its record was written and from the seconds that it says it took; what lies
between two jobs of a card is the workflow's.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "workflow/scripts")]

from cutesnake.planning import config as configuration  # noqa: E402
from cutesnake.planning import machine, matrix  # noqa: E402
from cutesnake.planning.strict_yaml import read  # noqa: E402
from cutesnake.stages.measure.telemetry import POWER_CAP  # noqa: E402
from cutesnake.stages.measure.timing import SM_CLOCKS  # noqa: E402
from project import copy_project  # noqa: E402

STAGES = ("correctness", "timing")
CHANGES: dict[str, Any] = {"targets": ["sm_90a"], "stages": list(STAGES), "cases_per_job": 1}
FIGURES = ("cold_us", "hot_us", "second_source_us", "burst_us")
# Figure -> where the SM clock of its samples stands.
CLOCKS = dict(zip(FIGURES, (SM_CLOCKS[kind] for kind in ("cold", "hot", "graph", "burst")), strict=True))
KEPT = (*FIGURES, *CLOCKS.values(), "throttle_reasons", "burst_range_percent", "second_source_range_percent")
ALIKE_PERCENT = 1.5
WARM_UP = 4  # cases
Times = dict[tuple[str, str], float]  # by case and figure: microseconds, or percent
SPARE = 1.15  # what a run may take longer than the one before it, for the limit


def chosen(count: int) -> list[str]:
    """Keys of `count` cases of the default sweep that run on the card at hand and are built."""
    default = read(ROOT / "config/config.yaml", "config")
    simulation = {**default["simulation"], "extent": "none"}
    experiment = configuration.check(default | CHANGES | {"simulation": simulation})
    here = machine.probe(matrix.modules_needed(experiment))
    plan = matrix.make_plan(experiment, here, ROOT / "results")
    keys = [case.key for case in plan.run_here("timing") if (ROOT / f"results/compile/{case.build.key}").is_dir()]
    if not keys:
        sys.exit(f"no case of the default sweep is built and runs here: {here.problem or 'see results/compile'}")
    return [keys[number * len(keys) // count] for number in range(count)]


def fresh(to: Path) -> Path:
    project = copy_project(to)
    for part in ("compile", "fetch"):
        if (ROOT / "results" / part).is_dir():
            shutil.copytree(ROOT / "results" / part, project / "results" / part, symlinks=True)
    (project / "run.yaml").write_text(json.dumps(CHANGES | {"simulation": {"extent": "none"}}))
    return project


def run(folder: Path, cards: str, keys: list[str]) -> dict[str, Any]:
    """Cases on the cards that `cards` names as CUDA_VISIBLE_DEVICES does; what they took, each and in all."""
    project = fresh(folder)
    records = [f"results/{stage}/{key}.json" for key in keys for stage in STAGES]
    command = [sys.executable, "-m", "snakemake", *records, "--workflow-profile", "profiles/local"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": cards}
    began = time.time()
    with (folder / "log.txt").open("w") as log:
        done = subprocess.run(
            [*command, "--configfile", "run.yaml"], cwd=project, env=environment, stdout=log, stderr=log, check=False
        )
    seconds = time.time() - began
    found = {"cards": len(cards.split(",")), "exit": done.returncode}
    return {**found, "seconds": round(seconds, 2), **told(project, began, seconds)}


def told(project: Path, began: float, seconds: float) -> dict[str, Any]:
    """What the records of a run tell, by their dates, in seconds since it began."""
    jobs = []
    for stage in STAGES:
        for path in (project / "results" / stage).rglob("*.json"):
            record, end = json.loads(path.read_text()), path.stat().st_mtime - began
            case = path.relative_to(project / "results" / stage).with_suffix("").as_posix()
            card, took = (record["device"] or {}).get("uuid_hash"), record["seconds"] or 0.0
            jobs.append(
                {"stage": stage, "case": case, "status": record["status"], "card": card}
                | {"began": round(end - took, 3), "ended": round(end, 3)}
                | {key: record["metrics"].get(key) for key in KEPT if stage == "timing" and record["metrics"]}
            )
    jobs.sort(key=lambda job: job["began"])
    by_card = [[job for job in jobs if job["card"] == card] for card in sorted({str(job["card"]) for job in jobs})]
    between = [after["began"] - before["ended"] for mine in by_card for before, after in itertools.pairwise(mine)]
    first, last = min(job["began"] for job in jobs), max(job["ended"] for job in jobs)
    return {
        "jobs": len(jobs),
        "failed": sum(job["status"] != "ok" for job in jobs),
        "before_the_first": round(first, 2),
        "first_to_last": round(last - first, 2),
        "after_the_last": round(seconds - last, 2),
        "measuring": round(sum(job["ended"] - job["began"] for job in jobs), 2),
        "between_jobs": {"mean": round(statistics.mean(between), 3), "most": round(max(between), 3)},
        "idle_at_the_end": [round(last - max(job["ended"] for job in mine), 2) for mine in by_card],
        "each": jobs,
    }


def times(*runs: dict[str, Any]) -> Times:
    """Every figure of every case that the runs have timed."""
    jobs = [job for run in runs for job in run["each"] if job["stage"] == "timing"]
    return {(job["case"], figure): job[figure] for job in jobs for figure in FIGURES if job.get(figure)}


def cycles(*runs: dict[str, Any]) -> Times:
    """Every figure times the SM clock of its samples, of cases that the power limit held back: their clock differs from
    one minute to the next, and their time with it."""
    jobs = [job for run in runs for job in run["each"] if POWER_CAP in (job.get("throttle_reasons") or ())]
    return {
        (job["case"], figure): job[figure] * job[clock]
        for job in jobs
        for figure, clock in CLOCKS.items()
        if job.get(figure) and job.get(clock)
    }


def percent(run: Times, other: Times) -> Times:
    """By how many percent each figure that both have differs from the other's."""
    return {key: 100 * (run[key] / other[key] - 1) for key in run if key in other}


def differences(run: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Percent by which times of a run differ from those of another one, by whether it was the same card."""
    here, there = (
        {job["case"]: job["card"] for job in one["each"] if job["stage"] == "timing"} for one in (run, other)
    )
    each = percent(times(run), times(other))
    found: dict[str, Any] = {}
    for figure, same in itertools.product(FIGURES, (True, False)):
        values = [
            round(value, 2)
            for (case, of), value in each.items()
            if of == figure and (here[case] == there[case]) is same
        ]
        outside = sum(abs(value) > ALIKE_PERCENT for value in values)
        median = round(statistics.median(values), 2) if values else None
        key = f"{figure}, {'the same card' if same else 'another card'}"
        found[key] = {"cases": len(values), f"beyond {ALIKE_PERCENT} %": outside, "median": median}
        found[key]["percent"] = sorted(values)
    return found


def compared(runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    one = runs["one card"]
    found: dict[str, Any] = {}
    for name, several in runs.items():
        if several is not one:
            found[f"speed-up, {name}"] = {
                "of the whole command": round(one["seconds"] / several["seconds"], 3),
                "from the first measurement to the last": round(one["first_to_last"] / several["first_to_last"], 3),
                "of measuring alone": round(2 * one["measuring"] / several["measuring"], 3),
            }
            found[f"times, {name} against one card"] = differences(several, one)
    if again := runs.get("two cards again"):
        found["times, two cards again against two cards"] = differences(again, runs["two cards"])
    return found


def main(folder: str, cases: str = "22", seconds: str = "190") -> None:
    out = Path(folder).resolve()
    out.mkdir(parents=True, exist_ok=True)
    began, keys = time.monotonic(), chosen(int(cases))
    both = ",".join(os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")[:2])
    run(out / "warm", both, keys[:: max(1, len(keys) // WARM_UP)])
    runs: dict[str, dict[str, Any]] = {}
    for name, cards in {"two cards": both, "one card": both.split(",")[0], "two cards again": both}.items():
        needed = SPARE * runs["two cards"]["seconds"] if "one card" in runs else 0.0
        if time.monotonic() - began + needed > float(seconds):
            break
        runs[name] = run(out / name.replace(" ", "_"), cards, keys)
        found = compared(runs) if "one card" in runs else {}
        (out / "cards.json").write_text(json.dumps({"compared": found, "runs": runs}, indent=1))
    shown = {name: {key: value for key, value in one.items() if key != "each"} for name, one in runs.items()}
    print(json.dumps({"compared": found, "runs": shown}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
