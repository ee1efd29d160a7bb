"""How long comparison, pictures and page of one operator with many workloads take, and how large they are.

    .venv/bin/python benchmarks/workflow/report_size.py [workloads]

It plans `elementwise_add` for a pretended H200 with as many workloads (5,000 unless another number is given) in a copy
of the project, compiles its kernels, and makes up records of correctness and timing: copies of a recorded one with
other sizes. Nothing of them is shown or kept; what counts is how many they are.
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

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from project import copy_project  # noqa: E402

COLUMNS = 64
KERNELS = ("cute", "cutile", "torch_add")
SWEEP = """targets: [sm_90a]
stages: [correctness, timing]
operators: [elementwise_add]
sweeps:
  elementwise_add:
    kernels: [%s]
    profile: []
    workloads: [{rows: [%s], columns: %d}]
"""
STEPS = ("compare", "plot", "page")


def main(workloads: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = copy_project(Path(folder) / "project")
        sweep = project / "sweep.yaml"
        sweep.write_text(SWEEP % (", ".join(KERNELS), ", ".join(str(n + 1) for n in range(workloads)), COLUMNS))
        snakemake(project, "compiled", "results/arch.json", "results/plan/elementwise_add.json")
        snakemake(project, "results/inspect/elementwise_add/roofline.json")
        count = make_up(project)
        print(f"{workloads} workloads, {count} records")
        for name in STEPS:
            subprocess.run([sys.executable, __file__, name], cwd=project, check=True, env=environment(project))
        for path in [*sorted((project / "results").glob("*/elementwise_add*")), project / "results/mla_report.html"]:
            if path.is_file():
                print(f"{path.relative_to(project)}: {path.stat().st_size / 1e6:.2f} MB")


def environment(project: Path) -> dict[str, str]:
    machine = str(project / "tests/machines/h200.json")
    return {**os.environ, "CUTESNAKE_MACHINE": machine, "PYTHONPATH": str(project / "workflow/scripts")}


def snakemake(project: Path, *targets: str) -> None:
    command = [sys.executable, "-m", "snakemake", *targets, "--cores", "2", "--configfile", "sweep.yaml"]
    done = subprocess.run(command, cwd=project, env=environment(project), capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode()[-3000:])


def make_up(project: Path) -> int:
    """Write a record of each case of both stages; returns how many."""
    plan = json.loads((project / "results/plan/elementwise_add.json").read_text())
    dsls = {decision["kernel"]: decision["dsl"] for decision in plan["decisions"]}
    variants = {(b["kernel"], b["target"], b["variant"]["id"]): b["variant"] for b in plan["builds"]}
    for stage in ("correctness", "timing"):
        sample = json.loads(next((project / f"recorded/nvidia_h200/{stage}-elementwise_add-cutile.jsonl").open()))
        for case in plan["cases"]:
            _, kernel, target, variant = case["build"].split("/")
            made_up = {
                **sample["case"],
                **{"kernel": kernel, "dsl": dsls[kernel], "target": target},
                **{"variant": variants[kernel, target, variant], "workload": case["workload"]},
                "parameters": plan["workloads"][case["workload"]],
            }
            path = project / "results" / stage / case["build"] / f"{case['workload']}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({**sample, "case": made_up}))
    return 2 * len(plan["cases"])


def step(name: str) -> None:
    """One of the steps in a process of its own, as the workflow runs it, in the project's folder."""
    from cutesnake.analysis.compare.comparison import write_comparison
    from cutesnake.analysis.evidence.gather import load_evidence
    from cutesnake.model import record
    from cutesnake.report import Contents, write_report
    from cutesnake.report.plot import plot
    from cutesnake.report.plot.overview import write_overview

    began = time.monotonic()
    results = Path("results")
    records = [
        p for stage in ("compile", "inspect", "correctness", "timing") for p in results.glob(f"{stage}/**/*.json")
    ]
    records = [p for p in records if p.name not in ("roofline.json", "launch.json") and "store" not in p.parts]
    roofline = results / "inspect/elementwise_add/roofline.json"
    evidence = load_evidence(results / "plan/elementwise_add.json", records, roofline, [])
    loaded = time.monotonic() - began
    table, pictures = results / "compare/elementwise_add.json", results / "plot/elementwise_add"
    if name == "compare":
        write_comparison(evidence, table, table.with_suffix(".csv"))
        write_overview([record.read("compare", table)], results / "overview")
    elif name == "plot":
        plot(evidence, pictures)
    else:
        comparison = record.read("compare", table)
        contents = Contents(
            arch=record.read("arch", results / "arch.json"),
            evidence=evidence,
            comparison=comparison,
            pictures=record.read("plot", pictures / "pictures.json")["pictures"],
            picture_folder=pictures,
            config="",
            sweep="",
            front="mla_report.html",
            comparisons=[comparison],
            overview=results / "overview",
        )
        write_report(contents, results / "mla_report.html")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name}: {time.monotonic() - began:.1f} s, {loaded:.1f} of them reading; {peak:.0f} MB", flush=True)


if __name__ == "__main__":
    first = sys.argv[1] if len(sys.argv) > 1 else "5000"
    step(first) if first in STEPS else main(int(first))
