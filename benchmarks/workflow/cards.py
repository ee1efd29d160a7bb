"""How long the measured stages take on one card and on several alike of one machine, and what times they then tell.

    python benchmarks/workflow/cards.py FOLDER [seconds]

Runs 18 cases of MLA decode (checked and timed as by default) on two cards, then the same on one of them, each in a
fresh copy of the project with nothing but builds in `results/`, and where less than `seconds` (150) are gone by then on
two cards once more, six cases to a job. Before that a case of each kernel is run on both cards and not counted, so that
neither waits for files and drivers that the other one has warmed.

It needs the builds of `cute_sm90` and `cutile` for sm_90a in `results/` (made by the target `compiled` of the same
commit), two cards of that architecture (the first two of CUDA_VISIBLE_DEVICES), and neither DSL nor network. FOLDER
gets `cards.json`, what is said below, and the logs and records of the runs.

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
sys.path[:0] = [str(ROOT / "tests")]

from project import copy_project  # noqa: E402

CONFIG = {
    "targets": ["sm_90a"],
    "stages": ["correctness", "timing"],
    "operators": ["mla_decode"],
    "simulation": {"extent": "none"},
    "sweeps": {
        "mla_decode": {
            "kernels": ["cute_sm90", "cutile"],
            "profile": [],
            "workloads": [{"batch": [1, 32, 128], "kv_length": [1024, 4096, 8192]}],
        }
    },
}
FIGURES = ("cold_us", "hot_us", "second_source_us", "burst_us")
ALIKE_PERCENT = 1.5
WARM_UP = [{"batch": 32, "kv_length": 1024}]


def fresh(to: Path, cases_per_job: int, workloads: list[dict[str, Any]] | None = None) -> Path:
    project = copy_project(to)
    for part in (*(f"mla_decode/{name}/sm_90*" for name in CONFIG["sweeps"]["mla_decode"]["kernels"]), "runtime"):
        for source in (ROOT / "results/compile").glob(part):
            shutil.copytree(source, project / source.relative_to(ROOT))
    chosen = {**CONFIG["sweeps"]["mla_decode"], **({"workloads": workloads} if workloads else {})}
    text = json.dumps({**CONFIG, "sweeps": {"mla_decode": chosen}, "cases_per_job": cases_per_job})
    (project / "run.yaml").write_text(text)
    return project


def run(folder: Path, cards: str, cases_per_job: int, workloads: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """`measured` on the cards that `cards` names as CUDA_VISIBLE_DEVICES does; what it took, and its cases."""
    project = fresh(folder, cases_per_job, workloads)
    command = [sys.executable, "-m", "snakemake", "measured", "--workflow-profile", "profiles/local"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": cards}
    began = time.time()
    with (folder / "log.txt").open("w") as log:
        done = subprocess.run(
            [*command, "--configfile", "run.yaml"], cwd=project, env=environment, stdout=log, stderr=log, check=False
        )
    seconds = time.time() - began
    found = {"cards": len(cards.split(",")), "cases_per_job": cases_per_job, "exit": done.returncode}
    return {**found, "seconds": round(seconds, 2), **told(project, began, seconds)}


def told(project: Path, began: float, seconds: float) -> dict[str, Any]:
    """What the records of a run tell, by their dates, in seconds since it began."""
    jobs = []
    for stage in ("correctness", "timing"):
        for path in (project / "results" / stage).rglob("*.json"):
            record, end = json.loads(path.read_text()), path.stat().st_mtime - began
            name = "/".join(path.parts[-4:-3] + path.parts[-1:])
            card = (record["device"] or {}).get("uuid_hash")
            jobs.append(
                {"stage": stage, "case": name.removesuffix(".json"), "status": record["status"], "card": card}
                | {"began": round(end - record["seconds"], 3), "ended": round(end, 3)}
                | {key: record["metrics"].get(key) for key in FIGURES if stage == "timing" and record["metrics"]}
            )
    jobs.sort(key=lambda job: job["began"])
    by_card = [[job for job in jobs if job["card"] == card] for card in sorted({job["card"] for job in jobs})]
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
        "idle_at_the_end": [round(last - mine[-1]["ended"], 2) for mine in by_card],
        "each": jobs,
    }


def differences(several: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """Percent by which times on several cards differ from those on one, by whether it was the same card."""
    timed = {job["case"]: job for job in one["each"] if job["stage"] == "timing"}
    found: dict[str, Any] = {}
    for figure, same in itertools.product(FIGURES, (True, False)):
        values = [
            round(100 * (job[figure] / timed[job["case"]][figure] - 1), 2)
            for job in several["each"]
            if job["stage"] == "timing" and job.get(figure) and timed.get(job["case"], {}).get(figure)
            if (job["card"] == timed[job["case"]]["card"]) is same
        ]
        outside = sum(abs(value) > ALIKE_PERCENT for value in values)
        key = f"{figure}, {'the same card' if same else 'another card'}"
        found[key] = {"cases": len(values), f"beyond {ALIKE_PERCENT} %": outside, "percent": sorted(values)}
    return found


def main(folder: str, seconds: str = "150") -> None:
    out = Path(folder).resolve()
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    both = ",".join(os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")[:2])
    run(out / "warm", both, 1, WARM_UP)
    runs = {"two cards": run(out / "two", both, 1), "one card": run(out / "one", both.split(",")[0], 1)}
    if time.monotonic() - began + 1.2 * runs["two cards"]["seconds"] < float(seconds):
        runs["two cards, six cases to a job"] = run(out / "batches", both, 6)
    two, one = runs["two cards"], runs["one card"]
    compared = {
        "speed-up of the whole command": round(one["seconds"] / two["seconds"], 3),
        "speed-up from the first measurement to the last": round(one["first_to_last"] / two["first_to_last"], 3),
        "times on two cards against one": differences(two, one),
    }
    (out / "cards.json").write_text(json.dumps({"compared": compared, "runs": runs}, indent=1))
    shown = {name: {key: value for key, value in one.items() if key != "each"} for name, one in runs.items()}
    print(json.dumps({"compared": compared, "runs": shown}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
