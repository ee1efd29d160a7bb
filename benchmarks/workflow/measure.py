"""Wall time of the workflow: from clean, up to date, and a 1,000-case dry run.

Run it with the project's Python while nothing else uses the machine:

    PYTHONPATH=tests .venv/bin/python -m benchmarks.workflow.measure

It works on a copy of the project in a temporary folder, with the wheels that results/fetch has kept, so that the
network's speed is left out.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.project import copy_project

ROOT = Path(__file__).resolve().parents[2]

CASES = """targets: [sm_90a]
stages: [timing]
operators: [elementwise_add]
correctness: {seeds: [0]}
timing: {max_seconds: 1, max_noise_percent: 1}
sweeps:
  elementwise_add:
    kernels: [cute, cutile]
    dtypes: [fp32]
    distributions: [randn]
    workloads: [{rows: [%s], columns: 4096}]
    profile: []
"""


def seconds(project: Path, *arguments: str, machine: str = "none") -> float:
    """Wall time of one Snakemake run, which must succeed."""
    env = {**os.environ, "CUTESNAKE_MACHINE": str(project / f"tests/machines/{machine}.json")}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "2", *arguments], cwd=project, env=env, capture_output=True
    )
    if done.returncode:
        sys.exit(done.stderr.decode()[-3000:])
    return time.monotonic() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = copy_project(Path(folder) / "project")
        fetched = ROOT / "results/fetch"
        if fetched.exists():
            shutil.copytree(fetched, project / "results/fetch", copy_function=shutil.copy2)
        sweep = project / "sweep.yaml"
        sweep.write_text(CASES % ", ".join(str(rows) for rows in range(1, 501)))  # x 2 kernels = 1,000 cases
        dry = ["--dry-run", "--quiet", "all", "--configfile", str(sweep)]
        result = {
            "processors": os.cpu_count(),
            "load_before": os.getloadavg()[0],
            "default_from_clean_s": seconds(project),
            "nothing_to_do_s": statistics.median(seconds(project) for _ in range(5)),
            "dry_run_1000_cases_no_gpu_s": statistics.median(seconds(project, *dry) for _ in range(3)),
            "dry_run_1000_cases_h200_s": statistics.median(seconds(project, *dry, machine="h200") for _ in range(3)),
        }
    print(json.dumps({key: round(value, 2) for key, value in result.items()}, indent=1))


if __name__ == "__main__":
    main()
